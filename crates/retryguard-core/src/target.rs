//! The state that all calls to one destination share, and the order in which its parts are asked.
//!
//! # Admitting an attempt
//!
//! 1. **gate**: a first attempt is refused while the target has asked to be left alone.
//! 2. **breaker**, a look only: nobody queues for a target that is known to be down.
//! 3. **throttle**: a client that is mostly rejected stops asking.
//! 4. **bulkhead**: takes a place, or waits for one (a hedge never waits).
//! 5. **breaker**, for good: a half-open breaker gives out one of its probes. Last, so that a probe is never
//!    held by an attempt that still waits or is refused for another reason.
//!
//! An attempt that waited for its place is asked for gate and breaker again when the place has come: places
//! come free when attempts end, and those may end in a request to be left alone.
//!
//! # Allowing a retry
//!
//! Asked by [`Call`](crate::Call) once the failure itself, the number of attempts and the deadline speak for
//! it: **gate** (has the target forbidden retries?), then **guard**, then **budget**. The budget is last,
//! because it is the only one that is spent by asking.
//!
//! # What a driver does
//!
//! A driver owns the target behind one short lock (or alone), calls into it through [`Call`](crate::Call),
//! and after every call into it
//! - asks [`Target::next_granted`] until it says none, and wakes the calls that wait under these tickets;
//! - takes [`Target::changes`], if it wants to tell of them.
//!
//! Time may repeat and may even run backwards (two threads read their clocks before they reach the lock):
//! every input is clamped to the latest time seen.

use std::sync::Arc;

use crate::{
    breaker::{self, Breaker, Pass},
    budget::{self, Budget, Charge},
    bulkhead::{self, Bulkhead, Limit, Place, Ticket},
    call,
    chance::Chance,
    criticality::Criticality,
    gate::{self, Gate},
    guard::{self, Guard, Sample, Signal},
    hedge::{self, Hedge},
    latency::Latencies,
    outcome::{FailureKind, Outcome},
    ratio::Ratio,
    refusal::Refusal,
    throttle::{self, Counted, Throttle},
    time::Instant,
};

/// Everything that a compiled policy says about one target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The rules for each call.
    pub call: call::Settings,
    /// How the target's hints are obeyed.
    pub gate: gate::Settings,
    /// The breaker, if there is one.
    pub breaker: Option<breaker::Settings>,
    /// The budget, if there is one.
    pub budget: Option<budget::Settings>,
    /// The throttle, if there is one.
    pub throttle: Option<throttle::Settings>,
    /// The bulkhead, if there is one.
    pub bulkhead: Option<bulkhead::Settings>,
    /// Hedging, if it is wanted.
    pub hedge: Option<hedge::Settings>,
    /// The guard, if there is one.
    pub guard: Option<guard::Settings>,
    /// Features whose calls are refused.
    pub features_off: Vec<Box<str>>,
}

/// What kind of attempt asks to be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptKind {
    /// The first of its call.
    First,
    /// One after a failure.
    Retry,
    /// One beside another that is still running.
    Hedge,
}

impl AttemptKind {
    /// The word used in tags and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
            Self::Hedge => "hedge",
        }
    }
}

/// Leave to send one attempt. Not `Clone`; given back exactly once, through [`Target::settle`] or
/// [`Target::abandon`]. A debug build panics when one is lost.
#[derive(Debug)]
#[must_use = "a permit is settled or abandoned"]
pub struct Permit {
    kind: AttemptKind,
    criticality: Criticality,
    started: Instant,
    pass: Option<Pass>,
    counted: Option<Counted>,
    given_back: bool,
}

impl Permit {
    /// The kind of attempt it was given for.
    #[must_use]
    pub const fn kind(&self) -> AttemptKind {
        self.kind
    }

    /// Whether the attempt probes a half-open breaker.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.pass.is_some_and(Pass::is_probe)
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(self.given_back || std::thread::panicking(), "a permit was lost");
    }
}

/// The answer to an attempt that asks to be sent.
#[derive(Debug)]
pub(crate) enum Admission {
    Sent(Permit),
    Queued(Queued),
}

