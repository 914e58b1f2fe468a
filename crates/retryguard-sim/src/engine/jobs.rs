//! Requests at their services.

use std::time::Duration;

use retryguard_core::{Failure, FailureKind, Instant, Outcome, outcome::Hints};

use super::{
    Engine, Event, Job, JobKey, admission::Rejection, calls::Ended, descend, pools::Planned,
    server::ServiceCapacity,
};
use crate::{
    streams::{Purpose, Seed, Stream},
    world::{Effects, Station, Step},
};

impl Engine<'_> {
    /// Work on a request begins.
    pub(super) fn work(&mut self, handle: JobKey, after: Duration) {
        let job = self
            .jobs
            .get_mut(handle)
            .expect("a request that is worked on is there");
        let index = job.service as usize;
        job.began = self.now;
        job.holds_worker = true;
        let (lineage, counted) = (job.lineage, job.counted);
        let arrived = job.arrived;
        let service = &self.world.services[index];
        let server = &mut self.servers[index];
        if let ServiceCapacity::Workers { replicas, .. } = server.station
            && replicas > 1
        {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an instance's number is below their count"
            )]
            let instance = (server.counts.arrivals % u64::from(replicas)) as u32;
            job.instance = instance;
        }
        server.take_worker(self.now);
        if server.shed.is_some() {
            server.note_wait(self.now.since(arrived), self.now);
        }
        let drawn = job.work.take();
        let (mut takes, mut chance) =
            drawn.unwrap_or_else(|| drawn_work(&service.station, self.seed, lineage));
        if server.faults.slow != 1.0 {
            takes = super::nanos(Duration::from_nanos(takes).mul_f64(server.faults.slow));
        }
        for &fault in &server.faults.delays {
            if let crate::world::Effect::Delay(delay) = &self.world.faults[fault].effect {
                takes = takes.saturating_add(delay.draw_nanos(&mut chance));
            }
        }
        takes = takes.saturating_add(server.take_owed_work());
        if counted {
            server.bill.work_nanos += takes;
        }
        let done = self.now.after(after).as_nanos().saturating_add(takes);
        self.queue.push(Instant::from_nanos(done), Event::Worked(handle));
        if let Station::Instances {
            timeout: Some(timeout),
            ..
        } = &service.station
        {
            self.queue.push(self.now.after(*timeout), Event::Kill(handle));
        }
    }

    /// The service has done its own work on a request.
    pub(super) fn worked(&mut self, handle: JobKey) {
        let Some(job) = self.jobs.get(handle) else {
            return;
        };
        if job.result.is_some() {
            return;
        }
        let index = job.service as usize;
        let service = &self.world.services[index];
        let server = &self.servers[index];
        let mut errors = service.errors;
        errors += (1.0 - errors) * server.faults.errors;
        if let Some(load) = service.load_errors {
            errors += (1.0 - errors) * load.at(server.utilisation());
        }
        let failed = errors > 0.0
            && self
                .seed
                .stream(job.lineage, Purpose::Fault)
                .with_probability(errors);
        if failed {
            return self.finish(handle, Err(Failure::new(service.error_kind)));
        }
        if service.steps.is_empty() {
            return self.finish(handle, Ok(()));
        }
        if !service.blocking && !matches!(service.station, Station::Instances { .. }) {
            self.release(handle);
        }
        self.next_step(handle);
    }

    /// Makes the calls of the next step, or of all of them.
    fn next_step(&mut self, handle: JobKey) {
        let job = self
            .jobs
            .get_mut(handle)
            .expect("a request between its steps is there");
        let service = &self.world.services[job.service as usize];
        let first = usize::from(job.step);
        let last = if service.parallel {
            service.steps.len()
        } else {
            first + 1
        };
        let Some(steps) = service
            .steps
            .get(first..last.min(service.steps.len()))
            .filter(|it| !it.is_empty())
        else {
            return self.finish(handle, Ok(()));
        };
        job.step += u16::try_from(steps.len()).expect("a service has few steps");
        let key = job.key;
        let mut planned = Vec::new();
        for (offset, step) in steps.iter().enumerate() {
            let number = first + offset;
            if self.defers(step).is_some() {
                continue;
            }
            if let Some(edge) = self.chosen_way(key, number, step) {
                planned.extend((0..step.times).map(|copy| Planned {
                    job: handle,
                    edge,
                    #[expect(clippy::cast_possible_truncation, reason = "a service has few steps")]
                    copy: copy + (number as u32) * 1000,
                    optional: step.optional,
                }));
            }
        }
        let job = self.jobs.get_mut(handle).expect("was just looked at");
        job.pending = u32::try_from(planned.len()).expect("a step makes few calls");
        if planned.is_empty() {
            return self.next_step(handle);
        }
        for call in planned {
            self.make_call(call);
        }
    }

    /// The way that a request takes at a step, of several; the same for every attempt of it.
    pub(super) fn chosen_way(&self, key: u64, number: usize, step: &Step) -> Option<usize> {
        if let [(_, only)] = step.choices.as_slice() {
            return *only;
        }
        let mut chance = self.seed.stream(descend(key, number as u64), Purpose::Route);
        let weights: f64 = step.choices.iter().map(|(weight, _)| weight).sum();
        let mut point = chance.uniform() * weights;
        let choice = step.choices.iter().find(|(weight, _)| {
            point -= weight;
            point < 0.0
        });
        choice.or(step.choices.last()).and_then(|(_, edge)| *edge)
    }

    /// A call of a request has ended.
    pub(super) fn child_done(&mut self, handle: JobKey, optional: bool, ended: &Ended) {
        let Some(job) = self.jobs.get_mut(handle) else {
            return;
        };
        if job.result.is_some() {
            return;
        }
        job.pending -= 1;
        if !optional {
            job.failure = match ended {
                Ended::Success => job.failure,
                Ended::Failure(failure) => Some(passed_on(failure)),
                Ended::Refused(refusal) => Some(Failure::new(FailureKind::Overload).with_hints(Hints {
                    retried_below: u8::from(refusal.is_of_target()),
                    ..Hints::NONE
                })),
            };
        }
        if job.pending > 0 {
            return;
        }
        match job.failure {
            Some(failure) => self.finish(handle, Err(failure)),
            None => self.next_step(handle),
        }
    }

    /// A request has run for as long as its instance may.
    pub(super) fn kill(&mut self, handle: JobKey) {
        if self.jobs.get(handle).is_some_and(|job| job.result.is_none()) {
            self.finish(handle, Err(Failure::new(FailureKind::Timeout)));
        }
    }

    /// A request has its result: frees what it held, and answers.
    fn finish(&mut self, handle: JobKey, result: Result<(), Failure>) {
        let job = self.jobs.get_mut(handle).expect("a request that ends is there");
        let index = job.service as usize;
        let server = &mut self.servers[index];
        job.result = Some(result);
        let (success, counted) = (result.is_ok(), job.counted);
        if counted {
            server.bill.requests += 1;
            let took = self.now.as_nanos().saturating_sub(job.began.as_nanos());
            server.bill.instance_millis += took.div_ceil(1_000_000);
        }
        if let (Some(entry), Some(shed)) = (job.entry.take(), &mut server.shed) {
            shed.on_work_time(self.now.since(job.began));
            if !success || shed.counts_ends() {
                shed.on_end(&entry, !success, self.now);
            }
            shed.leave(entry);
        }
        let mut again = false;
        if success && server.effects != Effects::None {
            again = server.seen.insert(job.key, ()).is_some();
            let keyed = server.effects == Effects::Keyed;
            if !(again && keyed) {
                self.record.on_effect(index, again, counted);
            }
            again &= keyed;
        }
        self.record.on_served(index, success, counted);
        let holds = std::mem::take(&mut job.holds_worker).then_some(job.instance);
        let (caller, number) = (job.caller, job.number);
        let near = self.lines[job.edge as usize].near;
        // One that has had its effect before, under the same key, has no new effect.
        if success && server.posts && !again {
            self.write_messages(handle);
        }
        if let Some(instance) = holds {
            self.give_back(index, instance);
        }
        if near {
            self.jobs.forget(handle);
            let outcome = result.map_or_else(Outcome::Failure, |()| Outcome::Success);
            return self.answered(caller, number, &outcome);
        }
        let travel = self.network(handle);
        if travel.is_zero() {
            self.answer(handle);
        } else {
            self.queue.push(self.now.after(travel), Event::Answer(handle));
        }
    }

    pub(super) fn network(&self, handle: JobKey) -> Duration {
        let job = self.jobs.get(handle).expect("a request that answers is there");
        if self.lines[job.edge as usize].near {
            return Duration::ZERO;
        }
        let network = &self.world.edges[job.edge as usize].network;
        let draw = |lineage| network.draw(&mut self.seed.stream(lineage, Purpose::Network));
        let back = draw(descend(job.lineage, 7));
        if self.lines[job.edge as usize].client_policy.oracle {
            back + draw(job.lineage)
        } else {
            back
        }
    }

    /// The request gives its worker back, which takes the next one that waits.
    fn release(&mut self, handle: JobKey) {
        let job = self
            .jobs
            .get_mut(handle)
            .expect("a request that is released is there");
        if std::mem::take(&mut job.holds_worker) {
            let (index, instance) = (job.service as usize, job.instance);
            self.give_back(index, instance);
        }
    }

    /// A worker is free again, and with it the instance that it was.
    #[inline]
    fn give_back(&mut self, index: usize, instance: u32) {
        let server = &mut self.servers[index];
        server.free_worker(self.now);
        if let ServiceCapacity::Instances(instances) = &mut server.station {
            instances.give_back(instance);
        }
        self.next_waiting(index);
    }

    /// Free workers take waiting requests.
    pub(super) fn next_waiting(&mut self, index: usize) {
        // What the oracle sends is still wanted, what has queued may not be.
        if self.servers[index].holds_any() {
            self.use_room(index);
        }
        loop {
            let server = &mut self.servers[index];
            if server.busy >= server.workers() {
                break;
            }
            let Some(next) = server.next_in_line() else {
                break;
            };
            if self.has_no_caller(next, index) {
                self.drop_waiting(next);
            } else if self.is_dropped(next, index) {
                self.reject_request(next, FailureKind::Overload, None);
            } else {
                self.work(next, Duration::ZERO);
            }
        }
    }

    /// Whether a request that waited need not be worked on, as far as its service can know: its deadline has
    /// passed, or it notices that the caller has gone.
    fn has_no_caller(&self, handle: JobKey, index: usize) -> bool {
        let Some(job) = self.jobs.get(handle) else {
            return true;
        };
        job.deadline <= self.now
            || self.world.services[index].notices_cancel
                && (job.ends <= self.now || self.calls.get(job.caller).is_none())
    }

    /// Whether a request that has waited for its turn is dropped, because waits are too long.
    fn is_dropped(&mut self, handle: JobKey, index: usize) -> bool {
        let server = &mut self.servers[index];
        let Some(codel) = &mut server.codel else {
            return false;
        };
        let arrived = self.jobs.get(handle).map_or(self.now, |job| job.arrived);
        codel.drops(self.now.since(arrived), server.waiting.is_empty(), self.now)
    }

    /// No work is done on a request that waited; its answer comes at once, to a caller that has most likely gone.
    fn drop_waiting(&mut self, handle: JobKey) {
        if self.jobs.get(handle).is_none() {
            return;
        }
        let job = self.forgotten(handle);
        let rejection = Rejection::of_kind(job.caller, job.number, FailureKind::Timeout);
        self.answer_later(rejection, Duration::ZERO);
    }

    /// Takes out a request that is not worked on. It leaves the counts of the shedding machine.
    pub(super) fn forgotten(&mut self, handle: JobKey) -> Job {
        let mut job = self
            .jobs
            .remove(handle)
            .expect("a request that is rejected is there");
        let shed = &mut self.servers[job.service as usize].shed;
        if let (Some(entry), Some(shed)) = (job.entry.take(), shed) {
            shed.leave(entry);
        }
        job
    }
}

/// How long the work on a request takes, and the rest of its random numbers.
#[inline]
pub(super) fn drawn_work(station: &Station, seed: Seed, lineage: u64) -> (u64, Stream) {
    let mut chance = seed.stream(lineage, Purpose::Service);
    (station.time().draw_nanos(&mut chance), chance)
}

/// A failure of something below, as a service passes it on: its kind and its marks, but no hint that was
/// meant for the service itself.
fn passed_on(failure: &Failure) -> Failure {
    Failure::new(failure.kind).with_hints(Hints {
        do_not_retry: failure.hints.do_not_retry,
        retried_below: failure.hints.retried_below,
        ..Hints::NONE
    })
}
