//! Callers that know the replicas of a service: each attempt goes to one of them, by the machine of production.

use std::collections::HashMap;

use retryguard_core::{
    Instant, Outcome,
    call::Attempt,
    endpoints::{Endpoints, Id, Selection, Sent},
};

use super::{CallKey, Engine, server::ServiceCapacity};
use crate::streams::Purpose;

/// The number of the replica of a request whose caller does not know the replicas.
pub(super) const ANY: u32 = u32::MAX;

/// The replicas of a service as one caller knows them.
#[derive(Debug)]
pub(super) struct Known {
    machine: Endpoints,
    /// The replicas in the order of their numbers.
    replicas: Vec<Id>,
}

/// An attempt on its way to a replica, or one that was.
#[derive(Debug)]
struct Route {
    number: u8,
    to: Id,
    ends: Instant,
    sent: Option<Sent>,
}

/// The routes of the calls under way, where callers know the replicas.
#[derive(Debug, Default)]
pub(super) struct Routes(HashMap<u64, Vec<Route>>);

impl Known {
    pub(super) fn new(settings: Option<retryguard_core::endpoints::Settings>) -> Self {
        Self {
            machine: Endpoints::new(settings),
            replicas: Vec::new(),
        }
    }

    /// Follows an autoscaler: the last replicas come and go.
    fn follow(&mut self, replicas: usize) {
        while self.replicas.len() > replicas {
            if let Some(gone) = self.replicas.pop() {
                self.machine.remove(gone);
            }
        }
        while self.replicas.len() < replicas {
            let Some(new) = self.machine.add() else { return };
            self.replicas.push(new);
        }
    }
}

impl Engine<'_> {
    /// The replica that an attempt goes to.
    pub(super) fn route(&mut self, handle: CallKey, attempt: &Attempt, lineage: u64) -> u32 {
        let in_flight = self.calls.get(handle).expect("a call that sends is there");
        let line = &mut self.lines[in_flight.edge as usize];
        let server = &self.servers[line.to as usize];
        let ServiceCapacity::Workers { replicas, .. } = server.station else {
            return ANY;
        };
        // The oracle knows which replicas are broken: the first ones.
        if line.client_policy.oracle {
            return replicas.saturating_sub(1);
        }
        let Some(known) = &mut line.peers[in_flight.peer as usize].known else {
            return ANY;
        };
        known.follow(replicas as usize);
        let routes = self.routes.0.entry(handle.as_u64()).or_default();
        let tried: Vec<Id> = routes.iter().map(|route| route.to).collect();
        let selection = Selection {
            tried: &tried,
            repeatable: in_flight.idempotent && in_flight.call.retries() < line.settings.call.retries,
        };
        let mut chance = self.seed.stream(lineage, Purpose::Route);
        let Some(sent) = known.machine.choose(selection, self.now, &mut chance) else {
            return ANY;
        };
        let to = sent.endpoint();
        routes.push(Route {
            number: attempt.number,
            to,
            ends: attempt.ends,
            sent: Some(sent),
        });
        let place = known.replicas.binary_search(&to);
        place.map_or(ANY, |place| u32::try_from(place).unwrap_or(ANY))
    }

    /// An attempt was answered.
    pub(super) fn route_ended(&mut self, handle: CallKey, number: u8, outcome: &Outcome) {
        self.end_routes(handle, Some(outcome), |route, _| route.number == number);
    }

    /// A call's timer: attempts whose time is over are no longer waited for.
    pub(super) fn routes_timed(&mut self, handle: CallKey) {
        self.end_routes(handle, None, |route, now| route.ends <= now);
    }

    /// A call is over, and with it what is still under way.
    pub(super) fn routes_over(&mut self, handle: CallKey) {
        self.end_routes(handle, None, |_, _| true);
        self.routes.0.remove(&handle.as_u64());
    }

    fn end_routes(
        &mut self,
        handle: CallKey,
        outcome: Option<&Outcome>,
        which: impl Fn(&Route, Instant) -> bool,
    ) {
        let Some(routes) = self.routes.0.get_mut(&handle.as_u64()) else {
            return;
        };
        let Some(in_flight) = self.calls.get(handle) else {
            return;
        };
        let line = &mut self.lines[in_flight.edge as usize];
        let read = match outcome {
            Some(Outcome::Failure(failure)) => Some(Outcome::Failure(line.read(*failure))),
            other => other.copied(),
        };
        let Some(known) = &mut line.peers[in_flight.peer as usize].known else {
            return;
        };
        for route in routes.iter_mut().filter(|route| which(route, self.now)) {
            let Some(sent) = route.sent.take() else { continue };
            match &read {
                Some(outcome) => known.machine.on_end(sent, outcome, &line.settings.call, self.now),
                None => known.machine.on_given_up(sent, &line.settings.call, self.now),
            }
        }
    }
}
