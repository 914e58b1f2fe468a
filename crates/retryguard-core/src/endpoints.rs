//! Which of several endpoints of a target an attempt goes to.
//!
//! A client that knows the endpoints of a target (its replicas, its base URLs) can do two things that a client of one
//! address cannot: send a retry to another endpoint, and stop sending to an endpoint that fails while its peers succeed.
//!
//! # Choice
//!
//! Of two endpoints that are drawn at random, the one with fewer attempts under way is taken (Mitzenmacher, "The power of
//! two choices in randomized load balancing", 2001). It needs no measurement, and clients that do not know of each other do
//! not all choose the same endpoint. A retry is drawn from the endpoints that its call has not tried, as long as one of
//! them is in.
//!
//! An endpoint that fails at once looks idle and gets more than its share. That finds it sooner, and leaving it out ends it.
//!
//! # Leaving out
//!
//! An endpoint is compared with the *other* endpoints that are in, never with a fixed rate: a failure that all of them show
//! comes from the target as a whole, and leaving endpoints out would only load the rest. It is left out
//!
//! - after [`Settings::in_a_row`] failures in a row, if that many would be very unlikely at the failure share of its peers (and
//!   a share of one is [`Settings::factor`] times theirs); or
//! - if its recent failure share is at least [`Settings::factor`] times that of its peers, over at least
//!   [`Settings::attempts`] attempts, at least [`LEAST_SHARE`], and more than [`ERRORS`] standard errors above.
//!
//! The second condition of both is what random failures need: with 25 % random 503s, five failures in a row happen every
//! second to a client with a thousand calls a second.
//!
//! An endpoint is out for [`Settings::out_for`], twice as long each time that it fails again, up to
//! [`Settings::out_for_at_most`]. Afterwards single attempts try it; it is back after [`TRIALS`] successes in a row. Trials are
//! first attempts of calls that can be sent again elsewhere, so that a failed trial costs latency and not a call.
//!
//! # Bounds
//!
//! At most [`Settings::most_out`] of the endpoints are out at once, rounded down: a single endpoint is never left out. If even
//! the best of the rest fails half of its attempts, the rest cannot carry the load (or the cause is elsewhere), and all come
//! back.
//!
//! # What counts as a failure
//!
//! A failure that is a sign of the endpoint's health ([`Failure::unhealthy`](crate::Failure::unhealthy)): not a bad request, not a
//! used-up quota. A timeout, or an attempt that its caller no longer waits for, counts only if it had enough time, by the
//! rules of [`target`](crate::target): a caller's own short deadline is no evidence about an endpoint.
//!
//! # What a driver does
//!
//! A driver adds and removes endpoints as they appear and disappear, calls [`Endpoints::choose`] for each attempt, and gives the
//! [`Sent`] back with [`Endpoints::on_end`], [`Endpoints::on_given_up`] or [`Endpoints::on_abandon`]. Time is clamped to the
//! latest time seen.

mod record;
mod report;
mod selection;
mod settings;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::{
    chance::Chance,
    outcome::{FailureKind, Outcome},
    patience::Patience,
    ratio::Ratio,
    rules,
    time::Instant,
};
pub use report::{Change, Reason, State, Status};
pub use settings::Settings;

use record::{Peers, Record};

/// Successes in a row that bring an endpoint back.
pub const TRIALS: u8 = 2;
/// An endpoint that fails less than this share of its attempts is not left out: retries cover it.
pub const LEAST_SHARE: f64 = 0.2;
/// How many standard errors above its peers an endpoint's failure share must be.
pub const ERRORS: f64 = 5.0;
/// If the best of the rest fails this share of its attempts, all come back.
const FAILING: f64 = 0.5;

/// The number of an endpoint. Never given twice by one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

/// What the selection of an endpoint for one attempt depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selection<'a> {
    /// The endpoints that the call has tried.
    pub tried: &'a [Id],
    /// Whether the call can be sent again if this attempt fails. Only such attempts try an endpoint that was left out, unless
    /// none of them has come for as long as the endpoint was out.
    pub repeatable: bool,
}