/// An attempt that waits for a place in the bulkhead.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) kind: AttemptKind,
    counted: Option<Counted>,
}

/// Something that operators want to hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The breaker changed its state.
    Breaker {
        /// Before.
        from: breaker::State,
        /// After.
        to: breaker::State,
    },
    /// The guard changed its state.
    Guard(guard::Decision),
}

/// The shared state of one destination.
#[derive(Debug, Clone)]
pub struct Target {
    settings: Arc<Settings>,
    latest: Instant,
    gate: Gate,
    breaker: Option<Breaker>,
    budget: Option<Budget>,
    throttle: Option<Throttle>,
    /// Always there, without a limit where the policy sets none: it counts what is in flight, and a limit
    /// that is removed by a new policy still has to let its queue go.
    bulkhead: Bulkhead,
    hedge: Option<Hedge>,
    guard: Option<Guard>,
    sample: Sample,
    sample_ends: Instant,
    delays: Option<Latencies>,
    numbers: Numbers,
    changes: Vec<Change>,
}

/// From where the parts that a later policy brings number what they give out. Goes on from part to part, so
/// that a permit or a charge which outlives its part means nothing to the next one.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    breaker: u32,
    budget: u64,
    throttle: u64,
}

impl Target {
    /// The most changes that are kept for a driver that does not take them.
    pub const MOST_CHANGES: usize = 64;

    /// The quantile of the delay that the guard's samples report.
    pub const DELAY_QUANTILE: Ratio = Ratio::percent(95);

    /// A target that nobody has called yet.
    #[must_use]
    pub fn new(settings: Arc<Settings>, now: Instant) -> Self {
        let mut target = Self {
            gate: Gate::new(settings.gate),
            breaker: None,
            budget: None,
            throttle: None,
            bulkhead: Bulkhead::new(bulkhead_or_none(settings.bulkhead), now),
            hedge: None,
            guard: None,
            sample: Sample::default(),
            sample_ends: Instant::NEVER,
            delays: None,
            numbers: Numbers::default(),
            changes: Vec::new(),
            latest: now,
            settings: Arc::new(Settings::default()),
        };
        target.replace(settings, now);
        target
    }

    /// Puts a new policy in force at once, also for calls that are under way. Every part that was there
    /// before keeps its state.
    pub fn replace(&mut self, settings: Arc<Settings>, now: Instant) {
        let now = self.clamp(now);
        self.gate.replace(settings.gate);
        self.bulkhead.replace(bulkhead_or_none(settings.bulkhead));
        let numbers = self.note_numbers();
        let from = self.breaker_state();
        swap(
            &mut self.breaker,
            settings.breaker,
            |part, new| part.replace(new, now),
            |new| Breaker::new(new, now).numbered_from(numbers.breaker),
        );
        self.note_breaker(from);
        swap(
            &mut self.budget,
            settings.budget,
            |part, new| part.replace(new, now),
            |new| Budget::new(new, now).numbered_from(numbers.budget),
        );
        swap(
            &mut self.throttle,
            settings.throttle,
            |part, new| part.replace(new, now),
            |new| Throttle::new(new, now).numbered_from(numbers.throttle),
        );
        swap(&mut self.hedge, settings.hedge, Hedge::replace, Hedge::new);
        if self.guard.is_none() {
            self.sample = Sample::default();
        }
        swap(
            &mut self.guard,
            settings.guard,
            |part, new| part.replace(new, now),
            |new| Guard::new(new, now),
        );
        let reads_delay = settings.guard.is_some_and(|guard| guard.signal == Signal::Delay);
        self.delays = reads_delay.then(|| self.delays.take().unwrap_or_default());
        self.sample_ends = settings.guard.map_or(Instant::NEVER, |guard| {
            // A sample that has begun is not put off, or frequent swaps would starve the guard.
            self.sample_ends.min(now.after(guard.interval))
        });
        self.settings = settings;
    }

    /// Brings the numbers up to date with the parts that are there.
    fn note_numbers(&mut self) -> Numbers {
        let numbers = &mut self.numbers;
        if let Some(breaker) = &self.breaker {
            numbers.breaker = breaker.number_for_next();
        }
        if let Some(budget) = &self.budget {
            numbers.budget = budget.number_for_next();
        }
        if let Some(throttle) = &self.throttle {
            numbers.throttle = throttle.number_for_next();
        }
        *numbers
    }

