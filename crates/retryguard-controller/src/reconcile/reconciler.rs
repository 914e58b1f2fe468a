//! All targets at once: what is known of each, what is wanted, and what the data planes hold.
//!
//! A pure machine like those of the core: everything that happens comes in with the time at which it happened,
//! and what is to be done comes out as planned changes. [`crate::reconcile::control_loop`] moves them between this and the world.

mod changes;
mod status;

use std::collections::{BTreeMap, HashMap};

use retryguard_core::{Instant, guard::State};

use crate::domain::counts::Reading;
use crate::domain::limits::Limits;
use crate::domain::plan::ObservedState;
use crate::domain::rate_limit::RateLimit;
use crate::domain::state::{Found, Loss, Observed, RetryState};
use crate::domain::target::{TargetName, TargetSpec};
use crate::domain::target_guard::{ReadingResult, StateChange, TargetGuard};
use crate::reconcile::election::Leadership;

pub use changes::PlannedChange;

/// The reconciler.
#[derive(Debug)]
pub struct Reconciler {
    limits: Limits,
    targets: Vec<ManagedTarget>,
    index: HashMap<TargetName, usize>,
    actuators: Vec<ActuatorState>,
    sources: BTreeMap<&'static str, SourceState>,
    election: ElectionState,
    total_rate_limit: RateLimit,
    started: Instant,
}

/// A target.
#[derive(Debug)]
struct ManagedTarget {
    name: TargetName,
    source: &'static str,
    guard: TargetGuard,
    bindings: Vec<Binding>,
    rate_limit: RateLimit,
    /// Changes of the desired state, by the new state and by why.
    decided: BTreeMap<(&'static str, &'static str), u64>,
}

/// One actuator's hold on one target.
#[derive(Debug)]
struct Binding {
    actuator: usize,
    /// What the data plane holds, as far as we know.
    held: Option<Observed>,
    /// A change failed, and whether it was made all the same is not known.
    uncertain: bool,
    /// A change is under way.
    busy: bool,
    failures: u32,
    not_before: Instant,
    losses: Vec<Loss>,
    error: Option<String>,
}

/// An actuator.
#[derive(Debug)]
struct ActuatorState {
    name: &'static str,
    /// A question is under way.
    observing: bool,
    next_observation: Instant,
    /// When it last said what it holds.
    answered: Option<Instant>,
    /// It has changed since the question that is under way was put.
    changed: bool,
    failures: u32,
    error: Option<String>,
    /// Targets of a former configuration that are still changed.
    orphans: BTreeMap<TargetName, Binding>,
    /// Changes that are under way.
    under_way: usize,
    changes: u64,
    changes_failed: u64,
}

/// A source.
#[derive(Debug, Default)]
struct SourceState {
    rounds: u64,
    rounds_failed: u64,
    refused: BTreeMap<&'static str, u64>,
    last_round: Option<Instant>,
    error: Option<String>,
}

