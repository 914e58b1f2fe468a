//! At most so many changes in any minute.

use std::{collections::VecDeque, time::Duration};

use retryguard_core::Instant;

const WINDOW: Duration = Duration::from_secs(60);

/// The changes of the last minute.
#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    made: VecDeque<Instant>,
}

impl RateLimit {
    /// Whether one more change fits under `most`.
    pub(crate) fn allows(&mut self, most: u32, now: Instant) -> bool {
        while self.made.front().is_some_and(|made| now.since(*made) >= WINDOW) {
            self.made.pop_front();
        }
        self.made.len() < most as usize
    }

    /// A change was made. Called after [`RateLimit::allows`], so that never more than `most` are remembered.
    pub(crate) fn note(&mut self, now: Instant) {
        self.made.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides() {
        let mut limit = RateLimit::default();
        for second in 0..3 {
            assert!(limit.allows(3, Instant::from_secs(second * 10)));
            limit.note(Instant::from_secs(second * 10));
        }
        assert!(!limit.allows(3, Instant::from_secs(59)));
        assert!(limit.allows(3, Instant::from_secs(60)));
        limit.note(Instant::from_secs(60));
        assert!(!limit.allows(3, Instant::from_secs(61)));
    }
}
