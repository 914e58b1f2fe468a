//! Which timeouts say something of the target.
//!
//! A caller chooses its own deadline, and may choose one that no healthy target can meet: 5 ms from outside must not
//! open the breaker for all callers. Yet a target that swallows requests is only ever seen as timeouts, and if callers
//! are less patient than the policy, all of them are the callers' own. So it does not matter which side ended an attempt. It
//! matters how long the attempt was given:
//!
//! - the time that the policy itself gives an attempt (or the whole call) is always enough;
//! - so are [`Patience::FACTOR`] times the slowest of the recent answers, and never less than [`Patience::LEAST`]: a
//!   target that usually answers within 20 ms and has said nothing for 80 ms is not well;
//! - so is three quarters of the time that callers usually give, if that is twice the usual answer: where all callers
//!   wait for half a second, half a second of silence counts, however slow the last answers were;
//! - while no answer is known, [`Patience::UNKNOWN`];
//! - after [`Patience::SILENT`] timeouts in a row without any answer, [`Patience::LEAST`]; after [`Patience::NEVER_ANSWERED`]
//!   where none has ever come: nothing is known of such a target, and a client that starts during an incident must learn
//!   of it within its first calls.
//!
//! A timeout after less than that counts nowhere: not in breaker, guard, throttle, budget or hedge.
//!
//! The slowest recent answer, and not an average: an attempt may have asked for the slowest thing that the target does. It
//! fades by a [`Patience::FADING`]th with every answer, so that one slow answer is forgotten after some hundred
//! fast ones. Timeouts do not enter it. Callers with short deadlines cannot pull it down below what other
//! callers see.

use std::time::Duration;

use crate::rules;

/// How long an attempt must have been given before its timeout counts against the target.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Patience {
    /// The slowest recent answer, in nanoseconds; zero while none is known.
    slowest: u64,
    /// Timeouts since the last answer that did not count.
    silent: u8,
}

impl Patience {
    const FACTOR: u64 = 4;
    const FADING: u64 = 64;
    /// Below this, the scheduler of our own machine is as likely the cause as the target.
    const LEAST: Duration = Duration::from_millis(50);
    const SILENT: u8 = 8;
    const NEVER_ANSWERED: u8 = 2;
    /// Longer than nearly every interactive answer takes.
    const UNKNOWN: Duration = Duration::from_secs(1);

    #[inline]
    pub(crate) fn on_success(&mut self, latency: u64) {
        let faded = self.slowest - self.slowest / Self::FADING;
        self.slowest = faded.max(latency).max(1);
        self.silent = 0;
    }

    /// Whether an attempt that was given this much time, and ran out of it, says that the target is unwell. `usually` is what
    /// would be enough by the time that callers usually give, where that is known.
    pub(crate) fn is_enough(
        &mut self,
        given: Duration,
        usually: Option<Duration>,
        rules: &rules::Settings,
    ) -> bool {
        let learned = match self.slowest {
            0 => Self::UNKNOWN,
            slowest => Duration::from_nanos(slowest.saturating_mul(Self::FACTOR)),
        };
        let learned = usually
            .map_or(learned, |usually| learned.min(usually))
            .max(Self::LEAST);
        let own = [rules.attempt_timeout, rules.deadline];
        let enough = given >= own.into_iter().flatten().fold(learned, Duration::min);
        if enough || given < Self::LEAST {
            return enough;
        }
        self.silent = self.silent.saturating_add(1);
        let most = if self.slowest == 0 {
            Self::NEVER_ANSWERED
        } else {
            Self::SILENT
        };
        self.silent > most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Pace;
    use crate::time::{Instant, nanos};

    /// Ten seconds for a call, no timeout of an attempt.
    fn rules() -> rules::Settings {
        rules::Settings::default()
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn before_the_first_answer_a_second_is_enough_and_so_is_what_the_policy_gives() {
        let mut patience = Patience::default();
        assert!(!patience.is_enough(millis(999), None, &rules()));
        assert!(patience.is_enough(millis(1000), None, &rules()));
        let strict = rules::Settings {
            attempt_timeout: Some(millis(200)),
            ..rules()
        };
        assert!(!patience.is_enough(millis(199), None, &strict));
        assert!(patience.is_enough(millis(200), None, &strict));
    }

    #[test]
    fn a_multiple_of_the_slowest_recent_answer_is_enough() {
        let mut patience = Patience::default();
        patience.on_success(nanos(millis(300)));
        patience.on_success(nanos(millis(20)));
        assert!(!patience.is_enough(millis(1180), None, &rules()));
        assert!(patience.is_enough(millis(1200), None, &rules()));
        (0..1000).for_each(|_| patience.on_success(nanos(millis(20))));
        assert!(!patience.is_enough(millis(79), None, &rules()));
        assert!(patience.is_enough(millis(81), None, &rules()));
    }

    #[test]
    fn where_all_callers_give_the_same_most_of_that_is_enough() {
        let mut pace = Pace::default();
        let mut patience = Patience::default();
        for _ in 0..8 {
            pace.on_end(true, nanos(millis(100)), Some(nanos(millis(600))), Instant::ZERO);
            patience.on_success(nanos(millis(400)));
        }
        assert!(!patience.is_enough(millis(449), pace.enough(), &rules()));
        assert!(patience.is_enough(millis(450), pace.enough(), &rules()));
    }

    #[test]
    fn a_target_that_never_answers_is_noticed_after_some_timeouts() {
        let mut patience = Patience::default();
        for _ in 0..Patience::NEVER_ANSWERED {
            assert!(!patience.is_enough(millis(50), None, &rules()));
        }
        assert!(!patience.is_enough(millis(49), None, &rules()), "too short");
        assert!(patience.is_enough(millis(50), None, &rules()));
        patience.on_success(nanos(millis(300)));
        for _ in 0..Patience::SILENT {
            assert!(!patience.is_enough(millis(50), None, &rules()));
        }
        assert!(patience.is_enough(millis(50), None, &rules()));
    }

    #[test]
    fn nothing_below_the_grain_of_a_scheduler_is_enough() {
        let mut patience = Patience::default();
        patience.on_success(nanos(Duration::from_micros(100)));
        assert!(!patience.is_enough(millis(49), None, &rules()));
        assert!(patience.is_enough(millis(50), None, &rules()));
        patience.on_success(nanos(Duration::MAX));
        assert!(
            patience.is_enough(millis(10_000), None, &rules()),
            "the policy's own"
        );
    }
}
