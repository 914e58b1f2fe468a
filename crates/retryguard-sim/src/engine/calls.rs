//! The driver of calls: moves effects between the machines and the world, and decides nothing itself.

mod answers;
mod sends;

use retryguard_core::{
    Call, Criticality, Deadline, Failure, FailureKind, Instant, Outcome, Refusal, Target,
    bulkhead::Ticket,
    call::{Facts, Step, Verdict},
    guard::WallClock,
};

use super::{
    CallKey, Clocks, Engine, Event, InFlightCall, Job, Line, Packed, Parent, descend, endpoints::Known,
    peers::Peer, record::Recorder,
};
use crate::{
    client_policy::extra::{Part, limiter::End},
    kernel::{Queue, Slab},
    streams::{Purpose, Seed, Stream},
};

/// Where a call comes from.
pub(super) struct Origin {
    pub(super) edge: usize,
    pub(super) peer: u32,
    pub(super) parent: Parent,
    pub(super) key: u64,
    pub(super) lineage: u64,
    pub(super) deadline: Instant,
    pub(super) criticality: Criticality,
    pub(super) counted: bool,
    pub(super) original: bool,
    pub(super) idempotent: bool,
    pub(super) pool: Option<u32>,
}

/// How a call ended, as its caller sees it.
pub(super) enum Ended {
    Success,
    Failure(Failure),
    /// Nothing was sent.
    Refused(Refusal),
}

impl Ended {
    /// How it looks to a part of a foreign policy.
    const fn for_parts(&self) -> End {
        match self {
            Self::Success => End::Success,
            Self::Failure(failure) if matches!(failure.kind, FailureKind::Timeout) => End::TimedOut,
            Self::Failure(failure) if failure.rejection => End::Rejected,
            Self::Failure(_) | Self::Refused(_) => End::Failed,
        }
    }
}

impl Clocks {
    /// The true time at the beginning of a world with clocks that are off: none of them begins before zero.
    const BEGIN: u64 = 30 * 86_400 * 1_000_000_000;

    /// What one of them adds to the driver's time.
    fn offset(&self, chance: &mut Stream) -> Option<u64> {
        match self {
            Self::None => None,
            Self::True => Some(0),
            Self::Skewed(skew) => {
                let off = skew.draw_nanos(chance).min(Self::BEGIN);
                let ahead = chance.with_probability(0.5);
                Some(if ahead {
                    Self::BEGIN + off
                } else {
                    Self::BEGIN - off
                })
            }
        }
    }
}

impl Line<'_> {
    /// The client of this number makes its first call. Returns its place.
    #[cold]
    fn meet(&mut self, number: u32, now: Instant, edge: u64, seed: Seed) -> u32 {
        let entity = descend(edge, u64::from(number));
        self.peers.add(number, now, |since| {
            let mut target = Target::new(self.settings.clone(), since);
            target.set_clock(
                self.clocks
                    .offset(&mut seed.stream(entity, Purpose::Clock))
                    .map(|offset| WallClock {
                        offset,
                        salt: u64::from(self.to),
                    }),
            );
            Peer {
                target,
                part: Part::new(&self.client_policy.extra, entity),
                known: self.knows.then(|| Box::new(Known::new(self.settings.endpoints))),
            }
        })
    }
}

