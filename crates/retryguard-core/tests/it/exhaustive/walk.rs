//! One world, walked along one path: chooses an event, feeds it to the machines, and checks everything.

mod checks;

use std::{collections::BTreeSet, sync::Arc};

use retryguard_core::{
    Call, Instant, Outcome, Ratio, Target,
    bulkhead::Ticket,
    call::{Attempt, Step, Verdict},
    gate,
    target::{AttemptKind, Settings},
};

use super::{
    choices::Choices,
    ledger::{Ledger, Standing},
};
use crate::support::facts;

/// What is walked.
pub(super) struct World {
    /// The policies, each put in force after the one before; the first from the start.
    pub(super) policies: Vec<Settings>,
    pub(super) calls: usize,
    /// What an attempt can come to.
    pub(super) outcomes: Vec<Outcome>,
    /// Moments of interest beside the timers of calls, in milliseconds.
    pub(super) moments: Vec<u64>,
    /// How many events a path has before it is brought to an end.
    pub(super) depth: usize,
    /// Whether every event may also come with a time long past.
    pub(super) backwards: bool,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Start(usize),
    Outcome(usize, u8, usize),
    Timer(usize),
    Place(usize),
    Abandon(usize),
    Tick(Instant),
    Swap,
}

/// How much was walked.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) paths: u64,
    pub(super) events: u64,
    /// Every reason for which a call was refused or not retried, and whether the guard was met on its ramp.
    pub(super) met: BTreeSet<&'static str>,
}

impl World {
    /// Walks every path.
    pub(super) fn walk(&self) -> Walked {
        let policies: Vec<_> = self.policies.iter().cloned().map(Arc::new).collect();
        let mut choices = Choices::default();
        let mut walked = Walked::default();
        loop {
            let mut path = Path::new(self, &policies);
            for _ in 0..self.depth {
                let events = path.enabled();
                if events.is_empty() {
                    break;
                }
                let event = events[choices.choose(events.len())];
                path.take(event, &mut choices);
                walked.events += 1;
            }
            if choices.choose(2) == 0 {
                path.abandon_all();
            } else {
                path.run_out();
            }
            walked.met.append(&mut path.met);
            path.prove_alive();
            walked.paths += 1;
            if !choices.next_path() {
                return walked;
            }
        }
    }

    fn most(&self, of: impl Fn(&Settings) -> u32) -> u32 {
        self.policies.iter().map(of).max().unwrap_or_default()
    }
}

struct Path<'a> {
    world: &'a World,
    policies: &'a [Arc<Settings>],
    in_force: usize,
    target: Target,
    calls: Vec<Call>,
    ledger: Ledger,
    now: Instant,
    met: BTreeSet<&'static str>,
}

impl<'a> Path<'a> {
    fn new(world: &'a World, policies: &'a [Arc<Settings>]) -> Self {
        Self {
            world,
            policies,
            in_force: 0,
            target: Target::new(policies[0].clone(), Instant::ZERO),
            calls: (0..world.calls)
                .map(|ticket| Call::new(&facts(ticket as u64)))
                .collect(),
            ledger: Ledger::new(world.calls, &policies[0]),
            now: Instant::ZERO,
            met: BTreeSet::new(),
        }
    }

