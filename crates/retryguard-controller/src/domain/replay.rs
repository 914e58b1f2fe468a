//! What the guards would have decided on recorded readings, and which retries that would have held back.
//!
//! A replay cannot know how a service would have responded to fewer retries. It counts the retries that were sent while a
//! guard wanted them off, and how many of them succeeded where the source says so: what would have been saved, and what would
//! have been lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use retryguard_core::{Instant, guard::State};

use crate::domain::{
    counts::Reading,
    limits::Limits,
    state::RetryState,
    target::{TargetName, TargetSpec},
    target_guard::{ReadingResult, StateChange, TargetGuard},
};

/// The most decisions of one target that are listed; more are only counted.
pub const MOST_DECISIONS: usize = 1_000;

/// The most targets that are remembered of those that only the recording has.
const MOST_UNKNOWN: usize = 1_000;

/// A replay of one recording.
#[derive(Debug)]
pub struct Replay {
    limits: Limits,
    targets: BTreeMap<TargetName, Replayed>,
    /// Targets of the recording that the configuration does not have.
    unknown: BTreeSet<TargetName>,
    now: Option<Instant>,
}

#[derive(Debug)]
struct Replayed {
    guard: TargetGuard,
    outcome: Outcome,
}

/// What became of one target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// First attempts in the recording.
    pub calls: u64,
    /// Retries in the recording; `None` where no reading had them.
    pub retries: Option<u64>,
    /// Retries that would have been held back.
    pub held_back: f64,
    /// How many of these succeeded in the recording; `None` where the source does not count them.
    pub held_back_succeeded: Option<f64>,
    /// For how long retries would not have been as the user configured them.
    pub restricted: Duration,
    /// Readings that were left out.
    pub refused: u64,
    /// How often the state would have changed.
    pub decided: u64,
    /// The first [`MOST_DECISIONS`] changes: when, to which state, and why.
    pub decisions: Vec<(Instant, State, String)>,
}

impl Replay {
    /// Nothing is replayed yet.
    #[must_use]
    pub fn new(targets: Vec<TargetSpec>, limits: Limits) -> Self {
        let start = Instant::from_nanos(0);
        let targets = targets
            .into_iter()
            .map(|target| {
                let replayed = Replayed {
                    guard: TargetGuard::new(target.guards, target.price, start),
                    outcome: Outcome::default(),
                };
                (target.name, replayed)
            })
            .collect();
        Self {
            limits,
            targets,
            unknown: BTreeSet::new(),
            now: None,
        }
    }

    /// The readings of one round. Time never runs backwards: an earlier `now` counts as the latest so far.
    pub fn round(&mut self, readings: &[Reading], now: Instant) {
        let before = self.now.unwrap_or(now);
        let now = now.max(before);
        self.now = Some(now);
        for replayed in self.targets.values_mut() {
            replayed.pass(&self.limits, before, now);
        }
        for reading in readings {
            if let Some(replayed) = self.targets.get_mut(&reading.target) {
                replayed.read(reading, &self.limits, now);
            } else if self.unknown.len() < MOST_UNKNOWN && !self.unknown.contains(&reading.target) {
                self.unknown.insert(reading.target.clone());
            }
        }
    }

    /// The targets of the recording that the configuration does not have. Nothing was decided about them.
    pub fn unknown(&self) -> impl ExactSizeIterator<Item = &TargetName> {
        self.unknown.iter()
    }

    /// What became of each target.
    pub fn outcomes(&self) -> impl Iterator<Item = (&TargetName, &Outcome)> {
        self.targets
            .iter()
            .map(|(name, replayed)| (name, &replayed.outcome))
    }
}

impl Replayed {
    fn pass(&mut self, limits: &Limits, before: Instant, now: Instant) {
        // Without data the decision ended between the two rounds.
        let end = self.guard.expires(limits).unwrap_or(now).max(before).min(now);
        if self.guard.desired() != RetryState::Original {
            self.outcome.restricted += end.since(before);
        }
        if self.guard.tick(limits, end) {
            let reason = self.guard.reason().to_owned();
            self.outcome.note(end, State::On, reason);
        }
    }

    fn read(&mut self, reading: &Reading, limits: &Limits, now: Instant) {
        // These counts were made while the state was what it still is.
        let held = match self.guard.desired() {
            RetryState::Original => 0.0,
            RetryState::Off => 1.0,
            RetryState::Part { share, .. } => 1.0 - share.as_f64(),
        };
        match self.guard.read(reading, limits, now) {
            ReadingResult::Refused(_) => {
                self.outcome.refused += 1;
                return;
            }
            ReadingResult::Decided(StateChange { to, reason, .. }) => {
                self.outcome.note(now, to, reason);
            }
            ReadingResult::Accepted => {}
        }
        let counts = &reading.counts;
        self.outcome.calls = self.outcome.calls.saturating_add(counts.calls);
        if let Some(retries) = counts.retries {
            let sum = self.outcome.retries.unwrap_or(0);
            self.outcome.retries = Some(sum.saturating_add(retries));
            self.outcome.held_back += held * retries as f64;
        }
        if let Some(succeeded) = counts.retries_succeeded {
            let sum = self.outcome.held_back_succeeded.unwrap_or(0.0);
            self.outcome.held_back_succeeded = Some(sum + held * succeeded as f64);
        }
    }
}