impl Engine<'_> {
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a world has few edges")]
    pub(super) fn start_call(&mut self, origin: Origin) {
        let line = &mut self.lines[origin.edge];
        let number = if line.one_peer { 0 } else { origin.peer };
        let peer = match line.peers.place(number) {
            Some(place) => place,
            None => line.meet(number, self.now, origin.edge as u64, self.seed),
        };
        let idempotent = origin.idempotent || line.retries_everything;
        let oracle = line.client_policy.oracle;
        line.peers[peer as usize].part.on_call(self.now);
        let handle = self.calls.insert_with(|handle| InFlightCall {
            call: inner_or_not(
                matches!(origin.parent, Parent::Job { .. }),
                Call::new(&Facts {
                    deadline: Deadline::at(origin.deadline),
                    criticality: origin.criticality,
                    idempotent,
                    replayable: true,
                    ticket: Ticket(handle.as_u64()),
                }),
            ),
            edge: origin.edge as u32,
            peer,
            parent: origin.parent,
            key: origin.key,
            lineage: origin.lineage,
            chance: self.seed.stream(origin.lineage, Purpose::Policy),
            began: self.now,
            timer: Instant::NEVER,
            counted: origin.counted,
            original: origin.original,
            idempotent: origin.idempotent,
            attempt: None,
            charged: false,
            criticality: origin.criticality,
            pool: origin.pool,
            held: None,
        });
        if oracle {
            return self.hold(handle, None);
        }
        // Others make several calls in one go, and are answered once all are made.
        let alone = matches!(origin.parent, Parent::Client { .. });
        self.drive_sending(handle, alone, Call::start);
    }

    /// Gives a call an input and does what it says.
    #[inline]
    pub(super) fn drive(
        &mut self,
        handle: CallKey,
        input: impl FnOnce(&mut Call, &mut Target, Instant, &mut Stream) -> Step,
    ) {
        let Some(in_flight) = self.calls.get_mut(handle) else {
            return;
        };
        let peer = &mut self.lines[in_flight.edge as usize].peers[in_flight.peer as usize];
        let step = input(
            &mut in_flight.call,
            &mut peer.target,
            self.now,
            &mut in_flight.chance,
        );
        self.follow(handle, &step);
    }

    /// The same for an input that may send an attempt, where nothing else happens at this moment if `alone`.
    #[inline(always)]
    fn drive_sending(
        &mut self,
        handle: CallKey,
        alone: bool,
        input: impl FnOnce(&mut Call, &mut Target, Instant, &mut Stream) -> Step,
    ) {
        let in_flight = self.calls.get_mut(handle).expect("a call that sends is there");
        let peer = &mut self.lines[in_flight.edge as usize].peers[in_flight.peer as usize];
        match input(
            &mut in_flight.call,
            &mut peer.target,
            self.now,
            &mut in_flight.chance,
        ) {
            Step::Send(attempt) => self.send(handle, &attempt, alone),
            step => self.follow(handle, &step),
        }
    }

    /// Does what a call says to an answer: most often it is over.
    #[inline(always)]
    pub(super) fn heed(&mut self, handle: CallKey, step: &Step) {
        if let Step::Done(verdict) = step {
            self.done(handle, verdict);
        } else {
            self.follow(handle, step);
        }
    }

    /// Carries out the step of a call, and takes the results that its target holds.
    pub(super) fn follow(&mut self, handle: CallKey, step: &Step) {
        let in_flight = self
            .calls
            .get_mut(handle)
            .expect("a call that has just spoken is there");
        let (edge, number) = (in_flight.edge as usize, in_flight.peer as usize);
        let line = &mut self.lines[edge];
        match step {
            Step::Wait => arm(in_flight, handle, &mut self.queue),
            Step::Cancel(_) => {
                // The request itself runs on at its service, where no caller waits for it any more.
                self.queue.push(self.now, Event::Timer(handle));
            }
            Step::Send(attempt) => return self.send(handle, attempt, false),
            Step::Done(verdict) => return self.done(handle, verdict),
        }
        let target = &mut line.peers[number].target;
        hear(target, edge, self.now, &mut self.queue, &mut self.record);
    }

    #[inline]
    pub(super) fn timer(&mut self, handle: CallKey) {
        let Some(mut in_flight) = self.calls.get_mut(handle) else {
            return;
        };
        if is_orphan(in_flight, &self.jobs) {
            return self.give_up(handle);
        }
        in_flight.timer = Instant::NEVER;
        if self.lines[in_flight.edge as usize].knows {
            self.routes_timed(handle);
            in_flight = self.calls.get_mut(handle).expect("was just looked at");
        }
        if in_flight.held.is_some() {
            return self.held_too_long(handle);
        }
        // A foreign policy's part decides about a retry after a timeout as after any other failure.
        if let Some((number, ends)) = in_flight.attempt
            && ends <= self.now
        {
            let timeout = Outcome::Failure(Failure::new(FailureKind::Timeout));
            return self.answered_through_parts(handle, number, &timeout, false);
        }
        // One that comes too early does nothing but set the next.
        self.drive_sending(handle, true, Call::on_timer);
    }

    pub(super) fn place(&mut self, handle: CallKey) {
        self.drive(handle, |call, target, now, chance| {
            call.on_place(target, now, chance)
        });
    }

    fn give_up(&mut self, handle: CallKey) {
        self.routes_over(handle);
        if let Some(mut in_flight) = self.calls.remove(handle) {
            let peer = &mut self.lines[in_flight.edge as usize].peers[in_flight.peer as usize];
            in_flight.call.abandon(&mut peer.target);
            peer.part.on_call_end(handle.as_u64(), End::TimedOut, self.now);
            while let Some(ticket) = peer.target.next_granted() {
                self.queue
                    .push(self.now, Event::Place(CallKey::from_u64(ticket.0)));
            }
            self.leave_pool(in_flight.pool, in_flight.edge);
        }
    }

    /// A call is over. Its target may have something to tell afterwards.
    #[inline(never)]
    fn done(&mut self, handle: CallKey, verdict: &Verdict) {
        let in_flight = self.calls.get_mut(handle).expect("a call that ends is there");
        let (edge, parent, began, counted) = (
            in_flight.edge,
            in_flight.parent,
            in_flight.began,
            in_flight.counted,
        );
        let (pool, retries, peer) = (in_flight.pool, in_flight.call.retries(), in_flight.peer as usize);
        if in_flight.charged {
            self.lines[edge as usize].peers[peer].part.on_retry_end();
        }
        if self.lines[edge as usize].knows {
            self.routes_over(handle);
        }
        self.calls.forget(handle);
        self.leave_pool(pool, edge);
        let ended = match *verdict {
            Verdict::Success { .. } => Ended::Success,
            Verdict::Refused { refusal, .. } => {
                self.record.on_refusal(edge as usize, refusal, counted);
                Ended::Refused(refusal)
            }
            Verdict::Failure {
                mut failure, refusal, ..
            } => {
                self.record.on_refusal(edge as usize, refusal, counted);
                if retries > 0 || refusal.is_of_target() {
                    failure.hints.retried_below = failure.hints.retried_below.saturating_add(1);
                }
                Ended::Failure(failure)
            }
        };
        let line = &mut self.lines[edge as usize];
        if !line.plain {
            let part = &mut line.peers[peer].part;
            part.on_call_end(handle.as_u64(), ended.for_parts(), self.now);
        }
        match parent {
            Parent::Client { client, user } => {
                let taken = self.now.as_nanos().saturating_sub(began.as_nanos());
                self.record.on_call_end(&ended, taken, self.now, counted);
                self.user_answered(client, user);
            }
            Parent::Job { job, optional } => self.child_done(job, optional, &ended),
            Parent::Outbox { message } => self.message_done(message, &ended),
        }
        let edge = edge as usize;
        let target = &mut self.lines[edge].peers[peer].target;
        hear(target, edge, self.now, &mut self.queue, &mut self.record);
    }
}

