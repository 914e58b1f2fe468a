//! Admission: a service accepts or rejects the requests that reach it. In an overload most are rejected.

use std::time::Duration;

use retryguard_core::{Failure, FailureKind, Outcome, outcome::Hints, shed::Arrival};

use super::{
    CallKey, Engine, Event, JobKey, Packed, RejectionKey,
    endpoints::ANY,
    jobs::drawn_work,
    record::Tally,
    server::{InstanceStart, Server, ServiceCapacity, Source},
};
use crate::{
    kernel::{Queue, Slab},
    streams::Purpose,
    world::{Effects, Station},
};

/// An attempt that was rejected, on the way back to its caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rejection {
    pub(super) call: CallKey,
    /// The number of the attempt.
    pub(super) number: u8,
    pub(super) kind: FailureKind,
    /// When the service asks its caller to come again.
    pub(super) retry_after: Option<Duration>,
}

/// The rejections that have not reached their callers.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    /// The one that reaches its caller at this moment, before anything else happens. Stands for an [`Event::Rejected`] at the
    /// head of the queue.
    next: Option<Rejection>,
    later: Slab<Rejection>,
}

impl Rejections {
    /// Takes the one that reaches its caller at this moment.
    #[inline]
    pub(super) fn take_next(&mut self) -> Option<Rejection> {
        self.next.take()
    }

    /// Takes one whose event has come.
    pub(super) fn take(&mut self, key: RejectionKey) -> Option<Rejection> {
        self.later.remove(key)
    }

    /// Sends a rejection back. `overtakes` says that one without delay may be handled without an event.
    #[inline]
    pub(super) fn send(
        &mut self,
        rejection: Rejection,
        takes: Duration,
        overtakes: bool,
        queue: &mut Queue<Packed>,
    ) {
        if takes.is_zero() && overtakes && self.next.is_none() && queue.has_nothing_due() {
            self.next = Some(rejection);
        } else {
            let key = self.later.insert(rejection);
            queue.push(queue.now().after(takes), Event::Rejected(key));
        }
    }
}

impl Rejection {
    /// A rejection that tells nothing beside its kind.
    #[inline]
    pub(super) const fn of_kind(call: CallKey, number: u8, kind: FailureKind) -> Self {
        Self {
            call,
            number,
            kind,
            retry_after: None,
        }
    }
}

impl Server {
    /// An attempt reaches the service.
    #[inline]
    pub(super) fn note_arrival(&mut self, tally: &mut Tally, again: bool, original: bool, counted: bool) {
        tally.on_attempt(again, original, counted);
        self.counts.arrivals += 1;
    }

    /// The service rejects an attempt that has reached it. Where it is down or a replica is broken, it spends nothing on that.
    #[inline]
    pub(super) fn note_rejection(&mut self, tally: &mut Tally, kind: FailureKind, counted: bool) {
        tally.on_rejection(counted);
        if kind == FailureKind::Overload {
            self.owe_rejection_work();
        }
    }
}

