//! The attempts that wait for a place, and which of them is next.

use std::{collections::BTreeMap, time::Duration};

use super::Ticket;
use crate::time::Instant;

/// Tickets in the order of their arrival, and apart from them those that have little time left. Ordered maps, so that a
/// ticket leaves from the middle in logarithmic time: a shutdown that aborts a long queue one call after the other took
/// quadratic time with a list.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    timely: BTreeMap<i64, (Ticket, Instant)>,
    late: BTreeMap<i64, Ticket>,
    arrivals: BTreeMap<Ticket, i64>,
    /// The numbers of the last that came and of the last that was put back before all others.
    arrived: i64,
    returned: i64,
    /// The longest time that arriving calls had left until their deadline. It fades.
    given: Duration,
}

impl Queue {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.arrivals.len()
    }

    pub(super) fn join(&mut self, ticket: Ticket, deadline: Instant, now: Instant) {
        self.arrived += 1;
        self.given = now.until(deadline).max(self.given - self.given / 1024);
        self.insert(self.arrived, ticket, deadline);
    }

    /// Puts a ticket back before all others.
    pub(super) fn rejoin(&mut self, ticket: Ticket, deadline: Instant) {
        self.returned -= 1;
        self.insert(self.returned, ticket, deadline);
    }

    fn insert(&mut self, number: i64, ticket: Ticket, deadline: Instant) {
        let before = self.arrivals.insert(ticket, number);
        debug_assert!(before.is_none(), "a ticket waits once");
        self.timely.insert(number, (ticket, deadline));
    }

    /// The oldest. With a margin: the oldest whose deadline leaves that much time for an answer, and at least half of what
    /// calls are usually given; after all of these the newest of the others, which has the best chance among them.
    pub(super) fn next(&mut self, margin: Option<Duration>, now: Instant) -> Option<Ticket> {
        let enough = margin.map_or(Duration::ZERO, |margin| {
            margin.clamp(self.given / 2, (self.given / 4).saturating_mul(3))
        });
        while let Some((number, (ticket, deadline))) = self.timely.pop_first() {
            if margin.is_none() || now.after(enough) <= deadline {
                self.arrivals.remove(&ticket);
                return Some(ticket);
            }
            self.late.insert(number, ticket);
        }
        let (_, ticket) = self.late.pop_last()?;
        self.arrivals.remove(&ticket);
        Some(ticket)
    }

    /// Whether a ticket is the next, as far as can be seen without looking at the time.
    pub(super) fn is_first(&self, ticket: Ticket) -> bool {
        match self.timely.first_key_value() {
            Some((_, first)) => first.0 == ticket,
            None => self
                .late
                .last_key_value()
                .is_some_and(|(_, last)| *last == ticket),
        }
    }

    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        match self.arrivals.remove(&ticket) {
            Some(number) => self.timely.remove(&number).is_some() || self.late.remove(&number).is_some(),
            None => false,
        }
    }
}
