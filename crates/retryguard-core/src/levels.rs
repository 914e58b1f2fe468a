//! How many requests in flight serve most, read from those that ended. The server counts what it works on, and a client what it
//! has sent.
//!
//! A server that fails more the busier it is (a pool that runs dry, memory that runs short) serves most with fewer
//! requests in flight than it could take. Its failures alone do not say so: random ones look the same. What tells them
//! apart is the number in flight at which they happen.
//!
//! For each number in flight this counts how requests end and how long they take. By Little's law `n` requests that take
//! `T` each end at a rate of `n / T`, of which a share succeeds: the successes a second at that number. The best number
//! is the one with most of them. Random failures do not depend on the number, so for them the best number is the highest.

/// What is known of each number in flight.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    each: [Level; LEVELS],
    /// How many ended, and how many of them failed, lately.
    ended: f64,
    failed: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Level {
    ended: f64,
    succeeded: f64,
    /// Together, in seconds.
    took: f64,
}

/// Numbers up to here are counted apart, higher ones in steps of a factor of √2.
const APART: u32 = 16;
const LEVELS: usize = 32;
/// What is left of the counts after one more interval of a tenth of a second.
const KEPT: f64 = 0.98;
/// Nothing is looked for while a smaller share fails.
const LITTLE: f64 = 0.05;
/// Nor while a larger share fails: what the server needs is down, and no number in flight is better than another.
const MOST: f64 = 0.95;
/// What is left of one failure after a minute or so no longer counts.
const QUIET: f64 = 1e-5;
/// Fewer ends say nothing of a number in flight.
const ENOUGH: f64 = 24.0;
/// The best number serves at least so many times what the highest serves, or there is no difference.
const BETTER: f64 = 1.3;
/// Numbers that serve so nearly the same are alike.
const ALIKE: f64 = 1.05;

impl Default for Levels {
    fn default() -> Self {
        Self {
            each: [Level::default(); LEVELS],
            ended: 0.0,
            failed: 0.0,
        }
    }
}

impl Levels {
    /// A request has ended; so many were in flight with it.
    pub(crate) fn on_end(&mut self, in_flight: u32, failed: bool, seconds: f64) {
        let level = &mut self.each[level_of(in_flight)];
        level.ended += 1.0;
        level.took += seconds;
        self.ended += 1.0;
        if failed {
            self.failed += 1.0;
        } else {
            level.succeeded += 1.0;
        }
    }

    /// Whether no request has failed lately, so that there is nothing to count.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.failed < QUIET
    }

    /// The number in flight that serves most, where that is clearly more than the highest number serves.
    pub(crate) fn best(&self) -> Option<f64> {
        if self.failed < LITTLE * self.ended || self.failed > MOST * self.ended {
            return None;
        }
        let (_, at_highest) = self.served().last()?;
        let most = self.served().map(|(_, rate)| rate).fold(0.0, f64::max);
        if most < BETTER * at_highest {
            return None;
        }
        // The highest of those that serve about as many: the fewer are refused the better.
        let good = self.served().filter(|(_, rate)| rate * ALIKE >= most);
        good.last().map(|(number, _)| number)
    }

    /// The numbers in flight of which enough is known, in their order, and the successes a second at each.
    fn served(&self) -> impl Iterator<Item = (f64, f64)> {
        let known = self.each.iter().enumerate();
        let known = known.filter(|(_, level)| level.ended >= ENOUGH && level.took > 0.0);
        known.map(|(index, level)| {
            let number = number_of(index);
            (number, number * level.succeeded / level.took)
        })
    }

    /// Forgets a part of what was counted.
    pub(crate) fn forget(&mut self) {
        if self.is_quiet() {
            return;
        }
        for level in &mut self.each {
            level.ended *= KEPT;
            level.succeeded *= KEPT;
            level.took *= KEPT;
        }
        self.ended *= KEPT;
        self.failed *= KEPT;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a logarithm of a number in flight is small and not negative"
)]
fn level_of(in_flight: u32) -> usize {
    if in_flight <= APART {
        return in_flight.saturating_sub(1) as usize;
    }
    let above = 2.0 * (f64::from(in_flight) / f64::from(APART)).log2();
    (APART as usize - 1 + above.ceil() as usize).min(LEVELS - 1)
}

/// The highest number of a level.
fn number_of(level: usize) -> f64 {
    let apart = APART as usize;
    if level < apart {
        return (level + 1) as f64;
    }
    f64::from(APART) * ((level + 1 - apart) as f64 / 2.0).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with so many workers and a queue: requests that find no worker wait for one.
    fn fed(failing: impl Fn(u32) -> f64) -> Levels {
        const WORKERS: u32 = 10;
        let mut levels = Levels::default();
        for in_flight in 1..=30 {
            let seconds = 0.1 * f64::from(in_flight.max(WORKERS)) / f64::from(WORKERS);
            let failed = (100.0 * failing(in_flight)).round();
            for number in 0..100 {
                levels.on_end(in_flight, f64::from(number) < failed, seconds);
            }
        }
        levels
    }

    #[test]
    fn failures_by_chance_leave_the_number_as_it_is() {
        for share in [0.0, 0.04, 0.3, 0.9, 1.0] {
            assert_eq!(fed(|_| share).best(), None, "{share}");
        }
    }

    #[test]
    fn failures_by_load_have_a_best_number() {
        // Nothing fails with ten in flight, half with twenty: a queue only does harm.
        let queue = fed(|number| (f64::from(number) - 10.0).clamp(0.0, 10.0) / 20.0);
        assert_eq!(queue.best(), Some(10.0));
        // Failures begin before all workers are busy: five that succeed are better than ten of which most fail.
        let early = fed(|number| if number > 5 { 0.8 } else { 0.0 });
        assert_eq!(early.best(), Some(5.0));
        // A few failures more do not make up for the workers that would be idle.
        let worth = fed(|number| if number > 5 { 0.2 } else { 0.0 });
        assert_eq!(worth.best(), None);
    }

    #[test]
    fn little_is_known_of_a_number_that_is_rare() {
        let mut levels = Levels::default();
        (0..100).for_each(|number| levels.on_end(8, number < 50, 0.1));
        (0..23).for_each(|_| levels.on_end(1, false, 0.001));
        assert_eq!(levels.best(), None);
        levels.on_end(1, false, 0.001);
        assert_eq!(levels.best(), Some(1.0));
    }

    #[test]
    fn what_was_counted_is_forgotten() {
        let mut levels = fed(|number| if number > 5 { 0.8 } else { 0.0 });
        (0..300).for_each(|_| levels.forget());
        assert_eq!(levels.best(), None);
        assert!(!levels.is_quiet());
        (0..1000).for_each(|_| levels.forget());
        assert!(levels.is_quiet());
    }

    #[test]
    fn every_number_has_a_level_that_is_not_below_it() {
        for in_flight in (1..=4000).chain([u32::MAX]) {
            let level = level_of(in_flight);
            assert!(level < LEVELS);
            if level < LEVELS - 1 {
                assert!(number_of(level) >= f64::from(in_flight) - 1e-9, "{in_flight}");
            }
            if level > 0 {
                assert!(number_of(level - 1) < f64::from(in_flight), "{in_flight}");
            }
        }
        assert_eq!(level_of(0), 0);
    }
}