impl Engine<'_> {
    /// A request reaches its service.
    pub(super) fn reach(&mut self, handle: JobKey) {
        let job = self
            .jobs
            .get_mut(handle)
            .expect("a request that travels is there");
        job.arrived = self.now;
        let service = job.service as usize;
        let tally = self.record.tally(service, self.now);
        self.servers[service].note_arrival(tally, job.again, job.original, job.counted);
        self.enter(handle);
    }

    /// A request stands at the admission.
    #[inline]
    pub(super) fn enter(&mut self, handle: JobKey) {
        let job = self.jobs.get_mut(handle).expect("an arriving request is there");
        let service = job.service as usize;
        let lineage = job.lineage;
        let server = &mut self.servers[service];
        if server.faults.down {
            return self.reject_request(handle, FailureKind::Unreachable, None);
        }
        if server.faults.broken > 0 {
            let meets = if job.replica == ANY {
                let share = f64::from(server.faults.broken) / server.size().max(1.0);
                self.seed.stream(lineage, Purpose::Route).with_probability(share)
            } else {
                job.replica < server.faults.broken
            };
            if meets {
                return self.reject_request(handle, FailureKind::Unreachable, None);
            }
        }
        let oracle = self.lines[job.edge as usize].client_policy.oracle;
        if let Some(shed) = server.shed.as_mut().filter(|_| !oracle) {
            let arrival = Arrival {
                criticality: job.criticality,
                again: job.again,
            };
            let mut chance = self.seed.stream(lineage, Purpose::Request);
            let ticket = retryguard_core::bulkhead::Ticket(handle.as_u64());
            match shed.admit(arrival, ticket, self.now, &mut chance) {
                Ok(entry) => job.entry = Some(entry),
                Err(refused) => {
                    let retry_after = Some(refused.retry_after);
                    return self.reject_request(handle, FailureKind::Overload, retry_after);
                }
            }
        }
        if server.effects == Effects::Keyed && server.seen.contains_key(&job.key) {
            return self.answer_again(handle);
        }
        self.admit(handle, service);
    }

    /// A key that was seen before gets the answer that it got then, and nothing is done for it.
    fn answer_again(&mut self, handle: JobKey) {
        let job = self
            .jobs
            .get_mut(handle)
            .expect("a request that is answered is there");
        let service = job.service as usize;
        job.result = Some(Ok(()));
        self.record.on_served(service, true, job.counted);
        if let (Some(entry), Some(shed)) = (job.entry.take(), &mut self.servers[service].shed) {
            shed.leave(entry);
        }
        let travel = self.network(handle);
        self.queue.push(self.now.after(travel), Event::Answer(handle));
    }

    fn admit(&mut self, handle: JobKey, service: usize) {
        let server = &mut self.servers[service];
        let (busy, workers, share) = (server.busy, server.workers(), server.faults.share);
        match &mut server.station {
            ServiceCapacity::Workers { queue, .. } => {
                if busy < workers {
                    return self.work(handle, Duration::ZERO);
                }
                let oldest = (server.newest_first && server.waiting.len() >= *queue)
                    .then(|| server.waiting.pop_front())
                    .flatten();
                if server.waiting.len() < *queue {
                    server.waiting.push_back(handle);
                    let job = self.jobs.get_mut(handle).expect("was just looked at");
                    job.work = Some(drawn_work(
                        &self.world.services[service].station,
                        self.seed,
                        job.lineage,
                    ));
                    if let Some(oldest) = oldest {
                        self.reject_request(oldest, FailureKind::Overload, None);
                    }
                    return;
                }
            }
            ServiceCapacity::Capacity(tokens) => {
                if let Some(source) = tokens.take(self.now, share) {
                    server.counts.consumed += 1.0;
                    server.counts.from_burst += f64::from(u8::from(source == Source::Burst));
                    return self.work(handle, Duration::ZERO);
                }
            }
            ServiceCapacity::Instances(instances) => {
                let (instance, start) = match instances.take(busy, self.now) {
                    InstanceStart::Warm(instance) => (instance, Duration::ZERO),
                    InstanceStart::Cold(instance) => {
                        let Station::Instances { start, .. } = &self.world.services[service].station else {
                            unreachable!("the server is made from the station");
                        };
                        let lineage = self.jobs.get(handle).map_or(0, |job| job.lineage);
                        (
                            instance,
                            start.draw(&mut self.seed.stream(lineage, Purpose::Request)),
                        )
                    }
                    InstanceStart::Refused => {
                        return self.reject_request(handle, FailureKind::Overload, None);
                    }
                };
                self.jobs.get_mut(handle).expect("was just looked at").instance = instance;
                return self.work(handle, start);
            }
        }
        self.reject_request(handle, FailureKind::Overload, None);
    }

    /// A request is rejected before it is worked on; the rejection takes its time.
    pub(super) fn reject_request(
        &mut self,
        handle: JobKey,
        kind: FailureKind,
        retry_after: Option<Duration>,
    ) {
        let travel = self.network(handle);
        let job = self.forgotten(handle);
        let service = job.service as usize;
        let rejection = Rejection {
            retry_after,
            ..Rejection::of_kind(job.caller, job.number, kind)
        };
        let takes = self.world.services[service].rejection_time + travel;
        let tally = self.record.tally(service, self.now);
        self.servers[service].note_rejection(tally, kind, job.counted);
        self.answer_later(rejection, takes);
    }

    /// The caller of an attempt that is not worked on gets its answer after `takes`.
    pub(super) fn answer_later(&mut self, rejection: Rejection, takes: Duration) {
        let overtakes = !self.record.ended_early;
        self.rejections.send(rejection, takes, overtakes, &mut self.queue);
    }

    /// A rejection reaches the caller of its attempt, which may have given up.
    #[inline]
    pub(super) fn rejected(&mut self, rejection: &Rejection) {
        let &Rejection {
            call, number, kind, ..
        } = rejection;
        if rejection.retry_after.is_none() {
            return self.answered(call, number, rejected_as(kind));
        }
        let hints = Hints {
            retry_after: rejection.retry_after,
            ..Hints::NONE
        };
        let failure = Failure::new(kind).with_hints(hints);
        self.answered(call, number, &Outcome::Failure(failure));
    }
}

/// What an attempt comes to that is rejected without a hint.
#[inline]
pub(super) fn rejected_as(kind: FailureKind) -> &'static Outcome {
    static OUTCOMES: [Outcome; FailureKind::ALL.len()] = {
        let mut all = [Outcome::Success; FailureKind::ALL.len()];
        let mut index = 0;
        while index < all.len() {
            let kind = FailureKind::ALL[index];
            all[kind as usize] = Outcome::Failure(Failure::new(kind));
            index += 1;
        }
        all
    };
    &OUTCOMES[kind as usize]
}
