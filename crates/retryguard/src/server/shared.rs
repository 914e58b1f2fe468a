//! The shedder that all clones of a server layer share, behind one short lock.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, atomic::Ordering},
    task::{Poll, Waker},
    time::Duration,
};

use metrics::{Counter, Gauge};
use retryguard_core::{
    Criticality, Instant,
    bulkhead::Ticket,
    shed::{Arrival, Entry, Refused, Shed},
};
use retryguard_policy::{Service as ServicePolicy, Trust};

use crate::{
    clock::{Clock, Random},
    sync::{AtomicU32, Mutex, MutexGuard},
    telemetry::{SERVED, SERVING, SHED},
};

pub(super) struct Shared {
    pub(super) clock: Clock,
    name: String,
    handles: OnceLock<Handles>,
    /// Grows with every policy, so that a service sees with one load that its own copy is old.
    version: AtomicU32,
    state: Mutex<State>,
}

/// What a policy says about each request.
#[derive(Debug)]
pub(super) struct Rules {
    /// The bound for requests that carry no deadline of their own, or a later one.
    pub(super) deadline: Option<Duration>,
    pub(super) trust: Trust,
    pub(super) holds_bodies: bool,
    exempt: Vec<String>,
}

impl Rules {
    fn new(policy: &ServicePolicy) -> Arc<Self> {
        Arc::new(Self {
            deadline: policy.server_deadline,
            trust: policy.server_trust,
            holds_bodies: policy.server_holds_bodies,
            exempt: policy.server_exempt.clone(),
        })
    }

    /// Whether a path is served whatever the load.
    pub(super) fn exempts(&self, path: &str) -> bool {
        self.exempt.iter().any(|exempt| exempt == path)
    }
}

struct Handles {
    first: Counter,
    again: Counter,
    serving: Gauge,
}

struct State {
    shed: Option<Shed>,
    rules: Arc<Rules>,
    tickets: u64,
    /// Whether requests wait here for their turn. Only then is it of use to know how long the work on one takes.
    has_queue: bool,
    queue: HashMap<Ticket, Waiting>,
}

enum Waiting {
    Asleep(Waker),
    Turn,
}

/// A request that was let in. Leaves by itself.
pub(super) struct Inside {
    shared: Arc<Shared>,
    entry: Option<Entry>,
    ticket: Ticket,
    /// When the work on it began, where that is of use.
    began: Option<Instant>,
    /// How the work ended; `None` where it was given up.
    failed: Option<bool>,
}

