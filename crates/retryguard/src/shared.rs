//! The state that all clones of a layer's services share, behind one short lock.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex as StdMutex, OnceLock, PoisonError, Weak, atomic::Ordering},
    task::{Poll, Waker},
    time::Duration,
};

use retryguard_core::{
    Chance, Failure, FailureKind, Instant, Target, breaker,
    bulkhead::Ticket,
    callers::Callers,
    gate::{Gate, Scope},
    guard::{self, WallClock},
    target::Change,
    time::nanos,
};
use retryguard_policy::Service;

use crate::{
    clock::{self, Clock, Random},
    observer::{CallEvent, CallObserver},
    sync::{Apart, AtomicU32, Mutex, MutexGuard, lock},
    telemetry::{Counts, Telemetry},
};

/// One target: its policy, its machines and its telemetry.
///
/// It lives in the layer and not in the service, because frameworks call `Layer::layer` more than once, some
/// for every request: a breaker that is born with each request never opens.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    name: String,
    /// The guard's state before the first call, which no change tells of.
    first_guard: guard::State,
    telemetry: OnceLock<Telemetry>,
    observer: OnceLock<Observer>,
    calls: OnceLock<Box<dyn CallObserver>>,
    back_off: OnceLock<BackOff>,
    /// Grows with every policy, so that a service sees with one load that its own copy is old.
    version: AtomicU32,
    state: Apart<Mutex<State>>,
}

/// What receives the breaker's own changes.
pub(crate) type Observer = Box<dyn Fn(breaker::State) + Send + Sync>;

/// Chooses the delay before a retry: by its number and the policy's own delay.
pub(crate) type BackOff = Box<dyn Fn(u32, Duration) -> Duration + Send + Sync>;

/// Draws for the calls of a target, and says how long they back off.
pub(crate) struct Draws<'a>(pub(crate) &'a Shared);

impl Chance for Draws<'_> {
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        Random.below(bound)
    }

    #[inline]
    fn delay(&mut self, retry: u32, policy: u64) -> u64 {
        match self.0.back_off.get() {
            Some(back_off) => nanos(back_off(retry, Duration::from_nanos(policy))),
            None => policy,
        }
    }
}

pub(crate) struct State {
    pub(crate) target: Target,
    policy: Arc<Service>,
    tickets: u64,
    /// Whose own allowance is used up at the target.
    callers: Callers,
    /// A number made of the target's name.
    salt: u64,
    /// When something is due that is not done with every call: the earlier one of the next two.
    due: Instant,
    wall_clock_due: Instant,
    report_due: Instant,
    /// Calls that have begun and not ended, and how many of them the metrics know of.
    under_way: u32,
    reported: u32,
    /// Calls that have succeeded at once and that the metrics do not know of.
    clean: u64,
    /// Which reporter is the present one.
    reporter: u32,
    /// Calls that wait for a place, and those that have been given one and not yet noticed.
    queue: HashMap<Ticket, Waiting>,
}

/// How often counts are reported. A scrape of the metrics comes every 10 s or so.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How often the wall clock is read. NTP steps it rarely, and slews it by 30 ms a minute at most.
const WALL_CLOCK_EVERY: Duration = Duration::from_secs(60);

