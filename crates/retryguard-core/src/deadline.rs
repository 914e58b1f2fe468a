//! What is left of the time that a caller allowed.

use std::time::Duration;

use crate::time::Instant;

/// The moment after which the caller does not want the answer any more. Bounds every timeout, wait and attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(Instant);

impl Deadline {
    /// No deadline.
    pub const NONE: Self = Self(Instant::NEVER);

    /// At a given moment.
    #[inline]
    #[must_use]
    pub const fn at(moment: Instant) -> Self {
        Self(moment)
    }

    /// After `span` from `now`.
    #[inline]
    #[must_use]
    pub const fn after(now: Instant, span: Duration) -> Self {
        Self(now.after(span))
    }

    /// The moment itself; [`Instant::NEVER`] where there is none.
    #[inline]
    #[must_use]
    pub const fn moment(self) -> Instant {
        self.0
    }

    /// Whether there is a deadline at all.
    #[inline]
    #[must_use]
    pub fn is_set(self) -> bool {
        self.0 != Instant::NEVER
    }

    /// The earlier of two deadlines.
    #[inline]
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// What is left at `now`; `None` where there is no deadline.
    #[inline]
    #[must_use]
    pub fn left(self, now: Instant) -> Option<Duration> {
        self.is_set().then(|| now.until(self.0))
    }

    /// Whether something that starts at `start` and needs at least `need` can still end in time.
    #[inline]
    #[must_use]
    pub fn allows(self, start: Instant, need: Duration) -> bool {
        !self.is_set() || (start < self.0 && start.after(need) <= self.0)
    }

    /// When something that starts at `start` must end: its own timeout or the deadline, whichever is first.
    #[inline]
    #[must_use]
    pub fn bound(self, start: Instant, timeout: Option<Duration>) -> Instant {
        timeout
            .map_or(Instant::NEVER, |timeout| start.after(timeout))
            .min(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_starts_at_or_after_the_deadline() {
        let deadline = Deadline::at(Instant::from_millis(100));
        let at = Instant::from_millis;
        assert!(deadline.allows(at(99), Duration::from_millis(1)));
        assert!(!deadline.allows(at(99), Duration::from_millis(2)));
        assert!(!deadline.allows(at(100), Duration::ZERO));
        assert!(Deadline::NONE.allows(Instant::NEVER, Duration::MAX));
    }

    #[test]
    fn a_timeout_is_cut_to_what_is_left() {
        let deadline = Deadline::at(Instant::from_millis(100));
        let second = Some(Duration::from_secs(1));
        assert_eq!(
            deadline.bound(Instant::from_millis(40), second),
            Instant::from_millis(100)
        );
        assert_eq!(
            Deadline::NONE.bound(Instant::from_millis(40), None),
            Instant::NEVER
        );
    }
}
