//! Adaptive client throttling: a client whose requests are mostly rejected sends fewer of them.

use std::time::Duration;

use crate::{chance::Chance, criticality::Criticality, ratio::Ratio, time::Instant, window::Window};

/// How eagerly a client throttles itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How many requests are made for every one that is accepted before some are rejected locally. Two lets
    /// the target see twice what it accepts, which it needs to notice that load is there; lower is stricter.
    pub requests_per_accept: Ratio,
    /// The window over which both are counted.
    pub window: Duration,
}

impl Default for Settings {
    /// Google's values: K = 2 over two minutes.
    fn default() -> Self {
        Self {
            requests_per_accept: Ratio::from_parts(2 * Ratio::PARTS),
            window: Duration::from_secs(120),
        }
    }
}

const REQUESTS: usize = 0;
const ACCEPTS: usize = 1;

/// The throttle of one target: rejects a request locally with probability
/// `max(0, (requests − K·accepts) / (requests + 1))`.
///
/// Requests that are rejected locally count as requests, or the probability would fall as soon as the
/// throttle works. Requests that are sent count when they end, together with their accept: one that is under
/// way has not been rejected, and a client that starts with many calls at once would otherwise turn healthy
/// ones away. One that is given up before the target said anything is never counted. Each criticality has
/// counts of its own, so that rejected background work does not throttle what a person waits for.
#[derive(Debug, Clone)]
pub struct Throttle {
    settings: Settings,
    windows: [Window<2>; Criticality::ALL.len()],
}

impl Throttle {
    /// A throttle that has seen nothing yet.
    #[must_use]
    pub fn new(settings: Settings, now: Instant) -> Self {
        Self {
            settings,
            windows: std::array::from_fn(|_| Window::new(settings.window, now)),
        }
    }

    /// Changes the settings and keeps the counts.
    pub fn replace(&mut self, settings: Settings, now: Instant) {
        for window in &mut self.windows {
            window.set_length(settings.window, now);
        }
        self.settings = settings;
    }

    /// Lets a request pass, or rejects it locally and counts it.
    #[inline]
    pub fn admits(&mut self, criticality: Criticality, now: Instant, chance: &mut impl Chance) -> bool {
        let window = &mut self.windows[criticality.index()];
        window.advance(now);
        let share = self.settings.rejection(window.sum(REQUESTS), window.sum(ACCEPTS));
        let rejected = chance.happens(share);
        if rejected {
            window.add(REQUESTS);
        }
        !rejected
    }

    /// Whether a request passes without a draw. Counts nothing.
    #[inline]
    pub(crate) fn surely_admits(&mut self, criticality: Criticality, now: Instant) -> bool {
        let window = &mut self.windows[criticality.index()];
        window.advance(now);
        self.settings
            .requests_per_accept
            .covers(window.sum(REQUESTS), window.sum(ACCEPTS))
    }

    /// Until when successes may be counted later, by [`Throttle::on_successes`], because no request that is accepted makes it
    /// reject the next one; `None` where requests are rejected, or may be.
    pub(crate) fn rests_until(&mut self, now: Instant) -> Option<Instant> {
        let share = self.settings.requests_per_accept;
        if share < Ratio::ONE {
            return None;
        }
        let mut until = Instant::NEVER;
        for window in &mut self.windows {
            window.advance(now);
            if !share.covers(window.sum(REQUESTS), window.sum(ACCEPTS)) {
                return None;
            }
            until = until.min(window.bucket_ends());
        }
        Some(until)
    }

    /// So many requests of each criticality have ended in the present bucket, and none of them was rejected.
    pub(crate) fn on_successes(&mut self, ended: &[u32; Criticality::ALL.len()]) {
        for (window, ended) in self.windows.iter_mut().zip(ended) {
            window.add_many(REQUESTS, *ended);
            window.add_many(ACCEPTS, *ended);
        }
    }

