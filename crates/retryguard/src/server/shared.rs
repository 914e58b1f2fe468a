//! The shedder that all clones of a server layer share, behind one short lock.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, Weak, atomic::Ordering},
    task::{Poll, Waker},
    time::Duration,
};

use metrics::{Counter, Gauge};
use retryguard_core::{
    Criticality, Instant,
    bulkhead::Ticket,
    shed::{Arrival, Entry, Reason, Refused, Shed},
};
use retryguard_policy::{Service as ServicePolicy, Trust};

use crate::{
    clock::{Clock, Random},
    sync::{Apart, AtomicU32, Mutex, MutexGuard, lock},
    telemetry::{SERVED, SERVING, SHED},
};

/// A server counts as full for this long after it refused a request because no place was free.
pub(super) const FULL_FOR: Duration = Duration::from_secs(1);

pub(super) struct Shared {
    pub(super) clock: Clock,
    name: String,
    handles: OnceLock<Handles>,
    /// Grows with every policy, so that a service sees with one load that its own copy is old.
    version: AtomicU32,
    state: Apart<Mutex<State>>,
}

/// What a policy says about each request.
#[derive(Debug)]
pub(super) struct Rules {
    /// The bound for requests that carry no deadline of their own, or a later one.
    pub(super) deadline: Option<Duration>,
    pub(super) trust: Trust,
    pub(super) holds_bodies: bool,
    /// How long a request may hold its place while the server is full.
    pub(super) full_timeout: Option<Duration>,
    exempt: Vec<String>,
}

impl Rules {
    fn new(policy: &ServicePolicy) -> Arc<Self> {
        Arc::new(Self {
            deadline: policy.server_deadline,
            trust: policy.server_trust,
            holds_bodies: policy.server_holds_bodies,
            full_timeout: policy.server_full_timeout,
            exempt: policy.server_exempt.clone(),
        })
    }

    /// Whether a path is served whatever the load.
    #[inline]
    pub(super) fn exempts<'r>(&self, path: impl FnOnce() -> &'r str) -> bool {
        if self.exempt.is_empty() {
            return false;
        }
        let path = path();
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
    /// Responses whose bodies are being sent in several parts.
    sending: HashMap<Ticket, Weak<SendingPlace>>,
    /// When a request was last refused because no place is free.
    full_at: Option<Instant>,
    /// When stalled bodies were last looked for.
    searched_at: Option<Instant>,
}

enum Waiting {
    Asleep(Waker),
    Turn,
}

/// A request that was let in. Leaves by itself.
pub(super) struct Inside {
    shared: Arc<Shared>,
    entry: Option<Entry>,
    /// When the work on it began, where that is of use; never otherwise.
    began: Instant,
    /// How the work ended; `None` where it was given up.
    failed: Option<bool>,
    /// Whether it is of use to know how long a request takes that does not fail.
    measured: bool,
    /// When the handler had answered, where that is of use. Not when the body has ended: how fast a client reads is no evidence about
    /// the server's load.
    answered: Instant,
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
            sending: HashMap::new(),
            full_at: None,
            searched_at: None,
        };
        Self {
            clock,
            name: policy.name.clone(),
            handles: OnceLock::new(),
            version: AtomicU32::new(0),
            state: Apart(Mutex::new(state)),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    #[inline]
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

    /// Lets a request in. A full server takes the place of a response whose reader has stalled.
    #[inline(always)]
    pub(super) fn admit(self: &Arc<Self>, arrival: Arrival) -> Result<Inside, Refused> {
        match self.try_admit(arrival) {
            Ok(inside) => Ok(inside),
            Err(refused) => self.admit_again(arrival, refused),
        }
    }

    #[cold]
    fn admit_again(self: &Arc<Self>, arrival: Arrival, refused: Refused) -> Result<Inside, Refused> {
        if refused.reason == Reason::InFlight && self.release_stalled() {
            self.try_admit(arrival)
        } else {
            Err(refused)
        }
    }

    /// Frees the places of responses that were not read for as long as a full server allows. True where one was freed.
    fn release_stalled(&self) -> bool {
        let now = self.clock.now();
        let mut state = self.lock();
        state.full_at = Some(now);
        let Some(limit) = state.rules.full_timeout else {
            return false;
        };
        // A refusal has to be cheap: a server that refuses thousands a second does not search for each.
        let recently = |at| now.since(at) < (limit / 10).min(FULL_FOR);
        if state.sending.is_empty() || state.searched_at.is_some_and(recently) {
            return false;
        }
        state.searched_at = Some(now);
        let sending: Vec<_> = state.sending.values().filter_map(Weak::upgrade).collect();
        drop(state);
        let released = sending.iter().filter(|place| place.release(now, limit)).count();
        released > 0
    }

    fn is_full(&self) -> bool {
        let now = self.clock.now();
        self.lock().full_at.is_some_and(|at| now.since(at) < FULL_FOR)
    }

    /// Always part of its callers: what it returns is moved three times otherwise.
    #[inline(always)]
    fn try_admit(self: &Arc<Self>, arrival: Arrival) -> Result<Inside, Refused> {
        let now = self.clock.now();
        let mut state = self.lock();
        state.tickets += 1;
        let ticket = Ticket(state.tickets);
        let entry = match &mut state.shed {
            Some(shed) => Some(shed.admit(arrival, ticket, now, &mut Random)?),
            None => None,
        };
        let measured = state.shed.as_ref().is_some_and(Shed::counts_ends);
        let waits = entry.as_ref().is_some_and(Entry::must_wait);
        let began = if state.has_queue && !waits {
            now
        } else {
            Instant::NEVER
        };
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
            began,
            failed: None,
            measured,
            answered: Instant::NEVER,
        })
    }

    /// A request leaves whose work began then, ended so, and was answered then.
    fn leave(&self, entry: Entry, began: Instant, failed: Option<bool>, answered: Instant) {
        let took = (began != Instant::NEVER).then(|| self.clock.now().since(began));
        let mut state = self.lock();
        if !state.queue.is_empty() {
            state.queue.remove(&entry.ticket());
        }
        if !state.sending.is_empty() {
            state.sending.remove(&entry.ticket());
        }
        if let Some(shed) = &mut state.shed {
            if let Some(took) = took {
                shed.on_work_time(took);
            }
            if let Some(failed) = failed
                && answered != Instant::NEVER
            {
                shed.on_end(&entry, failed, answered);
            }
            shed.leave(entry);
            if state.has_queue {
                state.pass_turns();
            }
        }
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

    #[inline]
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

    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state.0)
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