/// One attempt on its way to an endpoint. Not `Clone`; given back once.
#[derive(Debug)]
#[must_use = "an attempt is given back when it ends"]
pub struct Sent {
    to: Id,
    /// Results from before the endpoint's state changed say nothing of the new one.
    epoch: u32,
    started: Instant,
}

impl Sent {
    /// The endpoint.
    #[must_use]
    pub const fn endpoint(&self) -> Id {
        self.to
    }
}

/// The endpoints of one target.
///
/// ```
/// use retryguard_core::{
///     CallSettings, Failure, FailureKind, Instant, Outcome,
///     chance::Lowest,
///     endpoints::{Endpoints, Selection, Settings},
/// };
///
/// let (now, rules) = (Instant::from_secs(1), CallSettings::default());
/// let mut endpoints = Endpoints::new(Some(Settings::default()));
/// let broken = endpoints.add().expect("there is room");
/// let sound = endpoints.add().expect("there is room");
/// for number in 0..20 {
///     // A call that has tried one of them goes to the other.
///     let tried = [if number % 2 == 0 { broken } else { sound }];
///     let selection = Selection { tried: &tried, ..Selection::default() };
///     let sent = endpoints.choose(selection, now, &mut Lowest).expect("there are two");
///     let outcome = match sent.endpoint() == broken {
///         true => Outcome::Failure(Failure::new(FailureKind::Fault)),
///         false => Outcome::Success,
///     };
///     endpoints.on_end(sent, &outcome, &rules, now);
/// }
/// assert_eq!(endpoints.left_out(), 1);
/// ```
#[derive(Debug, Clone)]
pub struct Endpoints {
    settings: Option<Settings>,
    latest: Instant,
    /// In the order of their numbers.
    entries: Vec<Entry>,
    next: u64,
    /// How many are not in.
    out: usize,
    patience: Patience,
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
struct Entry {
    id: Id,
    membership: Membership,
    epoch: u32,
    under_way: u32,
    record: Record,
    /// How long it was last left out, and since when it is in again.
    span: Duration,
    back: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    In,
    Out {
        until: Instant,
        /// Whether a trial is under way, and how many have succeeded.
        trying: bool,
        passed: u8,
    },
}

impl Entry {
    fn is_in(&self) -> bool {
        self.membership == Membership::In
    }

    /// When it is to be tried, if it is out and no trial is under way.
    fn due(&self) -> Option<Instant> {
        match self.membership {
            Membership::Out {
                until, trying: false, ..
            } => Some(until),
            _ => None,
        }
    }
}

impl Endpoints {
    /// The most endpoints of one target.
    pub const MOST: usize = 4096;
    /// The most changes that are kept for a driver that does not take them.
    pub const MOST_CHANGES: usize = 64;

    /// A target without endpoints. Without settings none is ever left out, and retries still go to another one.
    #[must_use]
    pub fn new(settings: Option<Settings>) -> Self {
        Self {
            settings,
            latest: Instant::ZERO,
            entries: Vec::new(),
            next: 0,
            out: 0,
            patience: Patience::default(),
            changes: Vec::new(),
        }
    }

    /// Adds an endpoint, which is used at once. `None` if there are [`Endpoints::MOST`] already.
    pub fn add(&mut self) -> Option<Id> {
        if self.entries.len() >= Self::MOST {
            return None;
        }
        let id = Id(self.next);
        self.next += 1;
        self.entries.push(Entry {
            id,
            membership: Membership::In,
            epoch: 0,
            under_way: 0,
            record: Record::default(),
            span: Duration::ZERO,
            back: Instant::ZERO,
        });
        Some(id)
    }

    /// Removes an endpoint. Attempts to it that are under way end as usual and leave no trace.
    pub fn remove(&mut self, endpoint: Id) {
        let Some(at) = self.find(endpoint) else { return };
        let entry = self.entries.remove(at);
        self.out -= usize::from(!entry.is_in());
        self.keep_bound();
    }

    /// How many endpoints there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many are left out or on trial.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.out
    }

