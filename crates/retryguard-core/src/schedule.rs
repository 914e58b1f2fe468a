//! Periodic work that does not synchronise a fleet.

use std::time::Duration;

use crate::{chance::Chance, time::Instant, time::nanos};

/// When a periodic client does its work.
///
/// Jittering the *period* lets a fleet that started together oscillate for many periods before it spreads
/// out. So the *execution time* is jittered instead: time is cut into slots of one period, and in each slot
/// the client draws one uniform moment. Whatever the start-up looked like, the load is flat from the first
/// slot on in which every client's moment comes from [`Schedule::next`]. The order matters: truncate to the slot, then add the draw. Adding first and truncating
/// afterwards puts every client on the slot's edge.
///
/// Slots are aligned to the driver's origin. Where many processes must agree on them (they need not), the
/// driver takes the Unix epoch as its origin.
///
/// ```
/// use retryguard_core::{chance::Lowest, schedule::Schedule, Instant};
/// use std::time::Duration;
///
/// let schedule = Schedule::new(Duration::from_secs(300));
/// let now = Instant::from_secs(1000);
/// assert_eq!(schedule.next(now, &mut Lowest), Some(Instant::from_secs(1200)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    period: Duration,
    /// Sorted names of features that are switched off.
    features_off: Vec<Box<str>>,
}

impl Schedule {
    /// The shortest period that is kept as it is; a shorter one, zero included, is lengthened to it.
    pub const SHORTEST: Duration = Duration::from_millis(1);

    /// Work that is due once in every `period`.
    #[must_use]
    pub fn new(period: Duration) -> Self {
        Self {
            period: period.max(Self::SHORTEST),
            features_off: Vec::new(),
        }
    }

    /// The first execution of a client that starts now: uniform over one full period from now, so that a
    /// fleet that starts together does not act together. Later ones come from [`Schedule::next`].
    pub fn first(&self, now: Instant, chance: &mut impl Chance) -> Instant {
        now.after(Duration::from_nanos(chance.below(nanos(self.period))))
    }

    /// The next execution after `now`: a uniform moment of the slot that follows the present one. `None`
    /// only where time itself has run out.
    pub fn next(&self, now: Instant, chance: &mut impl Chance) -> Option<Instant> {
        let period = nanos(self.period);
        let slot = (now.as_nanos() / period).checked_add(1)?.checked_mul(period)?;
        Some(Instant::from_nanos(slot.checked_add(chance.below(period))?))
    }

    /// Changes the period while running; it counts from the next execution on.
    pub fn set_period(&mut self, period: Duration) {
        self.period = period.max(Self::SHORTEST);
    }

    /// The period in force.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Replaces the list of features that are switched off.
    pub fn switch_off<'a>(&mut self, features: impl IntoIterator<Item = &'a str>) {
        self.features_off = features.into_iter().map(Box::from).collect();
        self.features_off.sort_unstable();
        self.features_off.dedup();
    }

    /// Whether a feature may do its periodic work.
    #[must_use]
    pub fn is_on(&self, feature: &str) -> bool {
        self.features_off
            .binary_search_by(|name| (**name).cmp(feature))
            .is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{Highest, Lowest};

    const PERIOD: Duration = Duration::from_secs(300);

    #[test]
    fn an_execution_lies_in_the_slot_after_the_present_one() {
        let schedule = Schedule::new(PERIOD);
        let now = Instant::from_secs(450);
        assert_eq!(schedule.next(now, &mut Lowest), Some(Instant::from_secs(600)));
        let latest = schedule.next(now, &mut Highest).unwrap();
        assert!(latest > Instant::from_secs(899) && latest < Instant::from_secs(900));
    }

    /// Executions served one after the other fall into consecutive slots, one each: the rate is exactly one
    /// a period, whatever is drawn.
    #[test]
    fn one_execution_a_slot() {
        let schedule = Schedule::new(PERIOD);
        let mut now = Instant::from_secs(1);
        for slot in 1..50 {
            let at = if slot % 2 == 0 {
                schedule.next(now, &mut Highest).unwrap()
            } else {
                schedule.next(now, &mut Lowest).unwrap()
            };
            assert_eq!(at.as_nanos() / nanos(PERIOD), slot);
            now = at;
        }
    }

    #[test]
    fn the_first_execution_is_spread_over_one_period() {
        let schedule = Schedule::new(PERIOD);
        let now = Instant::from_secs(77);
        assert_eq!(schedule.first(now, &mut Lowest), now);
        assert!(schedule.first(now, &mut Highest) < now.after(PERIOD));
    }

    #[test]
    fn the_period_may_change_while_running() {
        let mut schedule = Schedule::new(PERIOD);
        schedule.next(Instant::from_secs(10), &mut Lowest);
        schedule.set_period(Duration::from_secs(60));
        assert_eq!(
            schedule.next(Instant::from_secs(300), &mut Lowest),
            Some(Instant::from_secs(360))
        );
        schedule.set_period(Duration::ZERO);
        assert_eq!(schedule.period(), Schedule::SHORTEST);
    }

    #[test]
    fn features_can_be_switched_off_and_on() {
        let mut schedule = Schedule::new(PERIOD);
        schedule.switch_off(["thumbnails", "prefetch", "prefetch"]);
        assert!(!schedule.is_on("prefetch") && !schedule.is_on("thumbnails") && schedule.is_on("sync"));
        schedule.switch_off([]);
        assert!(schedule.is_on("prefetch"));
    }

    #[test]
    fn the_end_of_time_is_none_and_no_panic() {
        assert_eq!(Schedule::new(PERIOD).next(Instant::NEVER, &mut Lowest), None);
    }
}
