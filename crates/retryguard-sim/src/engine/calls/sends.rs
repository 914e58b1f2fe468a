//! The way of an attempt to its service.

use std::time::Duration;

use retryguard_core::{
    FailureKind, Instant, Outcome,
    call::{Attempt, Step},
    target::AttemptKind,
};

use super::{arm, hear};
use crate::{
    engine::{
        CallKey, Engine, Event, InFlightCall, Job, JobKey,
        admission::{Rejection, rejected_as},
        descend,
        endpoints::ANY,
    },
    streams::Purpose,
};

impl Engine<'_> {
    /// Sends an attempt, or lets it wait for its turn. One that a part of the policy rejects, or its service whatever it is, never
    /// becomes a request.
    ///
    /// `alone` says that nothing else happens at this moment. Then a rejection without delay is answered on the spot, without
    /// looking everything up again: in an overload most attempts end so, and most of their calls wait again.
    #[inline(always)]
    pub(super) fn send(&mut self, handle: CallKey, attempt: &Attempt, alone: bool) {
        let in_flight = self.calls.get_mut(handle).expect("a call that sends is there");
        let (edge, number) = (in_flight.edge as usize, in_flight.peer as usize);
        let line = &mut self.lines[edge];
        let peer = &mut line.peers[number];
        arm(in_flight, handle, &mut self.queue);
        if !line.plain {
            in_flight.attempt = Some((attempt.number, attempt.ends));
        }
        // One that no caller waits for any more is forgotten.
        if attempt.ends <= self.now {
            return hear(
                &mut peer.target,
                edge,
                self.now,
                &mut self.queue,
                &mut self.record,
            );
        }
        if !peer.part.admit(handle.as_u64(), self.now) {
            let rejection = Rejection::of_kind(handle, attempt.number, FailureKind::Overload);
            let overtakes = !self.record.ended_early;
            self.rejections
                .send(rejection, Duration::ZERO, overtakes, &mut self.queue);
            return hear(
                &mut peer.target,
                edge,
                self.now,
                &mut self.queue,
                &mut self.record,
            );
        }
        let held = peer.part.hold(self.now);
        let server = &mut self.servers[line.to as usize];
        let closed = server
            .closed_to_all()
            .filter(|_| line.near && held.is_zero() && !line.knows);
        let Some(kind) = closed else {
            self.send_request(handle, attempt, held);
            let target = &mut self.lines[edge].peers[number].target;
            return hear(target, edge, self.now, &mut self.queue, &mut self.record);
        };
        let again = attempt.kind != AttemptKind::First;
        let tally = self.record.tally(line.to as usize, self.now);
        server.note_arrival(tally, again, in_flight.original && !again, in_flight.counted);
        server.note_rejection(tally, kind, in_flight.counted);
        let takes = self.world.services[line.to as usize].rejection_time;
        let overtakes = !self.record.ended_early;
        if !(alone && line.plain && takes.is_zero() && overtakes && self.queue.has_nothing_due()) {
            let rejection = Rejection::of_kind(handle, attempt.number, kind);
            self.rejections.send(rejection, takes, overtakes, &mut self.queue);
            return hear(
                &mut peer.target,
                edge,
                self.now,
                &mut self.queue,
                &mut self.record,
            );
        }
        hear(
            &mut peer.target,
            edge,
            self.now,
            &mut self.queue,
            &mut self.record,
        );
        self.record.events += 1;
        let read = line
            .readings
            .as_ref()
            .map(|readings| Outcome::Failure(readings[kind as usize]));
        let outcome = read.as_ref().unwrap_or(rejected_as(kind));
        let chance = &mut in_flight.chance;
        let step = in_flight
            .call
            .on_outcome(attempt.number, outcome, &mut peer.target, self.now, chance);
        if matches!(step, Step::Wait) {
            arm(in_flight, handle, &mut self.queue);
            return hear(
                &mut peer.target,
                edge,
                self.now,
                &mut self.queue,
                &mut self.record,
            );
        }
        self.heed(handle, &step);
    }

    /// Sends the request of an attempt that nothing has rejected.
    fn send_request(&mut self, handle: CallKey, attempt: &Attempt, held: Duration) {
        let in_flight = self.calls.get(handle).expect("a call that sends is there");
        let line = &self.lines[in_flight.edge as usize];
        let mut request = request(in_flight, handle, attempt, line.to, line.propagates, self.now);
        let near = line.near;
        if line.knows {
            request.replica = self.route(handle, attempt, request.lineage);
        }
        let job = self.jobs.insert(request);
        if near && held.is_zero() {
            self.reach(job);
        } else {
            self.put_off(job, held);
        }
    }

    /// A request that was held back asks again; one that no caller waits for any more is forgotten.
    pub(in crate::engine) fn launch(&mut self, handle: JobKey) {
        let job = self
            .jobs
            .get(handle)
            .expect("a request that is not yet sent is there");
        let Some(in_flight) = self.calls.get(job.caller).filter(|_| job.ends > self.now) else {
            self.jobs.remove(handle);
            return;
        };
        let part = &mut self.lines[in_flight.edge as usize].peers[in_flight.peer as usize].part;
        let held = part.hold(self.now);
        self.put_off(handle, held);
    }

    /// A request leaves, if it is not held back any longer.
    fn put_off(&mut self, handle: JobKey, held: Duration) {
        if !held.is_zero() {
            self.queue.push(self.now.after(held), Event::Launch(handle));
            return;
        }
        let job = self.jobs.get(handle).expect("a request that leaves is there");
        if self.lines[job.edge as usize].near {
            self.reach(handle);
        } else {
            let network = &self.world.edges[job.edge as usize].network;
            let travel = network.draw(&mut self.seed.stream(job.lineage, Purpose::Network));
            let arrives = self.now.after(travel);
            // What the oracle decides, it decides at the service: its requests travel when they come back.
            if self.lines[job.edge as usize].client_policy.oracle && arrives < job.ends {
                return self.reach(handle);
            }
            self.queue.push(arrives, Event::Reach(handle));
        }
    }
}

/// The request that an attempt of a call sends.
#[inline]
fn request(
    in_flight: &InFlightCall,
    caller: CallKey,
    attempt: &Attempt,
    service: u32,
    propagates: bool,
    now: Instant,
) -> Job {
    Job {
        caller,
        number: attempt.number,
        edge: in_flight.edge,
        service,
        key: in_flight.key,
        lineage: descend(in_flight.lineage, u64::from(attempt.number)),
        counted: in_flight.counted,
        original: in_flight.original && attempt.kind == AttemptKind::First,
        idempotent: in_flight.idempotent,
        again: attempt.kind != AttemptKind::First,
        criticality: in_flight.criticality,
        // What a client of ours writes into a request: when it gives this attempt up.
        deadline: if propagates { attempt.ends } else { Instant::NEVER },
        ends: attempt.ends,
        arrived: now,
        began: now,
        work: None,
        instance: 0,
        replica: ANY,
        holds_worker: false,
        step: 0,
        pending: 0,
        failure: None,
        result: None,
        entry: None,
    }
}