    /// Puts new settings in force. Endpoints that are out stay so as long as the new bound allows.
    pub fn replace(&mut self, settings: Option<Settings>) {
        self.settings = settings;
        if settings.is_none() {
            self.all_back(Reason::Replaced);
        }
        self.keep_bound();
    }

    /// What is known of each endpoint.
    pub fn status(&self, now: Instant) -> impl Iterator<Item = Status> + '_ {
        let now = now.max(self.latest);
        self.entries.iter().map(move |entry| Status {
            endpoint: entry.id,
            state: match entry.membership {
                Membership::In => State::In,
                Membership::Out { until, .. } if now < until => State::Out { until },
                Membership::Out { .. } => State::Trial,
            },
            under_way: entry.under_way,
            failure_share: entry.record.share(),
        })
    }

    /// What has changed since this was last asked. Bounded: the oldest are dropped.
    pub fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Whether there is a change to report.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Where an attempt goes; `None` if there is no endpoint.
    pub fn choose(
        &mut self,
        selection: Selection<'_>,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Option<Sent> {
        self.latest = self.latest.max(now);
        let at = match self.trial(&selection) {
            Some(at) => at,
            None => self.among(&selection, chance)?,
        };
        let entry = &mut self.entries[at];
        if let Membership::Out { trying, .. } = &mut entry.membership {
            *trying = true;
        }
        entry.under_way += 1;
        Some(Sent {
            to: entry.id,
            epoch: entry.epoch,
            started: self.latest,
        })
    }

    /// An attempt has ended. `rules` say how long the policy itself lets an attempt take.
    pub fn on_end(&mut self, sent: Sent, outcome: &Outcome, rules: &rules::Settings, now: Instant) {
        self.latest = self.latest.max(now);
        let took = self.latest.since(sent.started);
        let failed = match outcome.failure() {
            None => {
                self.patience.on_success(crate::time::nanos(took));
                false
            }
            Some(failure) => match failure.kind {
                FailureKind::Cancelled => return self.on_abandon(sent),
                FailureKind::Timeout if failure.unhealthy => {
                    if !self.patience.is_enough(took, None, rules) {
                        return self.on_abandon(sent);
                    }
                    true
                }
                _ => failure.unhealthy && !failure.hints.caller_only,
            },
        };
        self.settle(&sent, failed);
    }

    /// The caller of an attempt no longer waits for it: a timeout if it had enough time, and nothing otherwise.
    pub fn on_given_up(&mut self, sent: Sent, rules: &rules::Settings, now: Instant) {
        self.latest = self.latest.max(now);
        let given = self.latest.since(sent.started);
        if self.patience.is_enough(given, None, rules) {
            self.settle(&sent, true);
        } else {
            self.on_abandon(sent);
        }
    }

    /// An attempt was never sent, or is no evidence about its endpoint.
    #[expect(clippy::needless_pass_by_value, reason = "an attempt is given back once")]
    pub fn on_abandon(&mut self, sent: Sent) {
        if let Some((_, entry)) = self.give_back(&sent)
            && let Membership::Out { trying, .. } = &mut entry.membership
        {
            *trying = false;
        }
    }

    /// The endpoint of an attempt that has ended, if the attempt still speaks of its present state.
    fn give_back(&mut self, sent: &Sent) -> Option<(usize, &mut Entry)> {
        let at = self.find(sent.to)?;
        let entry = &mut self.entries[at];
        debug_assert!(entry.under_way > 0, "an attempt is given back once");
        entry.under_way = entry.under_way.saturating_sub(1);
        (entry.epoch == sent.epoch).then_some((at, entry))
    }

    fn settle(&mut self, sent: &Sent, failed: bool) {
        let Some((at, entry)) = self.give_back(sent) else {
            return;
        };
        match &mut entry.membership {
            Membership::In => {
                entry.record.add(failed);
                if failed {
                    self.compare(at);
                }
            }
            Membership::Out { .. } if failed => self.leave_out(at, Reason::TrialFailed),
            Membership::Out { trying, passed, .. } => {
                *trying = false;
                *passed += 1;
                if *passed >= TRIALS {
                    self.bring_back(at, Reason::TrialsSucceeded);
                }
            }
        }
    }

    /// An endpoint that is in has failed once more.
    fn compare(&mut self, at: usize) {
        let Some(settings) = self.settings else { return };
        let of_others = self.entries.iter().enumerate();
        let others = of_others.filter(|(other, entry)| *other != at && entry.is_in());
        let peers = Peers::of(others.map(|(_, entry)| &entry.record));
        let record = &self.entries[at].record;
        let reason = if record.is_row_against(&peers, &settings) {
            Some(Reason::InARow)
        } else if record.is_far_above(&peers, &settings) {
            Some(Reason::FailureShare)
        } else {
            None
        };
        if let Some(reason) = reason
            && self.out < self.allowed_out()
        {
            return self.leave_out(at, reason);
        }
        if self.out > 0 && self.all_fail(settings.attempts) {
            self.all_back(Reason::OthersFail);
        }
    }

    /// Whether even the best endpoint that is in fails most of its attempts.
    fn all_fail(&self, attempts: u32) -> bool {
        let mut rest = self.entries.iter().filter(|entry| entry.is_in());
        rest.all(|entry| entry.record.seen() >= attempts && entry.record.share() >= FAILING)
    }

    /// How many endpoints may be out at once.
    fn allowed_out(&self) -> usize {
        let share = self.settings.map_or(Ratio::ZERO, |settings| settings.most_out);
        let all = self.entries.len();
        let parts = all as u128 * u128::from(share.parts()) / u128::from(Ratio::PARTS);
        usize::try_from(parts).unwrap_or(all).min(all.saturating_sub(1))
    }

    fn leave_out(&mut self, at: usize, reason: Reason) {
        let Some(settings) = self.settings else { return };
        let now = self.latest;
        let entry = &mut self.entries[at];
        let again = !entry.is_in() || now.since(entry.back) < settings.out_for_at_most;
        entry.span = if again && !entry.span.is_zero() {
            entry.span.saturating_mul(2).min(settings.out_for_at_most)
        } else {
            settings.out_for.min(settings.out_for_at_most)
        };
        self.out += usize::from(entry.is_in());
        entry.epoch = entry.epoch.wrapping_add(1);
        entry.membership = Membership::Out {
            until: now.after(entry.span),
            trying: false,
            passed: 0,
        };
        let (endpoint, out_for) = (entry.id, Some(entry.span));
        self.note(Change {
            endpoint,
            out_for,
            reason,
        });
    }

    fn bring_back(&mut self, at: usize, reason: Reason) {
        let entry = &mut self.entries[at];
        entry.epoch = entry.epoch.wrapping_add(1);
        entry.membership = Membership::In;
        entry.record = Record::default();
        entry.back = self.latest;
        let endpoint = entry.id;
        self.out -= 1;
        self.note(Change {
            endpoint,
            out_for: None,
            reason,
        });
    }

    fn all_back(&mut self, reason: Reason) {
        for at in 0..self.entries.len() {
            if !self.entries[at].is_in() {
                self.bring_back(at, reason);
            }
        }
    }

    /// Brings back those whose time is over first, until not too many are out.
    fn keep_bound(&mut self) {
        while self.out > self.allowed_out() {
            let until = |entry: &Entry| match entry.membership {
                Membership::In => None,
                Membership::Out { until, .. } => Some(until),
            };
            let out = self.entries.iter().enumerate();
            let first = out.filter_map(|(at, entry)| Some((until(entry)?, at))).min();
            match first {
                Some((_, at)) => self.bring_back(at, Reason::Bound),
                None => return,
            }
        }
    }

    fn find(&self, endpoint: Id) -> Option<usize> {
        self.entries
            .binary_search_by_key(&endpoint, |entry| entry.id)
            .ok()
    }

    fn note(&mut self, change: Change) {
        if self.changes.len() >= Self::MOST_CHANGES {
            self.changes.remove(0);
        }
        self.changes.push(change);
    }
}
