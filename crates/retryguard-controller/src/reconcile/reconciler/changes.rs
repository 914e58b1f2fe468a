//! From what is wanted to what is done.

use std::time::Duration;

use retryguard_core::Instant;

use crate::domain::plan::plan;
use crate::domain::state::{Change, Loss, Observed, RetryState};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::ActuatorError;
use crate::reconcile::reconciler::{Binding, Reconciler};

/// A change, and the actuator that makes it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedChange {
    /// The actuator, by its place.
    pub actuator: usize,
    /// What it shall do.
    pub change: Change,
}

/// What a change belongs to.
#[derive(Debug, Clone)]
enum ChangeOwner {
    ManagedTarget { target_entry: usize, binding: usize },
    Orphan { actuator: usize, name: TargetName },
}

/// The pause after so many failures in a row: doubling from a second to a minute. Without jitter, for there is
/// one leader and no other client to be in step with.
pub(super) fn pause(failures: u32) -> Duration {
    Duration::from_secs(1_u64 << failures.saturating_sub(1).min(6)).min(Duration::from_secs(60))
}

/// The shortest time between two questions to a data plane that says that it changes. Each question may be a list of
/// thousands of objects.
pub(super) const SHORTEST_INTERVAL: Duration = Duration::from_secs(2);

impl Reconciler {
    /// What is to be done now, within the rate limits and with at most `at_once` changes under way for one actuator: one that
    /// does not answer must not delay the others. Each change counts as under way from here on.
    pub fn planned_changes(&mut self, now: Instant, at_once: usize) -> Vec<PlannedChange> {
        if !self.leads(now) {
            return Vec::new();
        }
        let mut planned_changes = Vec::new();
        for (place, desired) in self.needed(now) {
            if self.has_room(&place, at_once) && self.within_rate_limits(&place, now) {
                planned_changes.push(self.planned(&place, desired, None));
            }
        }
        planned_changes
    }

    fn has_room(&self, place: &ChangeOwner, at_once: usize) -> bool {
        let actuator = match place {
            ChangeOwner::ManagedTarget {
                target_entry,
                binding,
            } => self.targets[*target_entry].bindings[*binding].actuator,
            ChangeOwner::Orphan { actuator, .. } => *actuator,
        };
        self.actuators[actuator].under_way < at_once
    }

    /// Whether the rate limits allow one more change; it counts from here on. A target about which nothing is known any more is
    /// restored whatever they are: a decision must not outlast `limits.hold`.
    fn within_rate_limits(&mut self, place: &ChangeOwner, now: Instant) -> bool {
        let limits = &self.limits;
        let of_target = match place {
            ChangeOwner::ManagedTarget { target_entry, .. } => {
                let target_entry = &mut self.targets[*target_entry];
                if target_entry.guard.knows_nothing() {
                    return true;
                }
                Some(&mut target_entry.rate_limit)
            }
            ChangeOwner::Orphan { .. } => None,
        };
        if !self
            .total_rate_limit
            .allows(limits.changes_per_minute_in_all, now)
        {
            return false;
        }
        if let Some(of_target) = of_target {
            if !of_target.allows(limits.changes_per_minute, now) {
                return false;
            }
            of_target.note(now);
        }
        self.total_rate_limit.note(now);
        true
    }

    /// Everything back to what the user configured, whatever the rate limits are: for a polite stop.
    pub fn restore_all(&mut self, now: Instant, at_once: usize) -> Vec<PlannedChange> {
        if !self.leads(now) {
            return Vec::new();
        }
        let mut planned_changes = Vec::new();
        for place in self.places() {
            let binding = self.binding(&place);
            let needed = !binding.clean() && !binding.busy && binding.not_before <= now;
            if needed && self.has_room(&place, at_once) {
                planned_changes.push(self.planned(
                    &place,
                    RetryState::Original,
                    Some("the controller stops"),
                ));
            }
        }
        planned_changes
    }

    /// Whether anything of ours is still in a data plane, or may be.
    #[must_use]
    pub fn clean(&self) -> bool {
        self.places().iter().all(|place| {
            let binding = self.binding(place);
            !binding.busy && binding.clean()
        })
    }