    fn settings(&self) -> &'a Settings {
        &self.policies[self.in_force]
    }

    /// Everything that can happen next. Calls are alike, so they start in the order of their numbers.
    fn enabled(&self) -> Vec<Event> {
        let mut events = Vec::with_capacity(16);
        let standing = |call: usize| self.ledger.accounts[call].standing;
        if let Some(fresh) = (0..self.calls.len()).find(|call| standing(*call) == Standing::Fresh) {
            events.push(Event::Start(fresh));
        }
        for run in &self.ledger.runs {
            let outcomes = 0..self.world.outcomes.len();
            events.extend(outcomes.map(|index| Event::Outcome(run.call, run.attempt.number, index)));
        }
        for (index, call) in self.calls.iter().enumerate() {
            if call.next_timer().is_some_and(|due| due <= self.now) {
                events.push(Event::Timer(index));
            }
            if !matches!(standing(index), Standing::Fresh | Standing::Over) {
                events.push(Event::Abandon(index));
            }
        }
        events.extend(self.ledger.granted.iter().copied().map(Event::Place));
        let timers = self.calls.iter().filter_map(Call::next_timer);
        let moments = self.world.moments.iter().copied().map(Instant::from_millis);
        events.extend(
            timers
                .chain(moments)
                .filter(|moment| *moment > self.now)
                .min()
                .map(Event::Tick),
        );
        if !events.is_empty() && self.in_force + 1 < self.policies.len() {
            events.push(Event::Swap);
        }
        events
    }

    fn take(&mut self, event: Event, choices: &mut Choices) {
        match event {
            Event::Tick(moment) => self.now = moment,
            Event::Swap => self.swap(),
            Event::Abandon(call) => self.abandon(call),
            Event::Start(call) => {
                let time = self.time(choices);
                let own = self.settings().call.deadline;
                self.ledger.accounts[call].deadline = own.map_or(Instant::NEVER, |own| self.now.after(own));
                let step = self.calls[call].start(&mut self.target, time, choices);
                self.absorb(call, event, step);
            }
            Event::Outcome(call, number, index) => {
                let outcome = self.world.outcomes[index];
                self.note_hints(number, &outcome);
                let time = self.time(choices);
                let step = self.calls[call].on_outcome(number, &outcome, &mut self.target, time, choices);
                let healthy = outcome.failure().is_none_or(|failure| !failure.unhealthy);
                self.ledger
                    .end_run(call, number, healthy && !is_cancelled(&outcome));
                self.absorb(call, event, step);
                self.spurious(call, number, outcome);
            }
            Event::Timer(call) => {
                let time = self.time(choices);
                let step = self.calls[call].on_timer(&mut self.target, time, choices);
                self.absorb(call, event, step);
            }
            Event::Place(call) => {
                let time = self.time(choices);
                let step = self.calls[call].on_place(&mut self.target, time, choices);
                self.absorb(call, event, step);
            }
        }
        self.poll_grants();
        self.check();
    }

    /// A time that has been seen counts for the latest one, so a call may be told any time up to it. The
    /// target must have seen it, though.
    fn time(&mut self, choices: &mut Choices) -> Instant {
        if self.world.backwards && choices.choose(2) == 1 {
            let _ = self.target.budget_balance(self.now);
            Instant::ZERO
        } else {
            self.now
        }
    }

    fn swap(&mut self) {
        let old = self.settings();
        self.in_force += 1;
        self.target
            .replace(self.policies[self.in_force].clone(), self.now);
        self.ledger.on_swap(old, self.settings());
        self.ledger.on_changes(&mut self.target);
    }

    fn abandon(&mut self, call: usize) {
        self.calls[call].abandon(&mut self.target);
        self.ledger.drop_runs(call);
        self.finish(call);
    }

    fn finish(&mut self, call: usize) {
        self.ledger.refund(call, self.settings());
        self.ledger.leave_queue(call);
        self.ledger.accounts[call].standing = Standing::Over;
        assert!(self.calls[call].is_over());
        assert_eq!(self.calls[call].next_timer(), None);
    }

    fn note_hints(&mut self, number: u8, outcome: &Outcome) {
        let Some(failure) = outcome.failure() else { return };
        let (wait, settings) = (failure.hints.retry_after, self.settings().gate);
        assert_eq!(settings.scope, gate::Scope::Target);
        let until = self.now.after(wait.unwrap_or_default());
        self.ledger.again_closed_until = self.ledger.again_closed_until.max(until);
        // All calls here matter alike: what a retry was told does not hold for first attempts.
        if number == 1 {
            self.ledger.firsts_closed_until = self.ledger.firsts_closed_until.max(until);
        }
        if failure.hints.do_not_retry {
            let until = self.now.after(wait.unwrap_or(settings.no_retry_for));
            self.ledger.forbidden_until = self.ledger.forbidden_until.max(until);
        }
    }

    /// Enters the answer to an event in the books.
    fn absorb(&mut self, call: usize, event: Event, step: Step) {
        self.ledger.on_changes(&mut self.target);
        let before = self.ledger.accounts[call].standing;
        match step {
            Step::Send(attempt) => self.sent(call, event, before, attempt),
            Step::Wait => self.waits(call, event, before),
            Step::Cancel(number) => {
                assert!(matches!(event, Event::Timer(_)) && before == Standing::Running);
                self.ledger.end_run(call, number, false);
                self.rests(call, true);
            }
            Step::Done(verdict) => {
                if let Verdict::Failure { refusal, .. } | Verdict::Refused { refusal, .. } = verdict {
                    self.met.insert(refusal.as_str());
                }
                if let Verdict::Success { number } = verdict {
                    let Event::Outcome(_, ended, index) = event else {
                        panic!("{event:?} is not a success")
                    };
                    assert_eq!(ended, number);
                    assert!(self.world.outcomes[index].is_success());
                    self.ledger.succeed(call, self.settings());
                }
                let nothing_sent = self.ledger.accounts[call].sent == 0;
                assert_eq!(nothing_sent, matches!(verdict, Verdict::Refused { .. }));
                self.ledger.drop_runs(call);
                self.finish(call);
            }
        }
    }

    fn waits(&mut self, call: usize, event: Event, before: Standing) {
        match (event, before) {
            (Event::Start(_), Standing::Fresh) => self.queues(call),
            (Event::Timer(_), Standing::BackingOff) if self.calls[call].is_queued() => self.queues(call),
            // A gate that has closed meanwhile puts a retry off.
            (Event::Timer(_), Standing::BackingOff) | (Event::Place(_), Standing::Queued) => {
                assert!(!self.gate_open(AttemptKind::Retry));
                self.ledger.leave_queue(call);
                self.ledger.accounts[call].standing = Standing::BackingOff;
            }
            // A hedge that was not allowed.
            (Event::Timer(_), Standing::Running) => {}
            (Event::Outcome(_, _, index), Standing::Running) => {
                let failure = self.world.outcomes[index]
                    .failure()
                    .expect("a success ends the call");
                self.rests(call, failure.kind == retryguard_core::FailureKind::Timeout);
            }
            other => panic!("nothing to wait for: {other:?}"),
        }
    }

    /// An attempt ended and the call goes on: beside another attempt, or towards a retry.
    fn rests(&mut self, call: usize, after_timeout: bool) {
        if self.ledger.runs_of(call).next().is_some() {
            return;
        }
        self.decide(call, after_timeout);
        // A retry without delay joins the queue at once.
        if self.target.waiting() > self.ledger.queue.len() {
            self.queues(call);
        } else {
            self.ledger.accounts[call].standing = Standing::BackingOff;
        }
    }

    fn queues(&mut self, call: usize) {
        self.ledger.accounts[call].standing = Standing::Queued;
        self.ledger.queue.push_back(call);
    }

    fn decide(&mut self, call: usize, after_timeout: bool) {
        assert!(
            self.target.guard_share() > Ratio::ZERO,
            "the guard lets nothing through"
        );
        self.ledger.charge(call, after_timeout, self.settings());
    }

    fn sent(&mut self, call: usize, event: Event, before: Standing, attempt: Attempt) {
        match (attempt.kind, before) {
            (AttemptKind::First, Standing::Fresh) | (AttemptKind::Retry, Standing::BackingOff) => {}
            (AttemptKind::First | AttemptKind::Retry, Standing::Queued) => {
                assert!(matches!(event, Event::Place(_)) && self.ledger.granted.contains(&call));
                self.ledger.leave_queue(call);
            }
            (AttemptKind::Hedge, Standing::Running) => self.decide(call, false),
            // Decided and sent in one: the attempt before has ended now, or its time is up.
            (AttemptKind::Retry, Standing::Running) => {
                assert!(self.ledger.runs_of(call).all(|run| run.attempt.ends <= self.now));
                let timed_out = self.ledger.runs_of(call).count() == 1;
                self.ledger.drop_runs(call);
                self.decide(call, timed_out || ended_in_timeout(self.world, event));
            }
            other => panic!("sent out of order: {other:?}"),
        }
        self.ledger
            .send(call, attempt, self.settings(), self.target.breaker_state());
        self.check_times(call, attempt);
        self.check_gate(attempt.kind);
    }

    fn gate_open(&self, kind: AttemptKind) -> bool {
        let until = match kind {
            AttemptKind::First => self.ledger.firsts_closed_until,
            AttemptKind::Retry | AttemptKind::Hedge => self.ledger.again_closed_until,
        };
        until <= self.now
    }

    /// First come, first served, and no call is forgotten.
    fn poll_grants(&mut self) {
        while let Some(Ticket(ticket)) = self.target.next_granted() {
            let first = self
                .ledger
                .queue
                .pop_front()
                .expect("a free place goes to a call that waits");
            assert_eq!(first as u64, ticket, "out of turn");
            self.ledger.granted.push(first);
        }
    }

    fn abandon_all(&mut self) {
        for call in 0..self.calls.len() {
            self.abandon(call);
            self.poll_grants();
            self.check();
        }
    }

    /// Nothing answers any more: every call that has begun comes to its end by timers and places alone.
    fn run_out(&mut self) {
        let mut unlucky = Choices::default();
        for _ in 0..100 {
            let granted = self.ledger.granted.first().copied().map(Event::Place);
            let due = |call: &Call| call.next_timer().is_some_and(|due| due <= self.now);
            let timer = || self.calls.iter().position(due).map(Event::Timer);
            let tick = || {
                self.calls
                    .iter()
                    .filter_map(Call::next_timer)
                    .min()
                    .map(Event::Tick)
            };
            let Some(event) = granted.or_else(timer).or_else(tick) else {
                break;
            };
            self.take(event, &mut unlucky);
        }
        for account in &self.ledger.accounts {
            let standing = account.standing;
            assert!(
                !matches!(standing, Standing::Queued | Standing::BackingOff),
                "left waiting"
            );
            if self.settings().call.deadline.is_some() {
                assert!(
                    matches!(standing, Standing::Fresh | Standing::Over),
                    "{standing:?} after its deadline"
                );
            }
        }
        self.abandon_all();
    }
}

fn is_cancelled(outcome: &Outcome) -> bool {
    outcome
        .failure()
        .is_some_and(|failure| failure.kind == retryguard_core::FailureKind::Cancelled)
}

fn ended_in_timeout(world: &World, event: Event) -> bool {
    let Event::Outcome(_, _, index) = event else {
        return false;
    };
    let failure = world.outcomes[index].failure();
    failure.is_some_and(|failure| failure.kind == retryguard_core::FailureKind::Timeout)
}
