//! CoDel over the queue of a service (RFC 8289), for requests instead of packets.

use std::time::Duration;

use retryguard_core::Instant;

/// Drops waiting requests while even the shortest wait of an interval is above the target, at a rate that rises.
#[derive(Debug)]
pub(in crate::engine) struct Codel {
    target: Duration,
    interval: Duration,
    /// When waits will have been above the target for an interval; `None` while they are not.
    above_until: Option<Instant>,
    dropping: bool,
    next_drop: Instant,
    drops: u32,
    drops_before: u32,
}

impl Codel {
    pub(super) const fn new(target: Duration, interval: Duration) -> Self {
        Self {
            target,
            interval,
            above_until: None,
            dropping: false,
            next_drop: Instant::ZERO,
            drops: 0,
            drops_before: 0,
        }
    }

    /// Whether a request that leaves the queue after this wait is dropped. `last` says that no other waits behind it.
    pub(in crate::engine) fn drops(&mut self, waited: Duration, last: bool, now: Instant) -> bool {
        let too_long = self.too_long(waited, last, now);
        if self.dropping {
            self.dropping = too_long;
            let due = too_long && now >= self.next_drop;
            if due {
                self.drops += 1;
                self.next_drop = self.after_drop(self.next_drop);
            }
            return due;
        }
        if too_long {
            self.dropping = true;
            // A queue that was dropped from a short while ago goes on at nearly the rate that it ended with.
            let recent = now.since(self.next_drop) < 16 * self.interval;
            let before = self.drops.saturating_sub(self.drops_before);
            self.drops = if recent && before > 1 { before } else { 1 };
            self.drops_before = self.drops;
            self.next_drop = self.after_drop(now);
        }
        too_long
    }

    fn too_long(&mut self, waited: Duration, last: bool, now: Instant) -> bool {
        if waited < self.target || last {
            self.above_until = None;
            return false;
        }
        match self.above_until {
            None => {
                self.above_until = Some(now.after(self.interval));
                false
            }
            Some(until) => now >= until,
        }
    }

    fn after_drop(&self, at: Instant) -> Instant {
        at.after(self.interval.div_f64(f64::from(self.drops).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A standing queue is dropped from after one interval, and then 1, 1/√2, 1/√3 … intervals apart.
    #[test]
    fn a_standing_queue_is_dropped_from_at_a_rising_rate() {
        let mut codel = Codel::new(ms(20), ms(100));
        let drops: Vec<u64> = (0..600)
            .filter(|&at| codel.drops(ms(50), false, Instant::from_millis(at)))
            .collect();
        assert_eq!(drops[..5], [100, 200, 271, 329, 379]);
    }

    #[test]
    fn a_burst_and_a_short_wait_drop_nothing() {
        let mut codel = Codel::new(ms(20), ms(100));
        let standing = |at: u64| if at.is_multiple_of(90) { ms(5) } else { ms(50) };
        let at = Instant::from_millis;
        assert!((0..1000).all(|now| !codel.drops(standing(now), false, at(now))));
        assert!(
            (1000..2000).all(|now| !codel.drops(ms(50), true, at(now))),
            "the last request of a queue is served"
        );
    }
}
