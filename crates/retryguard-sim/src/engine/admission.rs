//! Admission: attempts that a service rejects before anything else happens. In an overload most are.

use retryguard_core::{
    Call, Failure, FailureKind, Instant, Outcome, Target,
    call::{Attempt, Step},
    target::AttemptKind,
};

use super::{
    CallKey, Engine, InFlightCall, Packed,
    calls::{arm, hear},
    record::{Recorder, Tally},
    server::Server,
};
use crate::{kernel::Queue, streams::Stream};

impl Engine<'_> {
    /// Gives a call an input that may send an attempt. One that is turned away at once is answered on the spot, and
    /// the call most often waits again: without looking everything up anew.
    ///
    /// `alone` says that the caller of this function has nothing else to do at this moment.
    #[inline(always)]
    pub(super) fn send_or_reject(
        &mut self,
        handle: CallKey,
        alone: bool,
        input: impl FnOnce(&mut Call, &mut Target, Instant, &mut Stream) -> Step,
    ) {
        let in_flight = self.calls.get_mut(handle).expect("a call that sends is there");
        let edge = in_flight.edge as usize;
        let line = &mut self.lines[edge];
        let target = &mut line.peers[in_flight.peer as usize].target;
        let mut admission = Admission {
            direct: line.plain && line.near && alone && !line.knows,
            service: line.to as usize,
            server: &mut self.servers[line.to as usize],
            queue: &mut self.queue,
            record: &mut self.record,
            now: self.now,
        };
        let step = input(&mut in_flight.call, target, self.now, &mut in_flight.chance);
        let Some((number, kind)) = admission.turns_away(in_flight, handle, target, &step) else {
            return self.follow(handle, &step);
        };
        let read = line
            .readings
            .as_ref()
            .map(|readings| Outcome::Failure(readings[kind as usize]));
        let outcome = read.as_ref().unwrap_or(turned_away(kind));
        let step = in_flight
            .call
            .on_outcome(number, outcome, target, self.now, &mut in_flight.chance);
        if matches!(step, Step::Wait) {
            arm(in_flight, handle, &mut self.queue);
            return hear(target, edge, self.now, &mut self.queue, &mut self.record);
        }
        self.heed(handle, &step);
    }
}

/// The admission of a service, for an attempt that is answered before anything else happens.
struct Admission<'a> {
    /// Whether nothing stands between an attempt and its answer: no part of a foreign policy, no network, and nothing
    /// else to be done at this moment by its sender.
    direct: bool,
    service: usize,
    server: &'a mut Server,
    queue: &'a mut Queue<Packed>,
    record: &'a mut Recorder,
    now: Instant,
}

impl Admission<'_> {
    /// The attempt that a call has just sent and as what it is turned away, if it is, and at once: most are in an
    /// overload. Does for it what `follow` would do, without looking everything up again; otherwise nothing that
    /// `follow` would not do as well.
    #[inline(always)]
    fn turns_away(
        &mut self,
        in_flight: &mut InFlightCall,
        handle: CallKey,
        target: &mut Target,
        step: &Step,
    ) -> Option<(u8, FailureKind)> {
        let Step::Send(attempt) = step else { return None };
        if !self.direct || attempt.ends <= self.now || !self.server.refuses_at_once {
            return None;
        }
        let kind = self.server.closed_to_all()?;
        arm(in_flight, handle, self.queue);
        if !self.queue.has_nothing_due() || self.record.ended_early {
            return None;
        }
        let tally = self.record.tally(self.service, self.now);
        note_refused(in_flight, attempt, self.server, tally);
        hear(target, in_flight.edge as usize, self.now, self.queue, self.record);
        self.record.events += 1;
        Some((attempt.number, kind))
    }
}

/// Writes down that an attempt was refused at the admission. It never becomes a request: in an overload most do not.
#[inline(always)]
pub(super) fn note_refused(
    in_flight: &InFlightCall,
    attempt: &Attempt,
    server: &mut Server,
    tally: &mut Tally,
) {
    let again = attempt.kind != AttemptKind::First;
    tally.on_attempt(again, in_flight.original && !again, in_flight.counted);
    tally.on_rejection(in_flight.counted);
    server.counts.arrivals += 1;
    server.note_rejection();
}

/// What an attempt comes to that is turned away at the admission.
#[inline]
pub(super) fn turned_away(kind: FailureKind) -> &'static Outcome {
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
