//! The door of a service: attempts that are turned away before anything else happens. In an overload most are.

use retryguard_core::{
    Call, Failure, FailureKind, Instant, Outcome, Target,
    call::{Attempt, Step},
    target::AttemptKind,
};

use super::{
    CallKey, Engine, Flight, Packed,
    calls::{arm, hear},
    floor::Floor,
    record::{Recorder, Tally},
};
use crate::{kernel::Queue, streams::Stream};

impl Engine<'_> {
    /// Gives a call an input that may send an attempt. One that is turned away at once is answered on the spot, and
    /// the call most often waits again: without looking everything up anew.
    ///
    /// `alone` says that the caller of this function has nothing else to do at this moment.
    #[inline(always)]
    pub(super) fn send_to_door(
        &mut self,
        handle: CallKey,
        alone: bool,
        input: impl FnOnce(&mut Call, &mut Target, Instant, &mut Stream) -> Step,
    ) {
        let flight = self.flights.get_mut(handle).expect("a call that sends is there");
        let edge = flight.edge as usize;
        let line = &mut self.lines[edge];
        let target = &mut line.peers[flight.peer as usize].target;
        let mut door = Door {
            direct: line.plain && line.near && alone && !line.knows,
            service: line.to as usize,
            floor: &mut self.floors[line.to as usize],
            queue: &mut self.queue,
            record: &mut self.record,
            now: self.now,
        };
        let step = input(&mut flight.call, target, self.now, &mut flight.chance);
        let Some((number, kind)) = door.turns_away(flight, handle, target, &step) else {
            return self.follow(handle, &step);
        };
        let read = line
            .readings
            .as_ref()
            .map(|readings| Outcome::Failure(readings[kind as usize]));
        let outcome = read.as_ref().unwrap_or(turned_away(kind));
        let step = flight
            .call
            .on_outcome(number, outcome, target, self.now, &mut flight.chance);
        if matches!(step, Step::Wait) {
            arm(flight, handle, &mut self.queue);
            return hear(target, edge, self.now, &mut self.queue, &mut self.record);
        }
        self.heed(handle, &step);
    }
}

/// The door of a service, for an attempt that is answered before anything else happens.
struct Door<'a> {
    /// Whether nothing stands between an attempt and its answer: no part of a foreign policy, no network, and nothing
    /// else to be done at this moment by its sender.
    direct: bool,
    service: usize,
    floor: &'a mut Floor,
    queue: &'a mut Queue<Packed>,
    record: &'a mut Recorder,
    now: Instant,
}

impl Door<'_> {
    /// The attempt that a call has just sent and as what it is turned away, if it is, and at once: most are in an
    /// overload. Does for it what `follow` would do, without looking everything up again; otherwise nothing that
    /// `follow` would not do as well.
    #[inline(always)]
    fn turns_away(
        &mut self,
        flight: &mut Flight,
        handle: CallKey,
        target: &mut Target,
        step: &Step,
    ) -> Option<(u8, FailureKind)> {
        let Step::Send(attempt) = step else { return None };
        if !self.direct || attempt.ends <= self.now || !self.floor.refuses_at_once {
            return None;
        }
        let kind = self.floor.closed_to_all()?;
        arm(flight, handle, self.queue);
        if !self.queue.has_nothing_due() || self.record.ended_early {
            return None;
        }
        let tally = self.record.tally(self.service, self.now);
        note_refused(flight, attempt, self.floor, tally);
        hear(target, flight.edge as usize, self.now, self.queue, self.record);
        self.record.events += 1;
        Some((attempt.number, kind))
    }
}

/// Writes down that an attempt was refused at the door. It never becomes a request: in an overload most do not.
#[inline(always)]
pub(super) fn note_refused(flight: &Flight, attempt: &Attempt, floor: &mut Floor, tally: &mut Tally) {
    let again = attempt.kind != AttemptKind::First;
    tally.on_attempt(again, flight.original && !again, flight.counted);
    tally.on_rejection(flight.counted);
    floor.counts.arrivals += 1;
    floor.note_rejection();
}

/// What an attempt comes to that is turned away at the door.
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