impl Shared {
    pub(super) fn new(policy: &ServicePolicy) -> Self {
        let clock = Clock::start();
        let shed = policy.server.map(|settings| Shed::new(settings, clock.now()));
        let state = State {
            shed,
            rules: Rules::new(policy),
            tickets: 0,
            has_queue: has_queue(policy),
            queue: HashMap::new(),
        };
        Self {
            clock,
            name: policy.name.clone(),
            handles: OnceLock::new(),
            version: AtomicU32::new(0),
            state: Mutex::new(state),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn rules(&self) -> (u32, Arc<Rules>) {
        let state = self.lock();
        (self.version(), state.rules.clone())
    }

    pub(super) fn replace(&self, policy: &ServicePolicy) {
        let mut state = self.lock();
        state.rules = Rules::new(policy);
        self.version.fetch_add(1, Ordering::Release);
        match (&mut state.shed, policy.server) {
            (Some(shed), Some(settings)) => shed.replace(settings),
            (None, Some(settings)) => {
                state.shed = Some(Shed::new(settings, self.clock.now()));
                state.has_queue = has_queue(policy);
            }
            // Requests inside still have to leave it: an unlimited shedder stands in for none.
            (Some(shed), None) => shed.replace(retryguard_core::shed::Settings {
                in_flight: u32::MAX / 2,
                processor: None,
                queue_time: Duration::MAX,
                ..retryguard_core::shed::Settings::default()
            }),
            (None, None) => {}
        }
        state.pass_turns();
    }

    pub(super) fn admit(self: &Arc<Self>, arrival: Arrival) -> Result<Inside, Refused> {
        let now = self.clock.now();
        let mut state = self.lock();
        state.tickets += 1;
        let ticket = Ticket(state.tickets);
        let entry = match &mut state.shed {
            Some(shed) => Some(shed.admit(arrival, ticket, now, &mut Random)?),
            None => None,
        };
        let waits = entry.as_ref().is_some_and(Entry::must_wait);
        let began = (state.has_queue && !waits).then_some(now);
        drop(state);
        let handles = self.handles();
        if arrival.again {
            &handles.again
        } else {
            &handles.first
        }
        .increment(1);
        handles.serving.increment(1.0);
        Ok(Inside {
            shared: self.clone(),
            entry,
            ticket,
            began,
            failed: None,
        })
    }

    pub(super) fn count_shed(&self, reason: &'static str, criticality: Criticality) {
        let labels = [
            ("service", self.name.clone()),
            ("reason", reason.to_owned()),
            ("criticality", criticality.to_string()),
        ];
        metrics::counter!(SHED, &labels).increment(1);
    }

    pub(super) fn on_processor(&self, used: retryguard_core::Ratio) {
        if let Some(shed) = &mut self.lock().shed {
            shed.on_processor(used);
        }
    }

    fn handles(&self) -> &Handles {
        self.handles.get_or_init(|| {
            let counter =
                |attempt: &'static str| metrics::counter!(SERVED, "service" => self.name.clone(), "attempt" => attempt);
            Handles {
                first: counter("first"),
                again: counter("again"),
                serving: metrics::gauge!(SERVING, "service" => self.name.clone()),
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the shedder of a policy lets requests wait for their turn. Fixed when it is made (see [`Shed::replace`]).
fn has_queue(policy: &ServicePolicy) -> bool {
    policy.server.is_some_and(|settings| settings.working.is_some())
}

impl State {
    fn pass_turns(&mut self) {
        let Some(shed) = &mut self.shed else { return };
        while let Some(ticket) = shed.next_turn() {
            if let Some(Waiting::Asleep(waker)) = self.queue.insert(ticket, Waiting::Turn) {
                // Waking under the lock is short: the woken task runs later, or waits here for a moment.
                waker.wake();
            }
        }
    }
}

impl Inside {
    /// The work has ended, well or not.
    pub(super) fn end(&mut self, failed: bool) {
        self.failed = Some(failed);
    }

    pub(super) fn must_wait(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::must_wait)
    }

    /// Waits for the request's turn.
    pub(super) fn poll_turn(&mut self, waker: &Waker) -> Poll<()> {
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        match state.queue.get_mut(&self.ticket) {
            Some(Waiting::Turn) => {
                state.queue.remove(&self.ticket);
                if let (Some(shed), Some(entry)) = (&mut state.shed, &mut self.entry) {
                    shed.start(entry, now);
                }
                self.began = Some(now);
                return Poll::Ready(());
            }
            Some(Waiting::Asleep(known)) => known.clone_from(waker),
            None => {
                state.queue.insert(self.ticket, Waiting::Asleep(waker.clone()));
            }
        }
        Poll::Pending
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let took = self.began.map(|began| self.shared.clock.now().since(began));
        let mut state = self.shared.lock();
        if !state.queue.is_empty() {
            state.queue.remove(&self.ticket);
        }
        if let (Some(shed), Some(entry)) = (&mut state.shed, self.entry.take()) {
            if let Some(took) = took {
                shed.on_work_time(took);
            }
            if let Some(failed) = self.failed
                && (failed || shed.counts_ends())
            {
                shed.on_end(&entry, failed, self.shared.clock.now());
            }
            shed.leave(entry);
            state.pass_turns();
        }
        drop(state);
        self.shared.handles().serving.decrement(1.0);
    }
}