/// The place of a response whose body is being sent. A server does not ask a body for more while the reader takes nothing,
/// so the body itself cannot notice that; the next request that is refused does.
pub(super) struct SendingPlace {
    held: Mutex<Held>,
}

struct Held {
    inside: Option<Inside>,
    progress: Instant,
}

impl SendingPlace {
    /// Registers the place of a response that is sent in several parts.
    pub(super) fn new(inside: Inside) -> Arc<Self> {
        let shared = Arc::clone(&inside.shared);
        let ticket = inside.entry.as_ref().map(Entry::ticket);
        let held = Held {
            inside: Some(inside),
            progress: shared.clock.now(),
        };
        let place = Arc::new(Self {
            held: Mutex::new(held),
        });
        // Without a bound no request is refused because no place is free.
        if let Some(ticket) = ticket {
            shared.lock().sending.insert(ticket, Arc::downgrade(&place));
        }
        place
    }

    /// The reader has taken a part.
    pub(super) fn progress(&self) {
        let mut held = self.lock();
        if let Some(inside) = &held.inside {
            held.progress = inside.shared.clock.now();
        }
    }

    fn release(&self, now: Instant, limit: Duration) -> bool {
        let mut held = self.lock();
        if now.since(held.progress) < limit {
            return false;
        }
        let inside = held.inside.take();
        // It leaves by the lock of the shared state, which is never taken under this one.
        drop(held);
        inside.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }
}

impl Inside {
    /// The work has ended, well or not.
    pub(super) fn end(&mut self, failed: bool) {
        self.failed = Some(failed);
        if failed || self.measured {
            self.answered = self.shared.clock.now();
        }
    }

    /// Whether requests are refused because no place is free at present.
    pub(super) fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    /// Counts this request as refused because it took too long while the server was full.
    pub(super) fn count_too_slow(&self, criticality: Criticality) {
        self.shared.count_shed("too-slow", criticality);
    }

    pub(super) fn must_wait(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::must_wait)
    }

    /// Waits for the request's turn.
    pub(super) fn poll_turn(&mut self, waker: &Waker) -> Poll<()> {
        let now = self.shared.clock.now();
        let Some(entry) = &mut self.entry else {
            return Poll::Ready(());
        };
        let ticket = entry.ticket();
        let mut state = self.shared.lock();
        match state.queue.get_mut(&ticket) {
            Some(Waiting::Turn) => {
                state.queue.remove(&ticket);
                if let Some(shed) = &mut state.shed {
                    shed.start(entry, now);
                }
                self.began = now;
                return Poll::Ready(());
            }
            Some(Waiting::Asleep(known)) => known.clone_from(waker),
            None => {
                state.queue.insert(ticket, Waiting::Asleep(waker.clone()));
            }
        }
        Poll::Pending
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.shared.leave(entry, self.began, self.failed, self.answered);
        }
        self.shared.handles().serving.decrement(1.0);
    }
}
