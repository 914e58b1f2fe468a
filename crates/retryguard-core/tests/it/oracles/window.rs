//! A window as a list of moments.

use std::time::Duration;

use proptest::prelude::*;
use retryguard_core::{
    Instant, Ratio,
    budget::{Budget, Reserve, Settings},
};

/// Moments, of which those count that lie in the ten buckets up to now.
pub(super) struct Moments {
    origin: Instant,
    bucket: u64,
    pub(super) all: Vec<Instant>,
}

impl Moments {
    pub(super) fn new(length: Duration, origin: Instant) -> Self {
        let bucket = u64::try_from(length.as_nanos()).expect("short") / 10;
        Self {
            origin,
            bucket,
            all: Vec::new(),
        }
    }

    fn bucket_of(&self, moment: Instant) -> u64 {
        (moment.as_nanos() - self.origin.as_nanos()) / self.bucket
    }

    pub(super) fn count(&self, now: Instant) -> u64 {
        let present = self.bucket_of(now);
        self.all
            .iter()
            .filter(|moment| present - self.bucket_of(**moment) < 10)
            .count() as u64
    }
}

const LENGTH: Duration = Duration::from_secs(10);

proptest! {
    /// Whatever is younger than nine tenths of the window counts, whatever is as old as the window does not.
    #[test]
    fn an_event_is_forgotten_between_nine_tenths_and_all_of_the_window(
        steps in prop::collection::vec(0u64..3_000_000_000, 1..100),
    ) {
        let settings = Settings::Ratio { ratio: Ratio::ONE, window: LENGTH, reserve: Reserve::default() };
        let mut budget = Budget::new(settings, Instant::from_nanos(12_345));
        let mut moments: Vec<Instant> = Vec::new();
        let mut now = Instant::from_nanos(12_345);
        for step in steps {
            now = now.after(Duration::from_nanos(step));
            budget.on_first_attempt(now);
            moments.push(now);
            let younger = |age: Duration| moments.iter().filter(|moment| now.since(**moment) < age).count() as u64;
            let counted = budget.balance(now);
            prop_assert!(counted >= younger(LENGTH * 9 / 10));
            prop_assert!(counted <= younger(LENGTH));
        }
    }
}
