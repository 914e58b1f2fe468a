//! Which endpoint an attempt goes to.

use super::{Endpoints, Entry, Selection};
use crate::chance::Chance;

impl Endpoints {
    /// The endpoint that has waited longest for a trial, if this attempt may be one.
    pub(super) fn trial(&self, selection: &Selection<'_>) -> Option<usize> {
        if self.out == 0 || !selection.tried.is_empty() {
            return None;
        }
        let due = |entry: &Entry| {
            let due = entry.due()?;
            let from = if selection.repeatable {
                due
            } else {
                due.after(entry.span)
            };
            (from <= self.latest).then_some(due)
        };
        let waiting = self
            .entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| Some((due(entry)?, at)));
        waiting.min().map(|(_, at)| at)
    }

    /// The less busy of two that are in and, if there are such, were not tried.
    pub(super) fn among(&self, selection: &Selection<'_>, chance: &mut impl Chance) -> Option<usize> {
        if self.out == 0 && selection.tried.is_empty() {
            return self.less_busy(self.entries.len(), Some, chance);
        }
        let fresh = |entry: &Entry| entry.is_in() && !selection.tried.contains(&entry.id);
        let used = |entry: &Entry| entry.is_in();
        for wanted in [&fresh as &dyn Fn(&Entry) -> bool, &used] {
            let eligible: Vec<usize> = (0..self.entries.len())
                .filter(|&at| wanted(&self.entries[at]))
                .collect();
            let chosen = self.less_busy(eligible.len(), |drawn| eligible.get(drawn).copied(), chance);
            if chosen.is_some() {
                return chosen;
            }
        }
        None
    }

    /// The less busy of two different ones among `count`.
    fn less_busy(
        &self,
        count: usize,
        place: impl Fn(usize) -> Option<usize>,
        chance: &mut impl Chance,
    ) -> Option<usize> {
        if count <= 1 {
            return place(0).filter(|_| count == 1);
        }
        let first = below(count, chance);
        let mut second = below(count - 1, chance);
        second += usize::from(second >= first);
        let (first, second) = (place(first)?, place(second)?);
        let busy = |at: usize| self.entries[at].under_way;
        Some(if busy(second) < busy(first) { second } else { first })
    }
}

fn below(bound: usize, chance: &mut impl Chance) -> usize {
    usize::try_from(chance.below(bound as u64)).map_or(0, |drawn| drawn.min(bound - 1))
}