    /// What became of a planned change. Gives the actuator's losses where it was made.
    pub fn done(&mut self, planned: &PlannedChange, result: Result<Vec<Loss>, ActuatorError>, now: Instant) {
        let actuator = &mut self.actuators[planned.actuator];
        actuator.under_way = actuator.under_way.saturating_sub(1);
        actuator.changes += 1;
        actuator.changes_failed += u64::from(result.is_err());
        if result.is_err() {
            // Whether it was made is not known: ask.
            actuator.next_observation = actuator.next_observation.min(now.after(pause(1)));
        }
        let Some(binding) = self.binding_of(planned) else {
            return;
        };
        binding.busy = false;
        match result {
            Ok(losses) => {
                binding.held = Some(Observed::Managed(planned.change.desired));
                binding.uncertain = false;
                binding.losses = losses;
                binding.failures = 0;
                binding.error = None;
            }
            Err(error) => {
                binding.failures = binding.failures.saturating_add(1);
                binding.not_before = now.after(pause(binding.failures));
                binding.error = Some(error.to_string());
                if matches!(error, ActuatorError::Conflict { .. }) {
                    binding.held = Some(Observed::Overridden(error.to_string()));
                } else {
                    binding.uncertain = true;
                }
            }
        }
        let gone = planned.change.desired == RetryState::Original;
        if gone && !self.index.contains_key(&planned.change.target) {
            let orphans = &mut self.actuators[planned.actuator].orphans;
            if orphans
                .get(&planned.change.target)
                .is_some_and(|binding| binding.error.is_none())
            {
                orphans.remove(&planned.change.target);
            }
        }
    }

    fn needed(&self, now: Instant) -> Vec<(ChangeOwner, RetryState)> {
        let free = |binding: &Binding| !binding.busy && binding.not_before <= now;
        let targets = self
            .targets
            .iter()
            .enumerate()
            .flat_map(|(target_entry, watched)| {
                let desired = watched.guard.desired();
                let bindings = watched
                    .bindings
                    .iter()
                    .enumerate()
                    .filter(move |(_, binding)| free(binding));
                bindings.map(move |(binding, held)| {
                    (
                        ChangeOwner::ManagedTarget {
                            target_entry,
                            binding,
                        },
                        desired,
                        held.observed(),
                    )
                })
            });
        let orphans = self.actuators.iter().enumerate().flat_map(|(actuator, held)| {
            let orphans = held.orphans.iter().filter(move |(_, binding)| free(binding));
            orphans.map(move |(name, binding)| {
                let name = name.clone();
                (
                    ChangeOwner::Orphan { actuator, name },
                    RetryState::Original,
                    binding.observed(),
                )
            })
        });
        plan(targets.chain(orphans))
    }

    fn planned(&mut self, place: &ChangeOwner, desired: RetryState, why: Option<&str>) -> PlannedChange {
        let term = self.election.term.map_or(0, |term| term.number);
        let (actuator, target, reason) = match place {
            ChangeOwner::ManagedTarget {
                target_entry,
                binding,
            } => {
                let target_entry = &self.targets[*target_entry];
                (
                    target_entry.bindings[*binding].actuator,
                    target_entry.name.clone(),
                    target_entry.guard.reason(),
                )
            }
            ChangeOwner::Orphan { actuator, name } => {
                (*actuator, name.clone(), "no target of this configuration")
            }
        };
        let why = why.unwrap_or(reason).to_owned();
        let binding = match place {
            ChangeOwner::ManagedTarget {
                target_entry,
                binding,
            } => Some(&mut self.targets[*target_entry].bindings[*binding]),
            ChangeOwner::Orphan { actuator, name } => self.actuators[*actuator].orphans.get_mut(name),
        };
        if let Some(binding) = binding {
            binding.busy = true;
        }
        self.actuators[actuator].under_way += 1;
        PlannedChange {
            actuator,
            change: Change {
                target,
                desired,
                why,
                term,
            },
        }
    }

    fn places(&self) -> Vec<ChangeOwner> {
        let targets = self.targets.iter().enumerate();
        let targets = targets.flat_map(|(target_entry, watched)| {
            (0..watched.bindings.len()).map(move |binding| ChangeOwner::ManagedTarget {
                target_entry,
                binding,
            })
        });
        let actuators = self.actuators.iter().enumerate();
        let orphans = actuators.flat_map(|(actuator, held)| {
            let names = held.orphans.keys().cloned();
            names.map(move |name| ChangeOwner::Orphan { actuator, name })
        });
        targets.chain(orphans).collect()
    }

    fn binding(&self, place: &ChangeOwner) -> &Binding {
        match place {
            ChangeOwner::ManagedTarget {
                target_entry,
                binding,
            } => &self.targets[*target_entry].bindings[*binding],
            ChangeOwner::Orphan { actuator, name } => &self.actuators[*actuator].orphans[name],
        }
    }

    fn binding_of(&mut self, planned: &PlannedChange) -> Option<&mut Binding> {
        if let Some(target_entry) = self.index.get(&planned.change.target) {
            let bindings = &mut self.targets[*target_entry].bindings;
            return bindings
                .iter_mut()
                .find(|binding| binding.actuator == planned.actuator);
        }
        self.actuators[planned.actuator]
            .orphans
            .get_mut(&planned.change.target)
    }
}