impl Outcome {
    fn note(&mut self, now: Instant, to: State, reason: String) {
        self.decided += 1;
        if self.decisions.len() < MOST_DECISIONS {
            self.decisions.push((now, to, reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use retryguard_core::guard::Settings;

    use super::*;
    use crate::domain::counts::Counts;

    fn target() -> TargetSpec {
        TargetSpec {
            name: TargetName::new("payments"),
            guards: vec![Settings::default()],
            price: crate::domain::gain::PRICE,
            source: "scripted",
            actuators: Vec::new(),
        }
    }

    fn reading(rejected: u64, succeeded: Option<u64>) -> Reading {
        Reading {
            target: TargetName::new("payments"),
            counts: Counts {
                calls: 100,
                rejected: Some(rejected),
                retries: Some(50),
                retries_succeeded: succeeded,
                failed: None,
                delay: None,
            },
            age: Duration::ZERO,
        }
    }

    #[test]
    fn an_overload_shows_what_would_have_been_held_back_and_lost() {
        let mut replay = Replay::new(vec![target()], Limits::default());
        for second in 0..20 {
            replay.round(&[reading(90, Some(5))], Instant::from_secs(second));
        }
        let (_, outcome) = replay.outcomes().next().unwrap();
        assert_eq!((outcome.calls, outcome.retries), (2_000, Some(1_000)));
        assert_eq!(outcome.decided, 1, "{outcome:?}");
        assert_eq!(outcome.decisions[0].1, State::Off);
        assert!(outcome.held_back > 0.0 && outcome.held_back < 1_000.0);
        let lost = outcome.held_back_succeeded.unwrap();
        assert!((lost - outcome.held_back / 10.0).abs() < 1e-9);
        assert!(outcome.restricted >= Duration::from_secs(1));
    }

    #[test]
    fn a_quiet_recording_holds_nothing_back_and_says_what_is_not_known() {
        let mut replay = Replay::new(vec![target()], Limits::default());
        for second in 0..20 {
            replay.round(&[reading(0, None)], Instant::from_secs(second));
        }
        let (_, outcome) = replay.outcomes().next().unwrap();
        assert_eq!((outcome.decided, outcome.held_back), (0, 0.0));
        assert_eq!(outcome.held_back_succeeded, None);
    }

    /// A gap as long as a decision holds gives retries back, as it would have live.
    #[test]
    fn a_gap_in_the_recording_gives_retries_back() {
        let mut replay = Replay::new(vec![target()], Limits::default());
        for second in 0..20 {
            replay.round(&[reading(90, None)], Instant::from_secs(second));
        }
        replay.round(&[], Instant::from_secs(200));
        let (_, outcome) = replay.outcomes().next().unwrap();
        assert_eq!(outcome.decisions.last().unwrap().1, State::On);
        assert_eq!(outcome.decisions.last().unwrap().2, "no fresh data for 55 s");
        // The last reading was at second 19. The rest of the gap counted as restricted.
        let (off, back) = (outcome.decisions[0].0, outcome.decisions.last().unwrap().0);
        assert_eq!(back, Instant::from_secs(19 + 55));
        assert_eq!(outcome.restricted, back.since(off));
    }

    /// A recording of targets with other names looked like one in which nothing happened.
    #[test]
    fn targets_that_only_the_recording_has_are_named_once() {
        let mut replay = Replay::new(vec![target()], Limits::default());
        for second in 0..3 {
            let mut other = reading(90, None);
            other.target = TargetName::new("orders");
            replay.round(&[reading(0, None), other], Instant::from_secs(second));
        }
        let unknown: Vec<&str> = replay.unknown().map(TargetName::as_str).collect();
        assert_eq!(unknown, ["orders"]);
        assert_eq!(replay.outcomes().count(), 1);
    }

    #[test]
    fn implausible_readings_are_counted_and_left_out() {
        let mut replay = Replay::new(vec![target()], Limits::default());
        replay.round(&[reading(101, None)], Instant::from_secs(1));
        let (_, outcome) = replay.outcomes().next().unwrap();
        assert_eq!((outcome.refused, outcome.calls), (1, 0));
    }
}
