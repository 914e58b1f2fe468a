//! The machine, the services and the tasks to wake, behind one short lock.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use retryguard_core::{
    Instant, Outcome,
    endpoints::{Change, Endpoints as Machine, Id, Selection, Sent, Status},
};
use retryguard_policy::Service as ServicePolicy;

use super::{TooManyEndpoints, tracking::Tried};
use crate::{clock::Random, shared::Shared as Target, telemetry};

pub(super) struct Shared<S> {
    pub(super) target: Arc<Target>,
    state: Mutex<State<S>>,
}

struct State<S> {
    machine: Machine,
    members: BTreeMap<Id, Member<S>>,
    policy: Arc<ServicePolicy>,
    version: u32,
    /// Attempts that wait for an endpoint.
    waiting: Vec<Waker>,
}

struct Member<S> {
    name: Arc<str>,
    service: S,
}

/// An attempt that has its endpoint.
pub(super) struct Chosen<S> {
    pub(super) service: S,
    pub(super) sent: Sent,
    pub(super) policy: Arc<ServicePolicy>,
}

impl<S> Shared<S> {
    pub(super) fn new(target: Arc<Target>) -> Self {
        let (version, policy) = target.policy();
        Self {
            target,
            state: Mutex::new(State {
                machine: Machine::new(policy.target.endpoints),
                members: BTreeMap::new(),
                policy,
                version,
                waiting: Vec::new(),
            }),
        }
    }

    pub(super) fn insert(&self, name: Arc<str>, service: S) -> Result<(), TooManyEndpoints> {
        let mut state = self.lock();
        state.take_out(&name);
        let id = state.machine.add().ok_or(TooManyEndpoints)?;
        telemetry::endpoint_is_known(self.target.name(), &name);
        state.members.insert(id, Member { name, service });
        let woken = std::mem::take(&mut state.waiting);
        self.tell(state);
        woken.into_iter().for_each(Waker::wake);
        Ok(())
    }

    pub(super) fn remove(&self, name: &str) -> bool {
        let mut state = self.lock();
        let found = state.take_out(name);
        if found {
            telemetry::endpoint_is_known(self.target.name(), name);
        }
        self.tell(state);
        found
    }

    pub(super) fn status<T>(&self, now: Instant, of: impl Fn(Arc<str>, Status) -> T) -> Vec<T> {
        let state = self.lock();
        let named = |status: Status| Some(of(state.members.get(&status.endpoint)?.name.clone(), status));
        state.machine.status(now).filter_map(named).collect()
    }

    /// Where an attempt goes. Without an endpoint, the waker is woken when there is one.
    pub(super) fn choose(&self, tried: &Tried, repeatable: bool, waker: &Waker) -> Option<Chosen<S>>
    where
        S: Clone,
    {
        let now = self.target.clock.now();
        let mut state = self.lock();
        if state.version != self.target.version() {
            (state.version, state.policy) = self.target.policy();
            let settings = state.policy.target.endpoints;
            state.machine.replace(settings);
        }
        let chosen = tried.add(|tried| {
            let sent = state
                .machine
                .choose(Selection { tried, repeatable }, now, &mut Random)?;
            let id = sent.endpoint();
            let service = state.members.get(&id)?.service.clone();
            let policy = state.policy.clone();
            Some((
                id,
                Chosen {
                    service,
                    sent,
                    policy,
                },
            ))
        });
        if chosen.is_none() {
            state.waiting.push(waker.clone());
        }
        self.tell(state);
        chosen
    }

    /// An attempt has ended; `None` if its caller no longer waits for it.
    pub(super) fn end(&self, sent: Sent, outcome: Option<&Outcome>, policy: &ServicePolicy) {
        let now = self.target.clock.now();
        let rules = &policy.target.call;
        let mut state = self.lock();
        match outcome {
            Some(outcome) => state.machine.on_end(sent, outcome, rules, now),
            None => state.machine.on_given_up(sent, rules, now),
        }
        self.tell(state);
    }

    /// Unlocks, and reports what has changed.
    fn tell(&self, mut state: MutexGuard<'_, State<S>>) {
        if !state.machine.has_changes() {
            return;
        }
        let changes: Vec<(Option<Arc<str>>, Change)> = state
            .machine
            .changes()
            .into_iter()
            .map(|change| {
                let member = state.members.get(&change.endpoint);
                (member.map(|member| member.name.clone()), change)
            })
            .collect();
        drop(state);
        for (name, change) in changes {
            if let Some(name) = name {
                telemetry::on_endpoint(self.target.name(), &name, &change);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> State<S> {
    fn take_out(&mut self, name: &str) -> bool {
        let mut members = self.members.iter();
        let Some((&id, _)) = members.find(|(_, member)| *member.name == *name) else {
            return false;
        };
        self.machine.remove(id);
        self.members.remove(&id);
        true
    }
}
