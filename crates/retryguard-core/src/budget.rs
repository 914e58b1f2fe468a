//! The share of attempts that may be retries or hedges.

use std::time::Duration;

use crate::{
    ratio::Ratio,
    time::{Instant, nanos},
    window::{Slot, Window},
};

/// How many retries and hedges a target may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settings {
    /// At most a fixed share of the first attempts of a window.
    Ratio {
        /// Retries and hedges per first attempt.
        ratio: Ratio,
        /// The window over which both are counted.
        window: Duration,
        /// What may be spent beyond the ratio.
        reserve: Reserve,
    },
    /// A share that follows the success rate: the worse the target fares, the fewer retries it is sent.
    Adaptive {
        /// The ratio when nothing succeeds.
        least: Ratio,
        /// The ratio when everything succeeds.
        most: Ratio,
        /// The window over which everything is counted.
        window: Duration,
        /// What may be spent beyond the ratio.
        reserve: Reserve,
    },
    /// The quota of the AWS SDKs: a bucket of tokens that only successes refill.
    Quota {
        /// Tokens at the start, and the most there can be.
        capacity: u32,
        /// What a retry takes.
        retry_cost: u32,
        /// What a retry after a timeout takes.
        timeout_cost: u32,
        /// What a success without a retry gives back; a success after retries gives back what the last of
        /// them took.
        success_gain: u32,
    },
}

impl Default for Settings {
    /// 20 % over ten seconds, and one retry in ten seconds for clients that make few calls. 20 % is what
    /// Envoy, Istio and Finagle settled on; see the policy's defaults for the experiment behind it.
    fn default() -> Self {
        Self::Ratio {
            ratio: Ratio::percent(20),
            window: Duration::from_secs(10),
            reserve: Reserve {
                per_second: Ratio::percent(10),
                most: 1,
            },
        }
    }
}

/// Retries that a client may make although its ratio is used up, so that one with few calls can retry at
/// all. It starts with one retry and *accrues*: a client whose very first call fails can retry it, while a minimum rate
/// that is granted as a full bucket is a burst at the worst moment, when a fleet has just started against a failing
/// target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserve {
    /// How many accrue in a second.
    pub per_second: Ratio,
    /// How many may be saved up.
    pub most: u32,
}

/// What one retry or hedge took from the budget. Given back if it is not sent after all; otherwise dropped.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a charge is refunded if the retry is not sent"]
pub struct Charge(Source);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Ratio(Slot),
    Reserve,
    Quota(u32),
}

impl Charge {
    /// What the charge took from a quota; zero for the other forms.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        match self.0 {
            Source::Quota(cost) => cost,
            Source::Ratio(_) | Source::Reserve => 0,
        }
    }
}

/// What the reserve holds at the start: one retry, in billionths.
const FIRST: u64 = Ratio::PARTS;

/// Counters of the window.
const FIRSTS: usize = 0;
const EXTRAS: usize = 1;
/// Counters of the window of ends.
const ENDED: usize = 0;
const SUCCEEDED: usize = 1;

/// The budget of one target.
///
/// A retry is charged when it is *decided*, before its wait: retries that sit in back-off are load that is
/// already on its way, and a budget that counts only what is in flight lets any number of them through.
///
/// `S` keeps the settings: they themselves, or something that many targets share.
///
/// ```
/// use retryguard_core::{
///     Instant,
///     budget::{Budget, Settings},
/// };
///
/// let start = Instant::from_secs(1);
/// let mut budget = Budget::new(Settings::default(), start);
/// for _ in 0..10 {
///     budget.on_first_attempt(start);
/// }
/// // 20 % of ten calls, and the reserve.
/// let retries = (0..10).filter(|_| budget.withdraw(false, start).is_some()).count();
/// assert_eq!(retries, 3);
/// ```
#[derive(Debug, Clone)]
pub struct Budget<S = Settings> {
    settings: S,
    window: Window<2>,
    /// What has ended, for the adaptive form.
    ends: Option<Box<Window<2>>>,
    /// Billionths of a retry in the reserve.
    reserve: u64,
    accrued: Instant,
    tokens: u32,
}

impl AsRef<Self> for Settings {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<S: AsRef<Settings>> Budget<S> {
    /// A budget that has seen nothing yet.
    #[must_use]
    pub fn new(settings: S, now: Instant) -> Self {
        let rules = settings.as_ref();
        let tokens = if let Settings::Quota { capacity, .. } = *rules {
            capacity
        } else {
            0
        };
        let window = Window::new(window_of(rules), now);
        Self {
            ends: is_adaptive(rules).then(|| Box::new(window.emptied())),
            window,
            reserve: match *rules {
                Settings::Ratio { reserve, .. } | Settings::Adaptive { reserve, .. } => {
                    full(reserve).min(FIRST)
                }
                Settings::Quota { .. } => 0,
            },
            accrued: now,
            tokens,
            settings,
        }
    }