/// A number made of a target's name, the same in every process: the 64-bit FNV-1a hash.
fn salt(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

enum Waiting {
    Asleep(Waker),
    Granted,
}

impl Shared {
    pub(crate) fn new(policy: Arc<Service>) -> Self {
        let clock = Clock::start();
        let now = clock.now();
        let mut state = State {
            target: Target::new(policy.target.clone(), now),
            tickets: 0,
            callers: Callers::default(),
            salt: salt(&policy.name),
            due: Instant::ZERO,
            wall_clock_due: now,
            report_due: Instant::ZERO,
            under_way: 0,
            reported: 0,
            clean: 0,
            reporter: 0,
            queue: HashMap::new(),
            policy,
        };
        state.read_wall_clock(&clock, now);
        Self {
            name: state.policy.name.clone(),
            first_guard: state.target.guard_state(),
            telemetry: OnceLock::new(),
            observer: OnceLock::new(),
            calls: OnceLock::new(),
            back_off: OnceLock::new(),
            version: AtomicU32::new(0),
            state: Apart(Mutex::new(state)),
            clock,
        }
    }

    /// The target of a policy's service: the one that another layer of the same service of the same policy has, or a new
    /// one. Two clients of one service that each had a state of their own would each need to be burnt before they
    /// learn, and would overwrite each other's gauges.
    pub(crate) fn of(policy: Arc<Service>) -> Arc<Self> {
        /// Which policy, by its settings (the clones of a policy share them), and which service. The settings are kept, so
        /// that no other policy gets their address.
        type Known = Vec<(Arc<retryguard_core::target::Settings>, Weak<Shared>)>;
        /// The targets by their names, and how many names there may be before those without a layer are looked for:
        /// a program with a target for each of its tenants would otherwise search all of them with each new one.
        static KNOWN: StdMutex<(BTreeMap<String, Known>, usize)> = StdMutex::new((BTreeMap::new(), 0));
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, most) = &mut *known;
        let forget = |layers: &mut Known| {
            layers.retain(|(_, shared)| shared.strong_count() > 0);
            !layers.is_empty()
        };
        if known.len() >= *most {
            known.retain(|_, layers| forget(layers));
            *most = 2 * known.len() + 8;
        }
        let layers = known.entry(policy.name.clone()).or_default();
        forget(layers);
        let same = layers
            .iter()
            .filter(|(settings, _)| Arc::ptr_eq(settings, &policy.target))
            .find_map(|(_, shared)| shared.upgrade());
        same.unwrap_or_else(|| {
            let settings = policy.target.clone();
            let shared = Arc::new(Self::new(policy));
            layers.push((settings, Arc::downgrade(&shared)));
            shared
        })
    }

    #[inline]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The metric handles. Made with the first call and not with the layer, because layers are often built
    /// before the program has installed its recorder.
    #[inline]
    pub(crate) fn telemetry(&self) -> &Telemetry {
        self.telemetry
            .get_or_init(|| Telemetry::new(&self.name, self.first_guard))
    }

    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn policy(&self) -> (u32, Arc<Service>) {
        let state = self.lock();
        (self.version(), state.policy.clone())
    }

    /// Puts a new policy in force, for calls under way too.
    pub(crate) fn replace(&self, policy: Arc<Service>) {
        let now = self.clock.now();
        self.with(|state| {
            state.target.replace(policy.target.clone(), now);
            state.policy = policy;
            self.version.fetch_add(1, Ordering::Release);
        });
    }

    /// Tells operators how much retries add at present, where the guard measures it.
    #[cold]
    pub(crate) fn tell_gain(&self) {
        if let Some(gain) = self.lock().target.gain() {
            self.telemetry().on_gain(&self.name, gain);
        }
    }

    /// Reports what was counted, and goes on to do so every second while there is something to report. Without a
    /// runtime, as in a loop that polls by hand, the calls themselves do it.
    #[cold]
    pub(crate) fn report(self: &Arc<Self>, due: Due) {
        self.telemetry().report(due.counts);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let reporter = Reporter {
            target: Arc::downgrade(self),
            number: due.reporter,
        };
        runtime.spawn(reporter.run());
    }

    /// Whether there may be more for this reporter to report later, unless it was the `last` time. The next call begins anew
    /// if not.
    fn report_again(&self, reporter: u32, last: bool) -> bool {
        let now = self.clock.now();
        let mut state = self.lock();
        if state.reporter != reporter {
            return false;
        }
        let counts = state.take_counts(now);
        let goes_on = !last && (state.under_way > 0 || counts != Counts::default());
        if !goes_on {
            state.report_due = Instant::ZERO;
            state.due = Instant::ZERO;
        }
        drop(state);
        self.telemetry().report(counts);
        goes_on
    }

    /// Runs one input of a machine under the lock, then wakes the calls that were given a place and reports what changed.
    #[inline]
    pub(crate) fn with<R>(&self, input: impl FnOnce(&mut State) -> R) -> R {
        let mut locked = Locked {
            shared: self,
            state: Some(self.lock()),
        };
        // The last expression, so that a large result is not moved: what comes afterwards is in the drop.
        match &mut locked.state {
            Some(state) => input(state),
            None => unreachable!("taken only in the drop"),
        }
    }

    /// Changes the target outside its calls. The change is reported to operators, and not to the observer, which
    /// asked for it.
    pub(crate) fn force(&self, input: impl FnOnce(&mut Target)) {
        let mut state = self.lock();
        input(&mut state.target);
        self.tell(state);
    }

    /// False where there is an observer already.
    pub(crate) fn observe(&self, observer: Observer) -> bool {
        self.observer.set(observer).is_ok()
    }

    /// False where there is an observer already.
    pub(crate) fn observe_calls(&self, observer: Box<dyn CallObserver>) -> bool {
        self.calls.set(observer).is_ok()
    }

    /// False where there is such a function already.
    pub(crate) fn back_off_by(&self, back_off: BackOff) -> bool {
        self.back_off.set(back_off).is_ok()
    }

    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.calls.get().is_some()
    }

    /// Tells the observer of a call, where there is one.
    #[inline]
    pub(crate) fn notify(&self, event: impl FnOnce() -> CallEvent) {
        if let Some(observer) = self.calls.get() {
            observer.on_event(&self.name, &event());
        }
    }

    #[cold]
    fn carry_out(&self, state: MutexGuard<'_, State>) {
        let changes = self.tell(state);
        if let Some(observer) = self.observer.get() {
            for change in changes {
                if let Change::Breaker { to, .. } = change {
                    observer(to);
                }
            }
        }
    }

    fn tell(&self, mut state: MutexGuard<'_, State>) -> Vec<Change> {
        let (woken, changes) = state.take_effects();
        let (share, gain) = (state.target.guard_share(), state.target.gain());
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        changes
            .iter()
            .for_each(|change| self.telemetry().on_change(&self.name, change, share));
        if let Some(gain) = gain
            && !changes.is_empty()
        {
            self.telemetry().on_gain(&self.name, gain);
        }
        changes
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state.0)
    }
}

