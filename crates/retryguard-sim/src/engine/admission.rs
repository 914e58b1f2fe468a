//! Admission: attempts that are rejected before a service works on them. In an overload most are.

use std::time::Duration;

use retryguard_core::{Failure, FailureKind, Outcome, outcome::Hints};

use super::{CallKey, Engine, Event, Packed, RejectionKey, record::Tally, server::Server};
use crate::kernel::{Queue, Slab};

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
