//! Whether failures come from load.
//!
//! Random failures are as frequent while answers are fast as while they are slow. Failures that come from load come with
//! a queue, and a queue makes answers slow. So attempts are counted apart: those that ended while answers took longer
//! than they typically did lately, and those that ended while answers were faster. Where clearly more of the first kind
//! fail, retries add to what makes attempts fail, even if the single retry succeeds.
//!
//! Slots of time cannot show this where the queue lasts longer than a slot: a retry pays off in its own slot, and the
//! queue that it leaves behind harms the next one.
//!
//! Once it is clear that failures come from load, a weaker difference is enough to keep that finding. Without retries the load is lower
//! and fewer attempts fail, so the difference shrinks; retries that came back for that would bring the load back.

/// Attempts that ended while answers were fast, and while they were slow.
#[derive(Debug, Clone)]
pub(super) struct Dependence {
    /// The typical latency of recent successes, in nanoseconds.
    typical: f64,
    fast: Tally,
    slow: Tally,
    /// Whether failures come from load, by what has been seen so far.
    found: bool,
}

#[derive(Debug, Clone, Copy)]
struct Tally {
    ended: f64,
    failed: f64,
}

/// Of how many attempts the typical latency is averaged.
const TYPICAL: f64 = 1.0 / 128.0;
/// What is left of the counts after one more attempt.
const KEPT: f64 = 1.0 - 1.0 / 400.0;
/// Fewer attempts on a side say nothing.
const ENOUGH: f64 = 8.0;
/// How many standard errors make a difference clear, and how many keep the finding.
const CLEAR: f64 = 2.5;
const STILL_CLEAR: f64 = 1.0;
/// So many times as often attempts must fail while answers are slow, and so many times to keep the finding.
const MORE: f64 = 1.5;
const STILL_MORE: f64 = 1.1;

impl Dependence {
    /// Nothing is known.
    pub(super) const NONE: Self = Self {
        typical: 0.0,
        fast: Tally::NONE,
        slow: Tally::NONE,
        found: false,
    };

    /// An attempt has ended while successes took `recent` nanoseconds. `failed`: in a way that may come from load.
    pub(super) fn on_end(&mut self, failed: bool, recent: f64) {
        if recent == 0.0 {
            return;
        }
        let share = if self.typical == 0.0 { 1.0 } else { TYPICAL };
        self.typical += (recent - self.typical) * share;
        for side in [&mut self.fast, &mut self.slow] {
            side.ended *= KEPT;
            side.failed *= KEPT;
        }
        let side = if recent > self.typical {
            &mut self.slow
        } else {
            &mut self.fast
        };
        side.ended += 1.0;
        side.failed += f64::from(u8::from(failed));
        self.found = if self.found {
            self.differs(STILL_CLEAR, STILL_MORE)
        } else {
            self.differs(CLEAR, MORE)
        };
    }

    /// Whether attempts clearly fail more often while answers are slow.
    pub(super) const fn is_clear(&self) -> bool {
        self.found
    }

    /// Whether attempts fail so many times as often while answers are slow, and by so many standard errors more.
    fn differs(&self, errors: f64, times: f64) -> bool {
        let (fast, slow) = (&self.fast, &self.slow);
        if fast.ended < ENOUGH || slow.ended < ENOUGH {
            return false;
        }
        let all = Tally {
            ended: fast.ended + slow.ended,
            failed: fast.failed + slow.failed,
        };
        let share = all.share();
        let variance = share * (1.0 - share) * (1.0 / fast.ended + 1.0 / slow.ended);
        slow.share() - fast.share() > errors * variance.sqrt() && slow.share() > times * fast.share()
    }
}

impl Tally {
    const NONE: Self = Self {
        ended: 0.0,
        failed: 0.0,
    };

    /// The share that failed. Never none and never all: half a failure and half a success more than were seen.
    fn share(&self) -> f64 {
        (self.failed + 0.5) / (self.ended + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers that are fast and slow by turns, twenty attempts each, of which so many fail.
    fn fed(fast: u32, slow: u32) -> Dependence {
        let mut dependence = Dependence::NONE;
        for number in 0..800 {
            let (failing, recent) = if number / 20 % 2 == 0 {
                (fast, 50e6)
            } else {
                (slow, 200e6)
            };
            dependence.on_end(number % 20 < failing, recent);
        }
        dependence
    }

    #[test]
    fn random_failures_do_not_depend_on_the_latency() {
        for share in [0, 1, 6, 12, 20] {
            assert!(!fed(share, share).is_clear(), "{share}");
        }
        assert!(!fed(10, 4).is_clear(), "fewer fail while answers are slow");
        assert!(!fed(10, 13).is_clear(), "most failures are random");
    }

    #[test]
    fn failures_that_come_with_slow_answers_depend_on_load() {
        assert!(fed(0, 6).is_clear());
        assert!(fed(4, 12).is_clear());
    }

    /// Without retries the load falls and fewer attempts fail. Retries that come back for that bring the load back.
    #[test]
    fn a_weaker_difference_keeps_the_finding() {
        let weak = |mut dependence: Dependence| {
            for number in 0..800 {
                let (failing, recent) = if number / 20 % 2 == 0 {
                    (8, 50e6)
                } else {
                    (11, 200e6)
                };
                dependence.on_end(number * failing % 20 < failing, recent);
            }
            dependence.is_clear()
        };
        assert!(!weak(Dependence::NONE));
        assert!(weak(fed(0, 12)));
    }

    #[test]
    fn a_few_attempts_say_nothing() {
        let mut dependence = Dependence::NONE;
        for number in 0..15 {
            dependence.on_end(number > 8, 1e6 * f64::from(number));
        }
        assert!(!dependence.is_clear());
        dependence.on_end(true, 0.0);
        assert!(!dependence.is_clear(), "no success is known");
    }

    #[test]
    fn it_is_forgotten() {
        let mut dependence = fed(0, 12);
        assert!(dependence.is_clear());
        for number in 0..2000 {
            let recent = if number / 20 % 2 == 0 { 50e6 } else { 200e6 };
            dependence.on_end(number % 20 < 5, recent);
        }
        assert!(!dependence.is_clear());
    }
}
