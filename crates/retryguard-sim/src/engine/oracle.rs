//! What the oracle does beside the machines: keeps calls until there is room.

use retryguard_core::{Failure, Outcome};

use super::{CallKey, Engine, Event, Flight, Packed};
use crate::{distribution::seconds, kernel::Queue};

impl Engine<'_> {
    /// The oracle keeps a call until there is room, or until it is too late.
    pub(super) fn hold(&mut self, handle: CallKey, failed: Option<(u8, Failure)>) {
        let flight = self
            .flights
            .get_mut(handle)
            .expect("a call that is held is there");
        flight.held = Some(failed);
        let to = self.world.edges[flight.edge as usize].to;
        arm_deadline(flight, handle, &mut self.queue);
        self.floors[to].hold(handle);
        self.use_room(to);
    }

    /// There may be room at a service: calls that are held for it are sent. The oldest first among those with time
    /// enough to be served, because they have the least of it left; then the latest of the others.
    pub(super) fn use_room(&mut self, service: usize) {
        let floor = &self.floors[service];
        let enough = seconds(floor.enough_time * floor.trouble.slow);
        let least = seconds(floor.usual_time * floor.trouble.slow);
        while self.floors[service].has_room(self.now) {
            let (handle, late) = match self.floors[service].unhold() {
                Some(found) => found,
                None => return,
            };
            let Some(flight) = self
                .flights
                .get_mut(handle)
                .filter(|flight| flight.held.is_some())
            else {
                continue;
            };
            let travels = self.lines[flight.edge as usize].round_trip;
            let deadline = flight.call.deadline().moment();
            // Most likely wasted: what it takes is worth more to another.
            if self.now.after(least + travels) > deadline {
                continue;
            }
            if !late && self.now.after(enough + travels) > deadline {
                self.floors[service].hold_late(handle);
                continue;
            }
            match flight.held.take() {
                None => {}
                Some(None) => self.drive(handle, |call, target, now, chance| {
                    call.start(target, now, chance)
                }),
                Some(Some((number, failure))) => self.drive(handle, |call, target, now, chance| {
                    call.on_outcome(number, &Outcome::Failure(failure), target, now, chance)
                }),
            }
        }
        if self.floors[service].holds_any() && !std::mem::replace(&mut self.floors[service].looks, true) {
            #[expect(clippy::cast_possible_truncation, reason = "a world has few services")]
            self.queue.push(
                self.floors[service].next_look(self.now),
                Event::Room(service as u32),
            );
        }
    }

    pub(super) fn room(&mut self, service: u32) {
        self.floors[service as usize].looks = false;
        self.use_room(service as usize);
    }

    pub(super) fn held_too_long(&mut self, handle: CallKey) {
        let flight = self.flights.get_mut(handle).expect("was just looked at");
        if self.now < flight.call.deadline().moment() {
            return arm_deadline(flight, handle, &mut self.queue);
        }
        match flight.held.take() {
            Some(Some((number, failure))) => self.drive(handle, |call, target, now, chance| {
                let last = Failure {
                    retryable: false,
                    ..failure
                };
                call.on_outcome(number, &Outcome::Failure(last), target, now, chance)
            }),
            _ => self.drive(handle, |call, target, now, chance| {
                call.start(target, now, chance)
            }),
        }
    }
}

/// A call that is held looks again when its time is over, whatever the attempt before it waited for.
fn arm_deadline(flight: &mut Flight, handle: CallKey, queue: &mut Queue<Packed>) {
    let deadline = flight.call.deadline().moment();
    if deadline < flight.timer {
        flight.timer = deadline;
        queue.push(deadline, Event::Timer(handle));
    }
}
