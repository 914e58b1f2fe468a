//! Callers whose own allowance is used up for a while.
//!
//! A 429 with a Retry-After speaks of one user, one key or one tenant, and the target is well: other callers go on, and
//! this one must not walk into the same wall with its next call. A driver names callers by a number, such as a hash
//! of their credentials.

use std::{collections::BTreeMap, time::Duration};

use crate::time::Instant;

/// Who has been asked to stay away, and until when.
#[derive(Debug, Clone, Default)]
pub struct Callers {
    until: BTreeMap<u64, Instant>,
    /// When the longest wait is over.
    last: Instant,
}

impl Callers {
    /// The most callers that are remembered. Beyond it, the one whose wait ends first is forgotten, which costs one
    /// request that the target refuses.
    pub const MOST: usize = 1024;

    /// Whether no caller is held back. Callers whose time is over still count until a caller is asked for.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Holds a caller back for `wait`.
    pub fn hold(&mut self, caller: u64, wait: Duration, now: Instant) {
        if self.until.len() >= Self::MOST && !self.until.contains_key(&caller) {
            self.make_room(now);
        }
        let until = self.until.entry(caller).or_insert(now);
        *until = now.after(wait).max(*until);
        self.last = self.last.max(*until);
    }

    /// How long a caller must still stay away; `None` if it may pass. Once all waits are over, all callers are forgotten:
    /// most of them never come back.
    pub fn holds(&mut self, caller: u64, now: Instant) -> Option<Duration> {
        if now >= self.last {
            self.until.clear();
            return None;
        }
        let until = *self.until.get(&caller)?;
        if now < until {
            return Some(now.until(until));
        }
        self.until.remove(&caller);
        None
    }

    fn make_room(&mut self, now: Instant) {
        self.until.retain(|_, until| now < *until);
        while self.until.len() >= Self::MOST {
            let first = self.until.iter().min_by_key(|(_, until)| **until);
            let Some(first) = first.map(|(caller, _)| *caller) else {
                return;
            };
            self.until.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    #[test]
    fn one_caller_is_held_and_the_others_go_on() {
        let mut callers = Callers::default();
        callers.hold(1, Duration::from_secs(30), at(0));
        callers.hold(1, Duration::from_secs(5), at(1));
        assert_eq!(
            callers.holds(1, at(10)),
            Some(Duration::from_secs(20)),
            "the longer wait holds"
        );
        assert_eq!(callers.holds(2, at(10)), None);
        assert_eq!(callers.holds(1, at(30)), None);
        assert!(callers.is_empty(), "forgotten once asked for");
    }

    /// One caller that never came back kept every call of the others off the short way, for ever.
    #[test]
    fn callers_that_never_come_back_are_forgotten_after_their_wait() {
        let mut callers = Callers::default();
        callers.hold(1, Duration::from_secs(30), at(0));
        callers.hold(2, Duration::from_secs(10), at(0));
        assert_eq!(callers.holds(7, at(29)), None);
        assert!(!callers.is_empty());
        assert!(callers.holds(1, at(29)).is_some());
        assert_eq!(callers.holds(7, at(30)), None);
        assert!(callers.is_empty());
        callers.hold(1, Duration::from_secs(5), at(40));
        assert!(callers.holds(1, at(41)).is_some());
    }

    #[test]
    fn at_the_limit_the_shortest_wait_is_forgotten() {
        let mut callers = Callers::default();
        for caller in 0..=Callers::MOST as u64 {
            callers.hold(caller, Duration::from_secs(100 + caller), at(0));
        }
        assert_eq!(callers.until.len(), Callers::MOST);
        assert_eq!(callers.holds(0, at(1)), None);
        assert!(callers.holds(1, at(1)).is_some());
        callers.hold(u64::MAX, Duration::from_secs(1), at(100_000));
        assert_eq!(callers.until.len(), 1, "whose time is over goes first");
    }
}