    /// A number for a later budget's buckets, such that no charge of this one means anything to it.
    pub(crate) fn number_for_next(&self) -> u64 {
        self.window.number_for_next()
    }

    /// Numbers the buckets from `first` on.
    pub(crate) fn numbered_from(mut self, first: u64) -> Self {
        self.window.number_from(first);
        self
    }

    /// Changes the settings and keeps what was counted.
    pub fn replace(&mut self, settings: S, now: Instant) {
        // The time until now accrues by the settings under which it passed.
        if let Settings::Ratio { reserve, .. } | Settings::Adaptive { reserve, .. } = *self.settings.as_ref()
        {
            self.accrue(reserve, now);
        }
        self.accrued = self.accrued.max(now);
        let new = *settings.as_ref();
        match (*self.settings.as_ref(), new) {
            (Settings::Quota { .. }, Settings::Quota { capacity, .. }) => {
                self.tokens = self.tokens.min(capacity);
            }
            (_, Settings::Quota { capacity, .. }) => {
                self.tokens = capacity;
            }
            (_, Settings::Ratio { .. } | Settings::Adaptive { .. }) => {
                self.window.set_length(window_of(&new), now);
            }
        }
        match &mut self.ends {
            Some(ends) if !matches!(new, Settings::Quota { .. }) => {
                ends.set_length(window_of(&new), now);
            }
            None if is_adaptive(&new) => self.ends = Some(Box::new(self.window.emptied())),
            _ => {}
        }
        self.settings = settings;
    }

    /// A first attempt is sent.
    #[inline]
    pub fn on_first_attempt(&mut self, now: Instant) {
        if !matches!(*self.settings.as_ref(), Settings::Quota { .. }) {
            self.window.advance(now);
            self.window.add(FIRSTS);
        }
    }

    /// Until when clean calls may be counted later, by [`Budget::on_clean_calls`]: the time does not reach the next bucket.
    pub(crate) fn rests_until(&mut self, now: Instant) -> Instant {
        if matches!(*self.settings.as_ref(), Settings::Quota { .. }) {
            return Instant::NEVER;
        }
        self.window.advance(now);
        match &mut self.ends {
            Some(ends) => {
                ends.advance(now);
                self.window.bucket_ends().min(ends.bucket_ends())
            }
            None => self.window.bucket_ends(),
        }
    }

    /// So many first attempts have begun in the present bucket, and so many have ended, each with a success and with its call.
    pub(crate) fn on_clean_calls(&mut self, begun: u32, ended: u32) {
        match *self.settings.as_ref() {
            Settings::Quota {
                capacity,
                success_gain,
                ..
            } => {
                let gain = success_gain.saturating_mul(ended);
                self.tokens = self.tokens.saturating_add(gain).min(capacity);
            }
            Settings::Ratio { .. } => self.window.add_many(FIRSTS, begun),
            Settings::Adaptive { .. } => {
                self.window.add_many(FIRSTS, begun);
                if let Some(ends) = &mut self.ends {
                    ends.add_many(ENDED, ended);
                    ends.add_many(SUCCEEDED, ended);
                }
            }
        }
    }

    /// An attempt has ended. Only the adaptive form listens.
    #[inline]
    pub fn on_attempt_end(&mut self, success: bool, now: Instant) {
        if let (Some(ends), Settings::Adaptive { .. }) = (&mut self.ends, *self.settings.as_ref()) {
            ends.advance(now);
            ends.add(ENDED);
            if success {
                ends.add(SUCCEEDED);
            }
        }
    }

    /// A call has ended, having last taken `tokens` for a retry (zero if it made none). Only the quota form
    /// listens.
    #[inline]
    pub fn on_call_end(&mut self, success: bool, tokens: u32) {
        if let Settings::Quota {
            capacity,
            success_gain,
            ..
        } = *self.settings.as_ref()
            && success
        {
            let gain = if tokens == 0 { success_gain } else { tokens };
            self.tokens = self.tokens.saturating_add(gain).min(capacity);
        }
    }

