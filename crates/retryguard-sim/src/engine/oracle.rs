//! What the oracle does beside the machines: keeps calls until there is room.

use retryguard_core::{Failure, Outcome};

use super::{CallKey, Engine, Event, InFlightCall, Packed};
use crate::{distribution::seconds, kernel::Queue};

impl Engine<'_> {
    /// The oracle keeps a call until there is room, or until it is too late.
    pub(super) fn hold(&mut self, handle: CallKey, failed: Option<(u8, Failure)>) {
        let in_flight = self.calls.get_mut(handle).expect("a call that is held is there");
        in_flight.held = Some(failed);
        let to = self.world.edges[in_flight.edge as usize].to;
        arm_deadline(in_flight, handle, &mut self.queue);
        self.servers[to].hold(handle);
        self.use_room(to);
    }

    /// There may be room at a service: calls that are held for it are sent. The oldest first among those with time
    /// enough to be served, because they have the least of it left; then the latest of the others.
    pub(super) fn use_room(&mut self, service: usize) {
        let server = &self.servers[service];
        let enough = seconds(server.enough_time * server.faults.slow);
        let least = seconds(server.usual_time * server.faults.slow);
        while self.servers[service].has_room(self.now) {
            let (handle, late) = match self.servers[service].unhold() {
                Some(found) => found,
                None => return,
            };
            let Some(in_flight) = self
                .calls
                .get_mut(handle)
                .filter(|in_flight| in_flight.held.is_some())
            else {
                continue;
            };
            let travels = self.lines[in_flight.edge as usize].round_trip;
            let deadline = in_flight.call.deadline().moment();
            // Most likely wasted: what it takes is worth more to another.
            if self.now.after(least + travels) > deadline {
                continue;
            }
            if !late && self.now.after(enough + travels) > deadline {
                self.servers[service].hold_late(handle);
                continue;
            }
            match in_flight.held.take() {
                None => {}
                Some(None) => self.drive(handle, |call, target, now, chance| {
                    call.start(target, now, chance)
                }),
                Some(Some((number, failure))) => self.drive(handle, |call, target, now, chance| {
                    call.on_outcome(number, &Outcome::Failure(failure), target, now, chance)
                }),
            }
        }
        if self.servers[service].holds_any() && !std::mem::replace(&mut self.servers[service].looks, true) {
            #[expect(clippy::cast_possible_truncation, reason = "a world has few services")]
            self.queue.push(
                self.servers[service].next_look(self.now),
                Event::Room(service as u32),
            );
        }
    }

    pub(super) fn room(&mut self, service: u32) {
        self.servers[service as usize].looks = false;
        self.use_room(service as usize);
    }

    pub(super) fn held_too_long(&mut self, handle: CallKey) {
        let in_flight = self.calls.get_mut(handle).expect("was just looked at");
        if self.now < in_flight.call.deadline().moment() {
            return arm_deadline(in_flight, handle, &mut self.queue);
        }
        match in_flight.held.take() {
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
fn arm_deadline(in_flight: &mut InFlightCall, handle: CallKey, queue: &mut Queue<Packed>) {
    let deadline = in_flight.call.deadline().moment();
    if deadline < in_flight.timer {
        in_flight.timer = deadline;
        queue.push(deadline, Event::Timer(handle));
    }
}