/// The last counts are not lost with the target.
impl Drop for Shared {
    fn drop(&mut self) {
        let counts = self.lock().take_counts(Instant::NEVER);
        if let Some(telemetry) = self.telemetry.get() {
            telemetry.report(counts);
        }
    }
}

/// Reports the counts of a target every second.
struct Reporter {
    target: Weak<Shared>,
    number: u32,
}

impl Reporter {
    async fn run(self) {
        loop {
            clock::sleep(REPORT_EVERY).await;
            let Some(target) = self.target.upgrade() else {
                return;
            };
            if !target.report_again(self.number, false) {
                return;
            }
        }
    }
}

/// Its runtime may end before the target does, and with it the program.
impl Drop for Reporter {
    fn drop(&mut self) {
        if let Some(target) = self.target.upgrade() {
            target.report_again(self.number, true);
        }
    }
}

/// Counts that are due to be reported, and by whom from then on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    counts: Counts,
    reporter: u32,
}

/// The state under its lock. Carries the effects of what was done to it out when it is unlocked.
struct Locked<'a> {
    shared: &'a Shared,
    state: Option<MutexGuard<'a, State>>,
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(state) = self.state.take()
            && state.target.has_effects()
        {
            self.shared.carry_out(state);
        }
    }
}

impl State {
    #[inline]
    pub(crate) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// A call begins. Gives what is to be reported, where that is due.
    #[inline]
    pub(crate) fn on_begin(&mut self, clock: &Clock, now: Instant) -> Option<Due> {
        self.under_way += 1;
        if now < self.due {
            return None;
        }
        self.do_what_is_due(clock, now)
    }

    /// A call has ended, in whatever way.
    #[inline]
    pub(crate) fn on_end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// A call has ended with the success of its first attempt.
    #[inline]
    pub(crate) fn on_clean_end(&mut self) {
        self.on_end();
        self.clean += 1;
    }