    /// Takes one retry or hedge out of the budget, or refuses it.
    pub fn withdraw(&mut self, after_timeout: bool, now: Instant) -> Option<Charge> {
        match *self.settings.as_ref() {
            Settings::Quota {
                retry_cost,
                timeout_cost,
                ..
            } => {
                let cost = if after_timeout { timeout_cost } else { retry_cost };
                self.tokens = self.tokens.checked_sub(cost)?;
                Some(Charge(Source::Quota(cost)))
            }
            Settings::Ratio { reserve, .. } | Settings::Adaptive { reserve, .. } => {
                self.window.advance(now);
                if self
                    .ratio(now)
                    .covers(self.window.sum(EXTRAS) + 1, self.window.sum(FIRSTS))
                {
                    return Some(Charge(Source::Ratio(self.window.add(EXTRAS))));
                }
                self.accrue(reserve, now);
                self.reserve = self.reserve.checked_sub(Ratio::PARTS)?;
                Some(Charge(Source::Reserve))
            }
        }
    }

    /// Gives a charge back, because what it paid for was not sent.
    pub fn refund(&mut self, charge: Charge) {
        match (charge.0, *self.settings.as_ref()) {
            (Source::Ratio(slot), _) => self.window.take_back(slot, EXTRAS),
            (Source::Reserve, Settings::Ratio { reserve, .. } | Settings::Adaptive { reserve, .. }) => {
                self.reserve = (self.reserve + Ratio::PARTS).min(full(reserve));
            }
            (Source::Quota(cost), Settings::Quota { capacity, .. }) => {
                self.tokens = self.tokens.saturating_add(cost).min(capacity);
            }
            // The form of the budget has changed since: there is nothing to give it back to.
            (Source::Reserve | Source::Quota(_), _) => {}
        }
    }

    /// How many retries could be taken now; for the operator's eyes.
    #[must_use]
    pub fn balance(&mut self, now: Instant) -> u64 {
        match *self.settings.as_ref() {
            Settings::Quota { retry_cost, .. } => u64::from(self.tokens / retry_cost.max(1)),
            Settings::Ratio { reserve, .. } | Settings::Adaptive { reserve, .. } => {
                self.window.advance(now);
                self.accrue(reserve, now);
                let earned = self.ratio(now).of_nanos(self.window.sum(FIRSTS));
                earned.saturating_sub(self.window.sum(EXTRAS)) + self.reserve / Ratio::PARTS
            }
        }
    }

    /// The ratio in force.
    fn ratio(&mut self, now: Instant) -> Ratio {
        match *self.settings.as_ref() {
            Settings::Ratio { ratio, .. } => ratio,
            Settings::Adaptive { least, most, .. } => {
                let (ended, succeeded) = self.ends.as_mut().map_or((0, 0), |ends| {
                    ends.advance(now);
                    (ends.sum(ENDED), ends.sum(SUCCEEDED))
                });
                // Nothing has ended yet: no evidence of trouble, as for a target that always succeeds.
                let success = if ended == 0 {
                    Ratio::ONE
                } else {
                    Ratio::of_counts(succeeded, ended)
                };
                let spread = most.parts().saturating_sub(least.parts());
                Ratio::from_parts(least.parts() + success.of_nanos(spread))
            }
            Settings::Quota { .. } => Ratio::ZERO,
        }
    }

