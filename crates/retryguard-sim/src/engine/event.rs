//! What can happen, and how it waits.

use super::{CallKey, JobKey, RejectionKey};
use crate::kernel::HANDLE_BITS;

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The next call of an open-loop group begins.
    Arrival(u32),
    /// The rate or the number of users of a group changes.
    Stage(u32),
    /// A user has thought enough.
    User { client: u32, user: u32 },
    /// A request that was held back asks again whether it may be sent.
    Launch(JobKey),
    /// A request reaches its service.
    Reach(JobKey),
    /// A service has done its own work on a request.
    Worked(JobKey),
    /// The answer reaches the caller.
    Answer(JobKey),
    /// The rejection of an attempt at the admission reaches its caller.
    Rejected(RejectionKey),
    /// A request has run for as long as its instance may.
    Kill(JobKey),
    /// A call's timer.
    Timer(CallKey),
    /// A call that waited has been given a place.
    Place(CallKey),
    /// The outbox of a service is looked into.
    Relay(u32),
    /// Calls that wait for room at a service look again.
    Room(u32),
    /// A fault begins or ends.
    Fault(u32),
    /// An autoscaler takes its reading.
    Reading(u32),
    /// A decided change of capacity takes effect.
    Resize(u32),
    /// The time lines get their next step.
    Step,
}

/// An event as it waits in the queue, in one word: a million of them wait at a time, and each is moved several times
/// before it happens. Its kind stands above what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Packed(u64);

impl Packed {
    /// The event.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the two halves of what it is about"
    )]
    pub(super) const fn unpacked(self) -> Event {
        let about = self.0 & ((1 << HANDLE_BITS) - 1);
        let (high, low) = ((about >> 32) as u32, about as u32);
        match self.0 >> HANDLE_BITS {
            0 => Event::Arrival(low),
            1 => Event::Stage(low),
            2 => Event::User {
                client: high,
                user: low,
            },
            3 => Event::Launch(JobKey::from_u64(about)),
            4 => Event::Reach(JobKey::from_u64(about)),
            5 => Event::Worked(JobKey::from_u64(about)),
            6 => Event::Answer(JobKey::from_u64(about)),
            7 => Event::Rejected(RejectionKey::from_u64(about)),
            8 => Event::Kill(JobKey::from_u64(about)),
            9 => Event::Timer(CallKey::from_u64(about)),
            10 => Event::Place(CallKey::from_u64(about)),
            11 => Event::Relay(low),
            12 => Event::Room(low),
            13 => Event::Fault(low),
            14 => Event::Reading(low),
            15 => Event::Resize(low),
            _ => Event::Step,
        }
    }
}

impl From<Event> for Packed {
    #[inline(always)]
    fn from(event: Event) -> Self {
        let (kind, about) = match event {
            Event::Arrival(number) => (0, u64::from(number)),
            Event::Stage(number) => (1, u64::from(number)),
            Event::User { client, user } => (2, u64::from(client) << 32 | u64::from(user)),
            Event::Launch(handle) => (3, handle.as_u64()),
            Event::Reach(handle) => (4, handle.as_u64()),
            Event::Worked(handle) => (5, handle.as_u64()),
            Event::Answer(handle) => (6, handle.as_u64()),
            Event::Rejected(handle) => (7, handle.as_u64()),
            Event::Kill(handle) => (8, handle.as_u64()),
            Event::Timer(handle) => (9, handle.as_u64()),
            Event::Place(handle) => (10, handle.as_u64()),
            Event::Relay(number) => (11, u64::from(number)),
            Event::Room(number) => (12, u64::from(number)),
            Event::Fault(number) => (13, u64::from(number)),
            Event::Reading(number) => (14, u64::from(number)),
            Event::Resize(number) => (15, u64::from(number)),
            Event::Step => (16, 0),
        };
        debug_assert!(about >> HANDLE_BITS == 0, "there are few groups of clients");
        Self(kind << HANDLE_BITS | about)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_comes_out_of_the_queue_as_it_went_in() {
        let largest = (1 << HANDLE_BITS) - 1;
        let number = u32::MAX;
        let events = [
            Event::Arrival(number),
            Event::Stage(number),
            Event::User {
                client: (1 << 27) - 1,
                user: number,
            },
            Event::Launch(JobKey::from_u64(largest)),
            Event::Reach(JobKey::from_u64(largest)),
            Event::Worked(JobKey::from_u64(largest)),
            Event::Answer(JobKey::from_u64(largest)),
            Event::Rejected(RejectionKey::from_u64(largest)),
            Event::Kill(JobKey::from_u64(largest)),
            Event::Timer(CallKey::from_u64(largest)),
            Event::Place(CallKey::from_u64(largest)),
            Event::Relay(number),
            Event::Room(number),
            Event::Fault(number),
            Event::Reading(number),
            Event::Resize(number),
            Event::Step,
        ];
        for event in events {
            assert_eq!(Packed::from(event).unpacked(), event);
        }
    }
}
