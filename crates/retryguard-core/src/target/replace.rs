//! A new policy, put in force without losing what the parts know.

use std::sync::Arc;

use super::{Change, Settings, Shared, Target, note, samples::Samples};
use crate::{
    breaker::Breaker,
    budget::Budget,
    guard::{self, Guard},
    hedge::Hedge,
    throttle::Throttle,
    time::Instant,
};

/// From where the parts that a later policy brings number what they give out. Goes on from part to part, so
/// that a permit or a charge which outlives its part means nothing to the next one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Numbers {
    pub(super) breaker: u32,
    pub(super) budget: u64,
}

impl Target {
    /// Puts a new policy in force at once, also for calls that are under way. Every part that was there
    /// before keeps its state.
    pub fn replace(&mut self, settings: Arc<Settings>, now: Instant) {
        let now = self.clamp(now);
        let shared = || Shared(settings.clone());
        self.gate.replace(shared());
        self.bulkhead.replace(shared());
        let numbers = self.note_numbers();
        let from = self.breaker_state();
        swap(
            &mut self.breaker,
            settings.breaker.map(|_| shared()),
            |part, new| part.replace(new, now),
            |new| Breaker::new(new, now).numbered_from(numbers.breaker),
        );
        self.note_breaker(from);
        swap(
            &mut self.budget,
            settings.budget.map(|_| shared()),
            |part, new| part.replace(new, now),
            |new| Budget::new(new, now).numbered_from(numbers.budget),
        );
        swap(
            &mut self.throttle,
            settings.throttle,
            |part, new| part.replace(new, now),
            |new| Box::new(Throttle::new(new, now)),
        );
        swap(
            &mut self.hedge,
            settings.hedge,
            |part, new| part.replace(new),
            |new| Box::new(Hedge::new(new)),
        );
        let (guard, clock) = (self.guard_state(), self.clock());
        swap(
            &mut self.guard,
            settings.guard.map(|_| shared()),
            |part, new| part.replace(new, now),
            |new| Guard::new(new, now),
        );
        self.set_clock(clock);
        self.note_replaced_guard(guard);
        self.samples = Samples::replaced(self.samples.take(), settings.guard.as_ref(), now);
        self.listens = self.bulkhead.is_adaptive()
            || self.breaker.is_some()
            || self.budget.is_some()
            || self.throttle.is_some()
            || self.hedge.is_some()
            || self.guard.is_some();
        self.settings = settings;
    }

    fn note_replaced_guard(&mut self, from: guard::State) {
        let to = self.guard_state();
        if from != to {
            let reason = guard::Reason::Replaced;
            note(
                &mut self.rare,
                Change::Guard(guard::Decision { from, to, reason }),
            );
        }
    }

    fn clock(&self) -> Option<guard::WallClock> {
        let measured = self.guard.as_ref().and_then(Guard::clock);
        measured.or_else(|| self.rare.as_ref()?.clock)
    }

    /// Brings the numbers up to date with the parts that are there.
    fn note_numbers(&mut self) -> Numbers {
        if self.breaker.is_none() && self.budget.is_none() {
            return self
                .rare
                .as_ref()
                .map_or_else(Numbers::default, |rare| rare.numbers);
        }
        let numbers = &mut self.rare.get_or_insert_default().numbers;
        if let Some(breaker) = &self.breaker {
            numbers.breaker = breaker.number_for_next();
        }
        if let Some(budget) = &self.budget {
            numbers.budget = budget.number_for_next();
        }
        *numbers
    }
}

/// Replaces, makes or drops an optional part.
fn swap<Part, New>(
    part: &mut Option<Part>,
    new: Option<New>,
    replace: impl FnOnce(&mut Part, New),
    make: impl FnOnce(New) -> Part,
) {
    match (part.as_mut(), new) {
        (Some(part), Some(new)) => replace(part, new),
        (None, Some(new)) => *part = Some(make(new)),
        (_, None) => *part = None,
    }
}