    /// A request that was sent has ended. The target has accepted it, whatever came of it, unless it rejected it.
    #[inline]
    pub fn on_end(&mut self, criticality: Criticality, rejected: bool, now: Instant) {
        let window = &mut self.windows[criticality.index()];
        window.advance(now);
        window.add(REQUESTS);
        if !rejected {
            window.add(ACCEPTS);
        }
    }

    /// The probability that a request would be rejected locally.
    #[must_use]
    pub fn rejection(&mut self, criticality: Criticality, now: Instant) -> Ratio {
        let window = &mut self.windows[criticality.index()];
        window.advance(now);
        self.settings.rejection(window.sum(REQUESTS), window.sum(ACCEPTS))
    }
}

impl Settings {
    #[inline]
    fn rejection(&self, requests: u64, accepts: u64) -> Ratio {
        if self.requests_per_accept.covers(requests, accepts) {
            return Ratio::ZERO;
        }
        // In billionths of a request, so that a K of 1.5 lets one and a half of them pass and not one.
        let beyond = u128::from(requests) * u128::from(Ratio::PARTS)
            - u128::from(self.requests_per_accept.parts()) * u128::from(accepts);
        let share = beyond / (u128::from(requests) + 1);
        Ratio::from_parts(share.try_into().unwrap_or(Ratio::PARTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{Highest, Lowest};

    const NOW: Instant = Instant::ZERO;
    const CRITICAL: Criticality = Criticality::Critical;

    fn fed(requests: u64, accepts: u64) -> Throttle {
        let mut throttle = Throttle::new(Settings::default(), NOW);
        for number in 0..requests {
            assert!(throttle.admits(CRITICAL, NOW, &mut Lowest));
            throttle.on_end(CRITICAL, number >= accepts, NOW);
        }
        throttle
    }

    #[test]
    fn the_formula() {
        for (requests, accepts) in [(0u32, 0u32), (10, 10), (10, 5), (10, 4), (100, 10), (1000, 0)] {
            let (r, a) = (f64::from(requests), f64::from(accepts));
            let expected = ((r - 2.0 * a) / (r + 1.0)).max(0.0);
            let got = fed(requests.into(), accepts.into())
                .rejection(CRITICAL, NOW)
                .as_f64();
            assert!(
                (got - expected).abs() < 1e-8,
                "{requests} {accepts}: {got} {expected}"
            );
        }
    }

    /// What an accept allows was rounded down to whole requests: with K = 1.5, one accept of two requests gave
    /// a third where a sixth is right.
    #[test]
    fn a_fraction_of_a_request_counts() {
        let mut throttle = fed(2, 1);
        throttle.settings.requests_per_accept = Ratio::percent(150);
        assert_eq!(
            throttle.rejection(CRITICAL, NOW),
            Ratio::from_parts(Ratio::PARTS / 6)
        );
    }

    #[test]
    fn a_client_that_is_accepted_draws_nothing_and_is_never_rejected() {
        let mut throttle = fed(100, 50);
        assert!(throttle.admits(CRITICAL, NOW, &mut Highest));
    }

    /// Requests were counted when they were sent and accepts when they ended: a client that began with a
    /// thousand calls at once to a healthy target turned nearly all of them away.
    #[test]
    fn requests_under_way_are_not_rejections() {
        let mut throttle = Throttle::new(Settings::default(), NOW);
        for _ in 0..1000 {
            assert!(throttle.admits(CRITICAL, NOW, &mut Highest));
        }
        (0..1000).for_each(|_| throttle.on_end(CRITICAL, false, NOW));
        assert_eq!(throttle.rejection(CRITICAL, NOW), Ratio::ZERO);
    }

    #[test]
    fn one_criticality_does_not_throttle_another() {
        let mut throttle = fed(100, 0);
        assert!(!throttle.admits(CRITICAL, NOW, &mut Highest));
        assert!(throttle.admits(Criticality::CriticalPlus, NOW, &mut Highest));
    }

    #[test]
    fn it_forgets_with_its_window() {
        let mut throttle = fed(100, 0);
        assert_eq!(throttle.rejection(CRITICAL, Instant::from_secs(120)), Ratio::ZERO);
    }
}
