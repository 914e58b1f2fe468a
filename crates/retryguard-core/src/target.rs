//! The state that all calls to one destination share, and the order in which its parts are asked.
//!
//! # Admitting an attempt
//!
//! 1. **gate**: a first attempt is refused while the target has asked to be left alone.
//! 2. **breaker**, a look only: no call queues for a target that is known to be down.
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

mod admit;
mod permit;
mod replace;
mod rest;
mod samples;
mod settings;
mod settle;

use std::sync::Arc;

use crate::{
    breaker::{self, Breaker},
    budget::Budget,
    bulkhead::{Bulkhead, Ticket},
    chance::Chance,
    criticality::Criticality,
    gate::Gate,
    guard::{self, Guard},
    hedge::Hedge,
    outcome::{Failure, FailureKind},
    pace::Pace,
    patience::Patience,
    ratio::Ratio,
    refusal::Refusal,
    throttle::Throttle,
    time::{self, Instant},
};

pub use permit::{AttemptKind, Permit};
pub use settings::Settings;

pub(crate) use permit::{Admission, Queued};
use settings::Shared;

use replace::Numbers;
use rest::Rest;
use samples::Samples;

/// A change that is reported to operators.
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
    gate: Gate<Shared>,
    breaker: Option<Breaker<Shared>>,
    budget: Option<Budget<Shared>>,
    /// On the heap, like everything that few targets need: a large simulation has a target for each client.
    throttle: Option<Box<Throttle>>,
    /// Always there, without a limit where the policy sets none: it counts what is in flight, and a limit
    /// that is removed by a new policy still has to let its queue go.
    bulkhead: Bulkhead<Shared>,
    hedge: Option<Box<Hedge>>,
    guard: Option<Guard<Shared>>,
    samples: Option<Box<Samples>>,
    /// Whether a part receives the end of every attempt.
    listens: bool,
    patience: Patience,
    pace: Pace,
    rare: Option<Box<Rare>>,
    rest: Rest,
}

/// What a target has once something has changed.
#[derive(Debug, Clone, Default)]
struct Rare {
    changes: Vec<Change>,
    numbers: Numbers,
    /// The clock, for a guard that does not measure now and may later.
    clock: Option<guard::WallClock>,
}

impl Target {
    /// The most changes that are kept for a driver that does not take them.
    pub const MOST_CHANGES: usize = 64;

    /// The quantile of the delay that the guard's samples report.
    pub const DELAY_QUANTILE: Ratio = Ratio::percent(95);

    /// A target that has not been called yet.
    #[must_use]
    pub fn new(settings: Arc<Settings>, now: Instant) -> Self {
        let mut target = Self {
            gate: Gate::new(Shared(settings.clone())),
            breaker: None,
            budget: None,
            throttle: None,
            bulkhead: Bulkhead::new(Shared(settings.clone()), now),
            hedge: None,
            guard: None,
            samples: None,
            listens: false,
            patience: Patience::default(),
            pace: Pace::default(),
            rare: None,
            rest: Rest::default(),
            latest: now,
            settings: settings.clone(),
        };
        target.replace(settings, now);
        // Nothing was there before that could have changed.
        target.rare = None;
        target
    }

    /// The policy in force.
    #[inline]
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Something happens: the latest time seen, which every input is clamped to.
    #[inline]
    pub(crate) fn clamp(&mut self, now: Instant) -> Instant {
        self.end_rest();
        self.latest = self.latest.max(now);
        self.latest
    }

