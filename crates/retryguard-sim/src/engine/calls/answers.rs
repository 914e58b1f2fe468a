//! The way of an answer to its call.

use retryguard_core::{Outcome, call::Step, outcome::Hints};

use super::{Ended, arm, hear, is_orphan};
use crate::{
    client_policy::extra::{Part, limiter::End},
    engine::{CallKey, Engine, JobKey},
};

impl Engine<'_> {
    /// The answer of a request reaches its caller.
    #[inline]
    pub(in crate::engine) fn answer(&mut self, job: JobKey) {
        let Some(answered) = self.jobs.get(job) else {
            return;
        };
        let outcome = match answered.result.expect("an answered request has a result") {
            Ok(()) => Outcome::Success,
            Err(failure) => Outcome::Failure(failure),
        };
        let (handle, number) = (answered.caller, answered.number);
        self.jobs.forget(job);
        self.answered(handle, number, &outcome);
    }

    /// An attempt is answered. Its caller may no longer be there.
    pub(in crate::engine) fn answered(&mut self, handle: CallKey, number: u8, outcome: &Outcome) {
        let Some(mut in_flight) = self.calls.get_mut(handle) else {
            return;
        };
        if is_orphan(in_flight, &self.jobs) {
            return self.give_up(handle);
        }
        if self.lines[in_flight.edge as usize].knows {
            self.route_ended(handle, number, outcome);
            in_flight = self.calls.get_mut(handle).expect("was just looked at");
        }
        let line = &mut self.lines[in_flight.edge as usize];
        if !line.plain {
            return self.answered_through_parts(handle, number, outcome, true);
        }
        let read = match outcome {
            Outcome::Failure(failure) if line.readings.is_some() => {
                Some(Outcome::Failure(line.read(*failure)))
            }
            _ => None,
        };
        let outcome = read.as_ref().unwrap_or(outcome);
        let target = &mut line.peers[in_flight.peer as usize].target;
        let step = in_flight
            .call
            .on_outcome(number, outcome, target, self.now, &mut in_flight.chance);
        if matches!(step, Step::Wait) {
            arm(in_flight, handle, &mut self.queue);
            let edge = in_flight.edge as usize;
            return hear(target, edge, self.now, &mut self.queue, &mut self.record);
        }
        self.heed(handle, &step);
    }

    /// An answer on its way through what a foreign policy has beside the machines. `came` is false where the caller gave up
    /// instead: a send limiter follows answers only.
    pub(super) fn answered_through_parts(
        &mut self,
        handle: CallKey,
        number: u8,
        outcome: &Outcome,
        came: bool,
    ) {
        let in_flight = self.calls.get_mut(handle).expect("was just looked at");
        // The answer of an attempt that was given up comes too late.
        if in_flight
            .attempt
            .take_if(|(running, _)| *running == number)
            .is_none()
        {
            return;
        }
        let line = &mut self.lines[in_flight.edge as usize];
        let outcome = match *outcome {
            Outcome::Success => Outcome::Success,
            Outcome::Failure(failure) => Outcome::Failure(line.read(failure)),
        };
        let peer = &mut line.peers[in_flight.peer as usize];
        if std::mem::take(&mut in_flight.charged) {
            peer.part.on_retry_end();
        }
        let outcome = match outcome {
            Outcome::Success => {
                peer.part.on_attempt_end(handle.as_u64(), End::Success, self.now);
                Outcome::Success
            }
            Outcome::Failure(mut failure) => {
                if came || !matches!(peer.part, Part::SendLimiter(_)) {
                    let end = Ended::Failure(failure).for_parts();
                    peer.part.on_attempt_end(handle.as_u64(), end, self.now);
                }
                if !line.client_policy.hears_hints() {
                    failure.hints = Hints::NONE;
                }
                let another = failure.retryable && in_flight.call.retries() < line.settings.call.retries;
                if another && line.client_policy.oracle {
                    return self.hold(handle, Some((number, failure)));
                }
                if another {
                    let allowed = peer
                        .part
                        .allow_retry(handle.as_u64(), peer.target.in_flight(), self.now);
                    failure.retryable = allowed;
                    in_flight.charged = allowed;
                }
                Outcome::Failure(failure)
            }
        };
        self.drive(handle, |call, target, now, chance| {
            call.on_outcome(number, &outcome, target, now, chance)
        });
    }
}