    fn accrue(&mut self, reserve: Reserve, now: Instant) {
        let passed = nanos(now.since(self.accrued));
        self.accrued = self.accrued.max(now);
        let gain = reserve.per_second.of_nanos(passed);
        self.reserve = self.reserve.saturating_add(gain).min(full(reserve));
    }
}

const fn is_adaptive(settings: &Settings) -> bool {
    matches!(settings, Settings::Adaptive { .. })
}

fn full(reserve: Reserve) -> u64 {
    u64::from(reserve.most) * Ratio::PARTS
}

fn window_of(settings: &Settings) -> Duration {
    match settings {
        Settings::Ratio { window, .. } | Settings::Adaptive { window, .. } => *window,
        Settings::Quota { .. } => Duration::from_secs(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64) -> Budget {
        let settings = Settings::Ratio {
            ratio: Ratio::from_f64(value).unwrap(),
            window: Duration::from_secs(10),
            reserve: Reserve::default(),
        };
        Budget::new(settings, Instant::ZERO)
    }

    fn taken(budget: &mut Budget, now: Instant) -> u32 {
        (0..1000)
            .take_while(|_| budget.withdraw(false, now).is_some())
            .count()
            .try_into()
            .unwrap()
    }

    /// A budget whose ratio was truncated to an integer made 0.6 and 0.9 both mean 100 %.
    #[test]
    fn the_ratio_is_exact_for_every_value() {
        for percent in 0..=100u32 {
            let mut budget = ratio(f64::from(percent) / 100.0);
            (0..100).for_each(|_| budget.on_first_attempt(Instant::ZERO));
            assert_eq!(taken(&mut budget, Instant::ZERO), percent);
        }
    }

    /// A "minimum of ten a second" that stands ready from the start is a burst of a hundred.
    #[test]
    fn the_reserve_accrues_and_is_no_cold_burst() {
        let reserve = Reserve {
            per_second: Ratio::from_f64(10.0).unwrap(),
            most: 10,
        };
        let settings = Settings::Ratio {
            ratio: Ratio::ZERO,
            window: Duration::from_secs(10),
            reserve,
        };
        let mut budget = Budget::new(settings, Instant::ZERO);
        assert_eq!(taken(&mut budget, Instant::ZERO), 1, "for the first call");
        assert_eq!(taken(&mut budget, Instant::from_millis(300)), 3);
        assert_eq!(
            taken(&mut budget, Instant::from_secs(1000)),
            10,
            "never more than is saved up"
        );
    }

    #[test]
    fn an_unsent_retry_gives_its_charge_back_once() {
        let mut budget = ratio(0.5);
        budget.on_first_attempt(Instant::ZERO);
        budget.on_first_attempt(Instant::ZERO);
        let charge = budget.withdraw(false, Instant::ZERO).unwrap();
        assert!(budget.withdraw(false, Instant::ZERO).is_none());
        budget.refund(charge);
        assert_eq!(taken(&mut budget, Instant::ZERO), 1);
    }

    /// Retries that are decided but wait in back-off count: nothing was sent, yet the budget is spent.
    #[test]
    fn waiting_retries_count() {
        let mut budget = ratio(0.2);
        (0..10).for_each(|_| budget.on_first_attempt(Instant::ZERO));
        let waiting: Vec<Charge> = (0..2)
            .map(|_| budget.withdraw(false, Instant::ZERO).unwrap())
            .collect();
        assert!(budget.withdraw(false, Instant::ZERO).is_none());
        drop(waiting);
    }

    #[test]
    fn the_adaptive_ratio_follows_the_success_rate() {
        let settings = Settings::Adaptive {
            least: Ratio::percent(10),
            most: Ratio::percent(30),
            window: Duration::from_secs(10),
            reserve: Reserve::default(),
        };
        for (succeeded, expected) in [(0, 10), (50, 20), (100, 30)] {
            let mut budget = Budget::new(settings, Instant::ZERO);
            for call in 0..100 {
                budget.on_first_attempt(Instant::ZERO);
                budget.on_attempt_end(call < succeeded, Instant::ZERO);
            }
            assert_eq!(taken(&mut budget, Instant::ZERO), expected);
        }
    }

    /// 500 tokens at 5 each are 100 retries; at 10 each after a timeout 50. Only successes refill.
    #[test]
    fn the_quota_of_the_aws_sdks() {
        let settings = Settings::Quota {
            capacity: 500,
            retry_cost: 5,
            timeout_cost: 10,
            success_gain: 1,
        };
        let mut budget = Budget::new(settings, Instant::ZERO);
        assert_eq!(taken(&mut budget, Instant::ZERO), 100);
        assert_eq!(
            taken(&mut budget, Instant::from_secs(9999)),
            0,
            "time refills nothing"
        );
        budget.on_call_end(true, 5);
        assert_eq!(
            taken(&mut budget, Instant::ZERO),
            1,
            "a success after a retry returns its cost"
        );
        (0..5).for_each(|_| budget.on_call_end(true, 0));
        assert_eq!(
            taken(&mut budget, Instant::ZERO),
            1,
            "five successes without one return one each"
        );
        let mut budget = Budget::new(settings, Instant::ZERO);
        assert_eq!(
            (0..1000)
                .take_while(|_| budget.withdraw(true, Instant::ZERO).is_some())
                .count(),
            50
        );
    }

    #[test]
    fn a_change_of_settings_keeps_what_was_counted() {
        let mut budget = ratio(0.5);
        (0..10).for_each(|_| budget.on_first_attempt(Instant::ZERO));
        assert_eq!(taken(&mut budget, Instant::ZERO), 5);
        let wider = Settings::Ratio {
            ratio: Ratio::percent(80),
            window: Duration::from_secs(20),
            reserve: Reserve::default(),
        };
        budget.replace(wider, Instant::ZERO);
        assert_eq!(taken(&mut budget, Instant::ZERO), 3);
    }
}