    /// The policy in force.
    #[inline]
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The latest time seen, which every input is clamped to.
    #[inline]
    pub(crate) fn clamp(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// The next waiting call that has been given a place. Asked until it says none, after every input.
    #[inline]
    pub fn next_granted(&mut self) -> Option<Ticket> {
        self.bulkhead.grant()
    }

    /// What has changed since this was last asked. Bounded: the oldest are dropped.
    #[inline]
    pub fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Whether there is a change to be told.
    #[inline]
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The breaker's state; closed where there is none.
    #[inline]
    #[must_use]
    pub fn breaker_state(&self) -> breaker::State {
        self.breaker
            .as_ref()
            .map_or(breaker::State::Closed, Breaker::state)
    }

    /// The guard's state; on where there is none.
    #[must_use]
    pub fn guard_state(&self) -> guard::State {
        self.guard.as_ref().map_or(guard::State::On, Guard::state)
    }

    /// The share of retries that the guard lets through.
    #[must_use]
    pub fn guard_share(&self) -> Ratio {
        self.guard.as_ref().map_or(Ratio::ONE, Guard::share)
    }

    /// How many retries the budget would allow now; `None` where there is no budget.
    #[must_use]
    pub fn budget_balance(&mut self, now: Instant) -> Option<u64> {
        let now = self.clamp(now);
        self.budget.as_mut().map(|budget| budget.balance(now))
    }

    /// How many attempts are under way.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.bulkhead.in_flight()
    }