/// Whether we may act.
#[derive(Debug, Default)]
struct ElectionState {
    term: Option<Term>,
    leader: Option<String>,
    error: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Term {
    number: u64,
    until: Instant,
}

impl Reconciler {
    /// A reconciler that knows nothing and does not lead.
    #[must_use]
    pub fn new(watched: Vec<TargetSpec>, actuators: &[&'static str], limits: Limits, now: Instant) -> Self {
        let targets: Vec<ManagedTarget> = watched
            .into_iter()
            .map(|target| ManagedTarget {
                name: target.name,
                source: target.source,
                guard: TargetGuard::new(target.guards, target.price, now),
                bindings: target
                    .actuators
                    .into_iter()
                    .map(|actuator| Binding::new(actuator, now))
                    .collect(),
                rate_limit: RateLimit::default(),
                decided: BTreeMap::new(),
            })
            .collect();
        let index = targets
            .iter()
            .enumerate()
            .map(|(place, target_entry)| (target_entry.name.clone(), place))
            .collect();
        let actuators = actuators
            .iter()
            .map(|name| ActuatorState::new(name, now))
            .collect();
        let sources = targets
            .iter()
            .map(|target_entry| (target_entry.source, SourceState::default()))
            .collect();
        Self {
            limits,
            targets,
            index,
            actuators,
            sources,
            election: ElectionState::default(),
            total_rate_limit: RateLimit::default(),
            started: now,
        }
    }

    /// What a source said, or why it said nothing. Gives the decisions that came of it.
    pub fn round(
        &mut self,
        source: &'static str,
        result: Result<Vec<Reading>, String>,
        now: Instant,
    ) -> Vec<(TargetName, StateChange)> {
        let source_state = self.sources.entry(source).or_default();
        source_state.rounds += 1;
        let readings = match result {
            Ok(readings) => {
                source_state.error = None;
                source_state.last_round = Some(now);
                readings
            }
            Err(error) => {
                source_state.rounds_failed += 1;
                source_state.error = Some(error);
                return Vec::new();
            }
        };
        if self.election.term.is_none() {
            return Vec::new();
        }
        let mut decisions = Vec::new();
        for reading in readings {
            let Some(target_entry) = self
                .index
                .get(&reading.target)
                .map(|place| &mut self.targets[*place])
            else {
                continue;
            };
            if target_entry.source != source {
                continue;
            }
            match target_entry.guard.read(&reading, &self.limits, now) {
                ReadingResult::Accepted => {}
                ReadingResult::Decided(decision) => {
                    let key = (decision.to.as_str(), decision.word);
                    *target_entry.decided.entry(key).or_default() += 1;
                    decisions.push((reading.target, decision));
                }
                ReadingResult::Refused(why) => *source_state.refused.entry(why.as_str()).or_default() += 1,
            }
        }
        decisions
    }

    /// Time passes. Gives the targets whose last decision has held for as long as it may without data.
    pub fn tick(&mut self, now: Instant) -> Vec<TargetName> {
        if self.election.term.is_some_and(|term| term.until <= now) {
            self.step_down(now);
        }
        let mut expired = Vec::new();
        for target_entry in &mut self.targets {
            if target_entry.guard.tick(&self.limits, now) {
                let key = (State::On.as_str(), NO_DATA);
                *target_entry.decided.entry(key).or_default() += 1;
                expired.push(target_entry.name.clone());
            }
        }
        expired
    }

    /// When the next decision ends if no fresh data comes.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        let expiries = self.targets.iter();
        expiries
            .filter_map(|target_entry| target_entry.guard.expires(&self.limits))
            .min()
    }

    /// What the election said; `asked` is when the question was put.
    pub fn leadership(&mut self, result: Result<Leadership, String>, asked: Instant, now: Instant) {
        match result {
            // The term that we have goes on until its end, and no longer.
            Err(error) => self.election.error = Some(error),
            Ok(Leadership::Follower { leader }) => {
                self.election.error = None;
                self.step_down(now);
                self.election.leader = leader;
            }
            Ok(Leadership::Leader { term, lasts, .. }) => {
                self.election.error = None;
                self.election.leader = None;
                let same = self.election.term.is_some_and(|before| before.number == term);
                if !same {
                    self.step_down(now);
                }
                let until = asked.after(lasts);
                self.election.term = (until > now).then_some(Term { number: term, until });
            }
        }
    }

    /// The leadership is lost: what is known grows old from here on.
    fn step_down(&mut self, now: Instant) {
        if self.election.term.take().is_none() {
            return;
        }
        for target_entry in &mut self.targets {
            target_entry.guard.forget(now);
            for binding in &mut target_entry.bindings {
                *binding = Binding::new(binding.actuator, now);
            }
        }
        for actuator in &mut self.actuators {
            actuator.orphans.clear();
            actuator.next_observation = now;
        }
    }

    /// Whether we lead, so that a change which begins now is certain to end within the term.
    #[must_use]
    pub fn leads(&self, now: Instant) -> bool {
        self.election
            .term
            .is_some_and(|term| now.until(term.until) > self.limits.timeout)
    }

    /// Whether this controller follows another, or leads and has read every source once.
    #[must_use]
    pub fn ready(&self) -> bool {
        let observing = self.sources.values().all(|source_state| source_state.rounds > 0);
        self.election.leader.is_some() || (self.election.term.is_some() && observing)
    }

    /// The actuators that are to be asked what they hold; each counts as asked from here on.
    pub fn due_observations(&mut self, now: Instant) -> Vec<usize> {
        if !self.leads(now) {
            return Vec::new();
        }
        let mut due = Vec::new();
        for (place, actuator) in self.actuators.iter_mut().enumerate() {
            if !actuator.observing && actuator.next_observation <= now {
                actuator.observing = true;
                actuator.changed = false;
                due.push(place);
            }
        }
        due
    }