/// Takes the results that a target holds: calls that were given a place, and changes of its state.
#[inline(always)]
pub(super) fn hear(
    target: &mut Target,
    edge: usize,
    now: Instant,
    queue: &mut Queue<Packed>,
    record: &mut Recorder,
) {
    while let Some(ticket) = target.next_granted() {
        queue.push(now, Event::Place(CallKey::from_u64(ticket.0)));
    }
    if target.has_changes() {
        for change in target.changes() {
            record.on_change(edge, &change);
        }
    }
}

/// Sets the call's timer, unless one that is early enough is set already: one that comes too early looks again.
#[inline(always)]
pub(super) fn arm(in_flight: &mut InFlightCall, handle: CallKey, queue: &mut Queue<Packed>) {
    if let Some(at) = in_flight.call.next_timer()
        && at < in_flight.timer
    {
        in_flight.timer = at;
        queue.push(at, Event::Timer(handle));
    }
}

/// A call that is made while a request is served holds that request's worker.
fn inner_or_not(inner: bool, call: Call) -> Call {
    if inner { call.within_request() } else { call }
}

/// Whether the caller is gone: an instance that was killed does not go on retrying.
#[inline(always)]
fn is_orphan(in_flight: &InFlightCall, jobs: &Slab<Job>) -> bool {
    match in_flight.parent {
        Parent::Job { job, .. } => jobs.get(job).is_none(),
        Parent::Client { .. } | Parent::Outbox { .. } => false,
    }
}
