//! The windows of a breaker that counts.

use std::time::Duration;

use super::{Settings, Trip};
use crate::{time::Instant, window::Window};

/// What ended in the window of a trip.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    pub(super) window: Window<2>,
    /// The slow attempts in the same window, where they matter.
    pub(super) slow: Option<Box<Window<1>>>,
}

impl Counted {
    pub(super) fn new(settings: &Settings, length: Duration, now: Instant) -> Self {
        let window = Window::new(length, now);
        Self {
            slow: settings.slow().map(|_| Box::new(window.emptied())),
            window,
        }
    }

    pub(super) fn replace(&mut self, old: &Settings, new: &Settings, length: Duration, now: Instant) {
        self.window.set_length(length, now);
        if let (Trip::Count { .. }, Trip::Rate { .. }) = (old.trip, new.trip) {
            // A count of failures does not know how many calls ended beside them: no share can be taken of it.
            self.window.clear();
        }
        self.slow = match (self.slow.take(), new.slow()) {
            (Some(mut slow), Some(_)) => {
                slow.set_length(length, now);
                Some(slow)
            }
            (None, Some(_)) => Some(Box::new(self.window.emptied())),
            (_, None) => None,
        };
    }
}