    #[cold]
    fn do_what_is_due(&mut self, clock: &Clock, now: Instant) -> Option<Due> {
        if now >= self.wall_clock_due {
            self.read_wall_clock(clock, now);
        }
        let due = (now >= self.report_due).then(|| {
            self.reporter = self.reporter.wrapping_add(1);
            Due {
                counts: self.take_counts(now),
                reporter: self.reporter,
            }
        });
        self.due = self.wall_clock_due.min(self.report_due);
        due
    }

    /// What is to be reported. The next call does it only if no reporter comes before.
    fn take_counts(&mut self, now: Instant) -> Counts {
        self.report_due = now.after(2 * REPORT_EVERY);
        self.due = self.wall_clock_due.min(self.report_due);
        Counts {
            under_way: i64::from(self.under_way)
                - i64::from(std::mem::replace(&mut self.reported, self.under_way)),
            clean: std::mem::take(&mut self.clean),
        }
    }

    /// Reads the wall clock again: the clients of a target measure together what retries add, by a clock that is corrected
    /// from time to time.
    #[cold]
    fn read_wall_clock(&mut self, clock: &Clock, now: Instant) {
        let salt = self.salt;
        let wall_clock = clock.unix_offset().map(|offset| WallClock { offset, salt });
        self.target.set_clock(wall_clock);
        self.wall_clock_due = now.after(WALL_CLOCK_EVERY);
    }

    /// Whether there is a caller that has met a limit of its own.
    #[inline]
    pub(crate) fn holds_callers(&self) -> bool {
        !self.callers.is_empty()
    }

    /// How long a caller should stay away that has met a limit of its own, spread as the gate spreads its waits.
    #[inline]
    pub(crate) fn held(&mut self, caller: impl FnOnce() -> u64, now: Instant) -> Option<Duration> {
        if self.callers.is_empty() {
            return None;
        }
        let wait = self.callers.holds(caller(), now)?;
        Some(Gate::new(self.target.settings().gate).jittered(wait, &mut Random))
    }

    /// Remembers that a caller has met a limit of its own.
    #[cold]
    pub(crate) fn hold(&mut self, failure: &Failure, caller: impl FnOnce() -> u64, now: Instant) {
        let gate = &self.target.settings().gate;
        if let Some(wait) = failure.hints.retry_after
            && gate.scope == Scope::Target
            && failure.kind == FailureKind::Overload
        {
            self.callers.hold(caller(), wait.min(gate.at_most), now);
        }
    }

    /// Whether a waiting call has been given its place; remembers the task to wake otherwise.
    pub(crate) fn poll_place(&mut self, ticket: Ticket, waker: &Waker) -> Poll<()> {
        match self.queue.get_mut(&ticket) {
            Some(Waiting::Granted) => {
                self.queue.remove(&ticket);
                return Poll::Ready(());
            }
            Some(Waiting::Asleep(known)) => known.clone_from(waker),
            None => {
                self.queue.insert(ticket, Waiting::Asleep(waker.clone()));
            }
        }
        Poll::Pending
    }

    /// A call no longer waits.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        self.queue.remove(&ticket);
    }

    fn take_effects(&mut self) -> (Vec<Waker>, Vec<Change>) {
        let mut woken = Vec::new();
        while let Some(ticket) = self.target.next_granted() {
            if let Some(Waiting::Asleep(waker)) = self.queue.insert(ticket, Waiting::Granted) {
                woken.push(waker);
            }
        }
        (woken, self.target.changes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes of different builds must agree on the slots of a target: these numbers stay as they are.
    #[test]
    fn the_salt_of_a_name_is_fnv_1a() {
        assert_eq!(salt(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(salt("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(salt("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_place_that_is_granted_before_the_call_asks_is_not_lost() {
        let shared = Shared::new(retryguard_policy::Policy::default().service("a"));
        let ticket = Ticket(1);
        shared.with(|state| {
            state.queue.insert(ticket, Waiting::Granted);
            assert!(state.poll_place(ticket, Waker::noop()).is_ready());
            assert!(state.poll_place(ticket, Waker::noop()).is_pending());
            state.forget(ticket);
            assert!(state.queue.is_empty());
        });
    }
}