    /// An actuator's data plane may hold something else than it did: it is asked at once, though not again and again while
    /// it changes all the time, and not before the pause after a failure is over.
    pub fn data_plane_changed(&mut self, actuator: usize, now: Instant) {
        let actuator = &mut self.actuators[actuator];
        // What is under way may be answered from before the change.
        actuator.changed = true;
        if actuator.failures == 0 {
            let soonest = actuator
                .answered
                .map_or(now, |answered| answered.after(changes::SHORTEST_INTERVAL));
            actuator.next_observation = actuator.next_observation.min(soonest.max(now));
        }
    }

    /// What an actuator's data plane holds, or why it does not say.
    pub fn found(&mut self, actuator: usize, result: Result<Vec<Found>, String>, now: Instant) {
        self.actuators[actuator].observing = false;
        let found = match result {
            Ok(found) => found,
            Err(error) => {
                let actuator = &mut self.actuators[actuator];
                actuator.failures = actuator.failures.saturating_add(1);
                actuator.error = Some(error);
                actuator.next_observation = now.after(changes::pause(actuator.failures));
                return;
            }
        };
        self.actuators[actuator].failures = 0;
        self.actuators[actuator].error = None;
        self.actuators[actuator].answered = Some(now);
        let next = if self.actuators[actuator].changed {
            changes::SHORTEST_INTERVAL
        } else {
            self.limits.resync
        };
        self.actuators[actuator].next_observation = now.after(next.min(self.limits.resync));
        if self.election.term.is_none() {
            return;
        }
        let mut found: HashMap<TargetName, Observed> = found
            .into_iter()
            .map(|found| (found.target, found.held))
            .collect();
        for target_entry in &mut self.targets {
            let Some(binding) = target_entry
                .bindings
                .iter_mut()
                .find(|binding| binding.actuator == actuator)
            else {
                continue;
            };
            let held = found.remove(&target_entry.name);
            // The answer may be older than the change that is under way.
            if binding.busy {
                continue;
            }
            let first = binding.held.is_none();
            binding.uncertain = false;
            binding.held = Some(match (held, &binding.held) {
                (Some(held), _) => held,
                (None, Some(theirs @ Observed::Overridden(_))) => theirs.clone(),
                (None, _) => Observed::Managed(RetryState::Original),
            });
            if let (true, Some(Observed::Managed(desired))) = (first, &binding.held) {
                target_entry.guard.adopt(*desired, now);
            }
        }
        self.orphans(actuator, found, now);
    }

    /// What is left belongs to no target of this configuration.
    fn orphans(&mut self, actuator: usize, found: HashMap<TargetName, Observed>, now: Instant) {
        let orphans = &mut self.actuators[actuator].orphans;
        orphans.retain(|name, binding| binding.busy || found.contains_key(name));
        for (name, held) in found {
            let binding = orphans.entry(name).or_insert_with(|| Binding::new(actuator, now));
            if !binding.busy {
                binding.held = Some(held);
                binding.uncertain = false;
            }
        }
    }
}

/// The word for a decision that was made because data stopped coming.
const NO_DATA: &str = "no-data";

impl Binding {
    /// What the plan may take for true.
    fn observed(&self) -> ObservedState<'_> {
        match &self.held {
            _ if self.uncertain => ObservedState::Uncertain,
            None => ObservedState::Unknown,
            Some(held) => ObservedState::Known(held),
        }
    }

    /// Whether nothing of ours can be there. A data plane that has not said what it holds may hold what a controller
    /// before this one left there when it was killed.
    fn clean(&self) -> bool {
        matches!(
            self.observed(),
            ObservedState::Known(Observed::Managed(RetryState::Original))
        )
    }

    fn new(actuator: usize, now: Instant) -> Self {
        Self {
            actuator,
            held: None,
            uncertain: false,
            busy: false,
            failures: 0,
            not_before: now,
            losses: Vec::new(),
            error: None,
        }
    }
}

impl ActuatorState {
    fn new(name: &'static str, now: Instant) -> Self {
        Self {
            name,
            observing: false,
            next_observation: now,
            answered: None,
            changed: false,
            failures: 0,
            error: None,
            orphans: BTreeMap::new(),
            under_way: 0,
            changes: 0,
            changes_failed: 0,
        }
    }
}