    /// The latest time seen, for an input that may leave the target at rest.
    #[inline]
    pub(crate) fn now(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// The next waiting call that has been given a place. Asked until it says none, after every input.
    #[inline]
    pub fn next_granted(&mut self) -> Option<Ticket> {
        if self.bulkhead.waiting() == 0 {
            return None;
        }
        if self.is_awaited()
            && let Some(breaker) = &mut self.breaker
        {
            let from = breaker.state();
            let refused = breaker.would_admit(self.latest).is_err();
            self.note_breaker(from);
            if refused {
                return None;
            }
        }
        let margin = self.waits_by_deadline().then(|| self.pace.margin());
        self.bulkhead.grant_at(margin, self.latest)
    }

    /// When an attempt that waits under this ticket should look again whether its turn has come by time alone.
    pub(crate) fn looks_again(&self, ticket: Ticket, now: Instant) -> Instant {
        /// Those behind look now and then whether they have become the first.
        const BEHIND: std::time::Duration = std::time::Duration::from_millis(250);
        if !self.waits_by_deadline() {
            return Instant::NEVER;
        }
        if !self.bulkhead.is_first(ticket) {
            return now.after(BEHIND);
        }
        let probe = self.breaker.as_ref().map_or(Instant::ZERO, Breaker::next_probe);
        let tick = now.after(std::time::Duration::from_millis(1));
        match (probe, self.bulkhead.opens()) {
            (Instant::ZERO, Instant::NEVER) => now.after(BEHIND),
            (Instant::ZERO, opens) => opens.max(tick),
            (probe, Instant::NEVER) => probe.max(tick),
            (probe, opens) => probe.max(opens).max(tick),
        }
    }

    /// Until when an attempt may wait: as long as its deadline leaves time for an answer.
    pub(crate) fn queue_until(&self, deadline: Instant, now: Instant) -> Instant {
        if !self.waits_by_deadline() {
            return now.after(self.bulkhead.wait()).min(deadline);
        }
        let margin = time::nanos(self.pace.least_margin().max(self.settings.call.least_attempt));
        let latest = Instant::from_nanos(deadline.as_nanos().saturating_sub(margin)).max(now);
        if self.is_awaited() {
            return latest;
        }
        now.after(self.bulkhead.wait()).min(latest)
    }

    /// Whether attempts wait as long as their deadline allows, and not in the order of their arrival alone.
    fn waits_by_deadline(&self) -> bool {
        self.bulkhead.is_adaptive() || self.may_be_awaited()
    }

    /// What has changed since this was last asked. Bounded: the oldest are dropped.
    #[inline]
    pub fn changes(&mut self) -> Vec<Change> {
        self.rare
            .as_mut()
            .map_or_else(Vec::new, |rare| std::mem::take(&mut rare.changes))
    }

    /// Whether there is a change to be told.
    #[inline]
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.changes.is_empty())
    }

    /// The breaker's state; closed where there is none.
    #[inline]
    #[must_use]
    pub fn breaker_state(&self) -> breaker::State {
        self.breaker
            .as_ref()
            .map_or(breaker::State::Closed, Breaker::state)
    }

    /// How long an open breaker stays so; nothing where it is not open.
    #[must_use]
    pub fn breaker_open_for(&self, now: Instant) -> std::time::Duration {
        let until = self.breaker.as_ref().and_then(Breaker::opens_until);
        until.map_or(std::time::Duration::ZERO, |until| {
            self.latest.max(now).until(until)
        })
    }

    /// Opens the breaker until `until` (see [`Breaker::hold_open`]); nothing where there is none.
    pub fn hold_breaker_open(&mut self, until: Instant) {
        self.end_rest();
        let from = self.breaker_state();
        if let Some(breaker) = &mut self.breaker {
            breaker.hold_open(until);
        }
        self.note_breaker(from);
    }

    /// Closes the breaker (see [`Breaker::close`]).
    pub fn close_breaker(&mut self) {
        self.end_rest();
        let from = self.breaker_state();
        if let Some(breaker) = &mut self.breaker {
            breaker.close();
        }
        self.note_breaker(from);
    }

    /// The guard's state; on where there is none.
    #[inline]
    #[must_use]
    pub fn guard_state(&self) -> guard::State {
        self.guard.as_ref().map_or(guard::State::On, Guard::state)
    }

    /// The share of retries that the guard lets through.
    #[inline]
    #[must_use]
    pub fn guard_share(&self) -> Ratio {
        self.guard.as_ref().map_or(Ratio::ONE, Guard::share)
    }

    /// Whether a retry that was decided before may still be sent.
    #[inline]
    pub(crate) fn retries_flow(&self, now: Instant) -> bool {
        match &self.guard {
            None => true,
            Some(guard) => match guard.response() {
                Some(_) if self.is_awaited() => true,
                Some(machine) => machine.allows(now),
                None => guard.share() != Ratio::ZERO,
            },
        }
    }

    /// The gain of retries, where the guard measures it.
    #[must_use]
    pub fn gain(&self) -> Option<guard::Gain> {
        self.guard.as_ref().and_then(Guard::gain)
    }

    /// The clock that all clients of the target share; `None` where ours is not to be trusted.
    pub fn set_clock(&mut self, clock: Option<guard::WallClock>) {
        let kept = match &mut self.guard {
            Some(guard) => guard.set_clock(clock),
            None => false,
        };
        if !kept && (clock.is_some() || self.rare.is_some()) {
            self.rare.get_or_insert_default().clock = clock;
        }
    }

    /// The retries of one call, its own number or the policy's, that the guard leaves it.
    #[inline]
    pub(crate) fn most_retries(&self, own: Option<u8>) -> u8 {
        let wanted = own.unwrap_or(self.settings.call.retries);
        if self.is_awaited() {
            return wanted;
        }
        let limited = self.guard.as_ref().map_or(u8::MAX, Guard::retries);
        wanted.min(limited)
    }

    /// Whether the guard measures what retries add.
    #[inline]
    pub(crate) fn measures(&self) -> bool {
        self.guard
            .as_ref()
            .is_some_and(|guard| guard.response().is_some())
    }

    /// Whether it is clear that retries help.
    #[inline]
    pub(crate) fn is_productive(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_productive)
    }

    /// Whether a retry after this failure adds nothing to the target's load: the attempt reached nothing, while others
    /// are answered.
    #[inline]
    pub(crate) fn can_replace(&self, failure: &Failure) -> bool {
        failure.kind == FailureKind::Unreachable
            && !self.is_awaited()
            && self.guard.as_ref().is_some_and(Guard::is_answered)
    }

    /// When a retry that falls due at `at` is sent.
    #[inline]
    pub(crate) fn put_off(&self, at: Instant, chance: &mut impl Chance) -> Instant {
        if self.is_awaited() {
            return at;
        }
        self.guard.as_ref().map_or(at, |guard| guard.put_off(at, chance))
    }

    /// How many retries the budget would allow now; `None` where there is no budget.
    #[must_use]
    pub fn budget_balance(&mut self, now: Instant) -> Option<u64> {
        let now = self.clamp(now);
        self.budget.as_mut().map(|budget| budget.balance(now))
    }

    /// How many attempts are under way.
    #[inline]
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
    #[inline]
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

    /// How much time must be left so that an attempt is not hopeless.
    pub(crate) fn least_margin(&self) -> std::time::Duration {
        self.pace.least_margin()
    }

    /// A delay before a retry that is known to help: no more than a few times what an answer takes.
    pub(crate) fn short_delay(&self, delay: u64) -> u64 {
        let most = time::nanos(self.settings.call.backoff.initial).max(1);
        let wanted = time::nanos(self.pace.least_margin()).saturating_mul(4).min(most);
        u64::try_from(u128::from(delay) * u128::from(wanted) / u128::from(most)).unwrap_or(delay)
    }

    /// How much longer a retry waits where most attempts fail at the moment, in nanoseconds: up to a random part of the time
    /// that the call has left. The next attempt at once would most likely fail too, a later one meets the target in another
    /// state, and retries that are spread out make no peak. Never longer than the largest delay of the policy's schedule, and not
    /// at all where nothing says how much time is left.
    pub(crate) fn spread(&self, deadline: Instant, now: Instant, chance: &mut impl Chance) -> u64 {
        /// Nothing is spread while a smaller share of the attempts fails.
        const MOSTLY: f64 = 0.5;
        /// The share of the time that is left, if all attempts fail.
        const LEFT: f64 = 0.7;
        let failing = self.guard.as_ref().map_or(0.0, Guard::failing_now);
        if failing <= MOSTLY || deadline == Instant::NEVER || self.is_awaited() {
            return 0;
        }
        let left = deadline.nanos_since(now.after(self.pace.margin())) as f64;
        let most = time::nanos(self.settings.call.backoff.ceiling());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast from a double saturates"
        )]
        let longest = ((LEFT * failing * left) as u64).min(most);
        chance.nanos_up_to(longest)
    }

    /// How long a call that is made while a request is served may wait before a retry: it holds that request's
    /// worker.
    pub(crate) fn inner_wait(&self) -> std::time::Duration {
        (2 * self.pace.least_margin()).max(self.settings.call.backoff.initial)
    }

    /// How much time a call should keep for an attempt.
    pub(crate) fn margin(&self) -> std::time::Duration {
        self.pace.margin()
    }

    #[inline]
    pub(crate) fn gate(&self) -> &Gate<Shared> {
        &self.gate
    }

    #[inline]
    pub(crate) fn hedge(&self) -> Option<&Hedge> {
        self.hedge.as_deref()
    }

    /// A call has ended; only a quota listens.
    #[inline]
    pub(crate) fn on_call_end(&mut self, success: bool, tokens: u32) {
        if let Some(budget) = &mut self.budget {
            budget.on_call_end(success, tokens);
        }
    }

    #[inline]
    fn note_breaker(&mut self, from: breaker::State) {
        let to = self.breaker_state();
        if from != to {
            note(&mut self.rare, Change::Breaker { from, to });
        }
    }
}

#[cold]
fn note(rare: &mut Option<Box<Rare>>, change: Change) {
    let changes = &mut rare.get_or_insert_default().changes;
    if changes.len() >= Target::MOST_CHANGES {
        changes.remove(0);
    }
    changes.push(change);
}