    /// How many attempts may be under way.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.bulkhead.limit()
    }

    /// How many attempts wait for a place.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.bulkhead.waiting()
    }

    /// How long a call that is refused for `refusal` should stay away, spread so that the refused do not
    /// come back together.
    pub fn retry_after(
        &self,
        refusal: Refusal,
        criticality: Criticality,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Option<std::time::Duration> {
        let now = now.max(self.latest);
        let wait = match refusal {
            Refusal::RetryAfter => self.gate.holds_first(criticality, now),
            Refusal::BreakerOpen => self.breaker.as_ref()?.opens_until().map(|until| now.until(until)),
            _ => None,
        }?;
        Some(self.gate.jittered(wait, chance))
    }

    /// Asks for leave to send an attempt, in the order that the module states.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        kind: AttemptKind,
        criticality: Criticality,
        ticket: Ticket,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Result<Admission, Refusal> {
        if kind == AttemptKind::First && self.gate.holds_first(criticality, now).is_some() {
            return Err(Refusal::RetryAfter);
        }
        self.look_at_breaker(now)?;
        let counted = match &mut self.throttle {
            Some(throttle) => Some(
                throttle
                    .admit(criticality, now, chance)
                    .ok_or(Refusal::Throttled)?,
            ),
            None => None,
        };
        let place = if kind == AttemptKind::Hedge {
            if self.bulkhead.try_acquire() {
                Ok(Place::Taken)
            } else {
                Err(Refusal::BulkheadFull)
            }
        } else {
            self.bulkhead.acquire(ticket)
        };
        match place {
            Ok(Place::Taken) => self
                .pass_breaker(kind, criticality, counted, now)
                .map(Admission::Sent),
            Ok(Place::Queued) => Ok(Admission::Queued(Queued { kind, counted })),
            Err(refusal) => {
                self.forget(criticality, counted);
                Err(refusal)
            }
        }
    }

    /// Whether the target as a whole has turned attempts of this kind away since one was decided.
    pub(crate) fn has_closed_to(&self, kind: AttemptKind, criticality: Criticality, now: Instant) -> bool {
        match kind {
            AttemptKind::First => self.gate.holds_first(criticality, now).is_some(),
            AttemptKind::Retry | AttemptKind::Hedge => {
                self.gate.holds_again(criticality, now)
                    || self.gate.forbids_retries(now)
                    || self.guard_share() == Ratio::ZERO
            }
        }
    }

    /// A waiting attempt has been given its place: the last question, asked again because time has passed.
    pub(crate) fn admit_granted(
        &mut self,
        queued: &Queued,
        criticality: Criticality,
        now: Instant,
    ) -> Result<Permit, Refusal> {
        self.pass_breaker(queued.kind, criticality, queued.counted, now)
    }

    /// A waiting attempt gives up, whether it still stands in the queue or has just been given its place.
    pub(crate) fn leave_queue(&mut self, queued: &Queued, criticality: Criticality, ticket: Ticket) {
        self.forget(criticality, queued.counted);
        if !self.bulkhead.leave(ticket) {
            self.bulkhead.release();
        }
    }

    /// How long an attempt may wait for a place.
    pub(crate) fn queue_wait(&self) -> std::time::Duration {
        self.bulkhead.wait()
    }

    #[inline]
    fn look_at_breaker(&mut self, now: Instant) -> Result<(), Refusal> {
        match &mut self.breaker {
            Some(breaker) if breaker.state() != breaker::State::Closed => {
                let from = breaker.state();
                let answer = breaker.would_admit(now);
                self.note_breaker(from);
                answer
            }
            _ => Ok(()),
        }
    }

    /// The last step: takes a probe where the breaker is half-open, and gives the place back where it refuses.
    #[inline]
    fn pass_breaker(
        &mut self,
        kind: AttemptKind,
        criticality: Criticality,
        counted: Option<Counted>,
        now: Instant,
    ) -> Result<Permit, Refusal> {
        let pass = match &mut self.breaker {
            None => None,
            Some(breaker) => match breaker.pass_closed() {
                Some(pass) => Some(pass),
                None => self.take_probe(criticality, counted, now)?,
            },
        };
        match kind {
            AttemptKind::First => {
                if let Some(budget) = &mut self.budget {
                    budget.on_first_attempt(now);
                }
            }
            AttemptKind::Retry | AttemptKind::Hedge => {
                self.sample.retries += u64::from(self.guard.is_some());
            }
        }
        Ok(Permit {
            kind,
            criticality,
            started: now,
            pass,
            counted,
            given_back: false,
        })
    }

    #[cold]
    fn take_probe(
        &mut self,
        criticality: Criticality,
        counted: Option<Counted>,
        now: Instant,
    ) -> Result<Option<Pass>, Refusal> {
        let from = self.breaker_state();
        let answer = self
            .breaker
            .as_mut()
            .map(|breaker| breaker.admit(now))
            .transpose();
        self.note_breaker(from);
        if answer.is_err() {
            self.bulkhead.release();
            self.forget(criticality, counted);
        }
        answer
    }

    fn forget(&mut self, criticality: Criticality, counted: Option<Counted>) {
        if let (Some(throttle), Some(counted)) = (&mut self.throttle, counted) {
            throttle.forget(criticality, counted);
        }
    }

    /// Whether the target as a whole allows one more retry or hedge now, and what it costs.
    pub(crate) fn allow_again(
        &mut self,
        after_timeout: bool,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Result<Option<Charge>, Refusal> {
        if self.gate.forbids_retries(now) {
            return Err(Refusal::TargetForbids);
        }
        if self.guard.as_ref().is_some_and(|guard| !guard.allows(chance)) {
            return Err(Refusal::Guard);
        }
        match &mut self.budget {
            None => Ok(None),
            Some(budget) => budget
                .withdraw(after_timeout, now)
                .map(Some)
                .ok_or(Refusal::Budget),
        }
    }

    /// Gives the cost of a retry back that was not sent.
    pub(crate) fn refund(&mut self, charge: Option<Charge>) {
        if let (Some(budget), Some(charge)) = (&mut self.budget, charge) {
            budget.refund(charge);
        }
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) fn hedge(&self) -> Option<&Hedge> {
        self.hedge.as_ref()
    }

    /// A call has ended; only a quota listens.
    #[inline]
    pub(crate) fn on_call_end(&mut self, success: bool, tokens: u32) {
        if let Some(budget) = &mut self.budget {
            budget.on_call_end(success, tokens);
        }
    }

    /// An attempt has ended. Every part learns of it; the permit is used up.
    #[inline]
    pub(crate) fn settle(&mut self, mut permit: Permit, outcome: &Outcome, now: Instant) {
        let failure = outcome.failure();
        if failure.is_some_and(|failure| failure.kind == FailureKind::Cancelled) {
            return self.abandon(permit);
        }
        permit.given_back = true;
        let rejected = failure.is_some_and(|failure| failure.rejection);
        let started = permit.started;
        self.bulkhead.release();
        if self.bulkhead.is_adaptive() {
            self.bulkhead.on_latency(now.since(started), rejected, now);
        }
        if let (Some(breaker), Some(pass)) = (&mut self.breaker, permit.pass) {
            let from = breaker.state();
            breaker.on_end(pass, failure.is_none_or(|failure| !failure.unhealthy), now);
            self.note_breaker(from);
        }
        if let Some(throttle) = &mut self.throttle
            && !rejected
        {
            throttle.on_accept(permit.criticality, now);
        }
        if let Some(budget) = &mut self.budget {
            budget.on_attempt_end(failure.is_none(), now);
        }
        match failure {
            None => {
                if let Some(hedge) = &mut self.hedge {
                    hedge.on_success(now.since(started));
                }
            }
            Some(failure) => {
                let again = permit.kind != AttemptKind::First;
                self.gate.on_hints(&failure.hints, permit.criticality, again, now);
            }
        }
        if self.guard.is_some() {
            self.sample_attempt(permit.kind, failure.is_none(), rejected, now.since(started));
        }
        self.end_sample(now);
    }

    /// An attempt was given up before it came to anything: it leaves no trace.
    pub(crate) fn abandon(&mut self, mut permit: Permit) {
        permit.given_back = true;
        self.bulkhead.release();
        if let (Some(breaker), Some(pass)) = (&mut self.breaker, permit.pass) {
            breaker.on_abandon(pass);
        }
        self.forget(permit.criticality, permit.counted);
    }

    #[inline]
    fn sample_attempt(
        &mut self,
        kind: AttemptKind,
        success: bool,
        rejected: bool,
        latency: std::time::Duration,
    ) {
        if kind == AttemptKind::First {
            self.sample.calls += 1;
            self.sample.rejected += u64::from(rejected);
            if let Some(delays) = &mut self.delays {
                delays.add(latency);
            }
        } else {
            self.sample.retries_succeeded += u64::from(success);
        }
    }

    /// Feeds the guard once its interval is over.
    #[inline]
    pub(crate) fn end_sample(&mut self, now: Instant) {
        if now >= self.sample_ends {
            self.feed_guard(now);
        }
    }

    #[cold]
    fn feed_guard(&mut self, now: Instant) {
        let Some(guard) = &mut self.guard else {
            self.sample_ends = Instant::NEVER;
            return;
        };
        if let Some(delays) = &mut self.delays {
            self.sample.delay = delays.quantile(Self::DELAY_QUANTILE);
            delays.clear();
        }
        let interval = guard.settings().interval.max(std::time::Duration::from_millis(1));
        // Intervals in which nothing happened at all are samples too, but no more of them than can matter.
        for _ in 0..=64 {
            let sample = std::mem::take(&mut self.sample);
            let decided = guard.feed(&sample, self.sample_ends);
            self.sample_ends = self.sample_ends.after(interval);
            if let Some(decision) = decided {
                note(&mut self.changes, Change::Guard(decision));
            }
            if now < self.sample_ends {
                return;
            }
        }
        self.sample_ends = now.after(interval);
    }

    #[inline]
    fn note_breaker(&mut self, from: breaker::State) {
        let to = self.breaker_state();
        if from != to {
            note(&mut self.changes, Change::Breaker { from, to });
        }
    }
}

#[cold]
fn note(changes: &mut Vec<Change>, change: Change) {
    if changes.len() >= Target::MOST_CHANGES {
        changes.remove(0);
    }
    changes.push(change);
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

fn bulkhead_or_none(settings: Option<bulkhead::Settings>) -> bulkhead::Settings {
    settings.unwrap_or(bulkhead::Settings {
        limit: Limit::Fixed(u32::MAX),
        ..bulkhead::Settings::default()
    })
}
