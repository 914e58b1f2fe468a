//! A batch at work: a few tasks publish its lanes side by side, and a lane that takes long does not hold up the rest.

use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    mem,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{
    Batch, BatchLane, BatchSettled, Claimed, Message, PartClaim, Publisher, Settings, Settled,
    lane::{self, Ended},
};
use crate::clock;

/// How long a batch may take before what is done is reported, and what still runs gets leases of its own. Most
/// batches end sooner. Longer, and the other keys of its parts wait for one slow event.
const SPLIT_AFTER: Duration = Duration::from_millis(100);

/// The token of a lane whose lease is the batch's. No lane has it, so it marks nothing by mistake.
const NO_TOKEN: i64 = -1;

/// How often, and for how long, a worker keeps the parts of a batch for the next one. Longer, and what waits in other parts
/// waits longer; shorter, and more statements only claim.
const KEPT_AT_MOST: u32 = 8;
const KEPT_FOR: Duration = Duration::from_millis(100);
/// The largest batch whose parts are kept. Fewer statements help where a statement costs more than its events. In a larger
/// batch the events cost more, and two connections report one batch and read the next at the same time.
const KEPT_EVENTS: usize = 400;

/// How long the parts of a batch have been the worker's.
#[derive(Clone, Copy)]
pub(super) struct LeaseTime {
    batches: u32,
    from: Instant,
}

impl LeaseTime {
    pub(super) fn new() -> Self {
        Self {
            batches: 1,
            from: clock::now(),
        }
    }

    /// Whether a batch of so many events may be followed by one of the same parts.
    pub(super) fn may_stay(self, events: usize) -> bool {
        events <= KEPT_EVENTS && self.batches < KEPT_AT_MOST && clock::now() < self.from + KEPT_FOR
    }

    pub(super) const fn longer(self) -> Self {
        Self {
            batches: self.batches + 1,
            from: self.from,
        }
    }
}

/// A batch that is being published.
pub(super) struct RunningBatch {
    shared: Arc<Shared>,
    parts: Vec<PartClaim>,
    /// How many events were claimed.
    pub(super) events: usize,
    pub(super) kept: LeaseTime,
    pub(super) lease_ends: Instant,
    pub(super) split_at: Instant,
}

/// Lanes that ran on when their batch was reported.
pub(super) struct Stragglers {
    shared: Arc<Shared>,
    lease_ends: Instant,
    /// None until the store has answered.
    tokens: Option<HashMap<String, i64>>,
}

struct Shared {
    progress: Mutex<Progress>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Progress {
    queue: VecDeque<BatchLane>,
    /// How many more tasks may take lanes.
    tasks_left: usize,
    /// How many lanes have been begun: each has its place in this order as its number, which is cheaper than its name.
    begun: u64,
    /// The lanes under way, and their parts.
    running: HashMap<u64, (i16, String)>,
    /// The lanes whose publisher panicked.
    panicked: Vec<(i16, String)>,
    published: Vec<i64>,
    failed: Vec<(i16, Settled)>,
    failures: u64,
    /// The lanes that have run on since the batch was reported, and those of them that have ended.
    stragglers: HashMap<u64, String>,
    late: Vec<Ended>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        // Nothing under the lock panics half-way.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningBatch {
    /// Publishes the lanes of a batch with at most as many tasks as `room` allows.
    pub(super) fn start<P: Publisher>(
        batch: Batch,
        lease_ends: Instant,
        room: usize,
        publisher: &Arc<P>,
        settings: &Arc<Settings>,
        stopping: &Arc<AtomicBool>,
        changed: Arc<Notify>,
    ) -> Self {
        let events = batch.lanes.iter().map(|lane| lane.events.len()).sum();
        let tasks = room.min(batch.lanes.len()).max(1);
        let shared = Arc::new(Shared {
            progress: Mutex::new(Progress {
                queue: batch.lanes.into(),
                tasks_left: tasks,
                ..Progress::default()
            }),
            changed,
        });
        if events == 0 {
            shared.changed.notify_one();
        }
        let context = BatchContext {
            shared: shared.clone(),
            lease_ends,
            publisher: publisher.clone(),
            settings: settings.clone(),
            stopping: stopping.clone(),
        };
        context.help();
        Self {
            shared,
            parts: batch.parts,
            events,
            kept: LeaseTime::new(),
            lease_ends,
            split_at: clock::now() + SPLIT_AFTER,
        }
    }

    /// Whether every lane has ended.
    pub(super) fn is_done(&self) -> bool {
        let progress = self.shared.lock();
        progress.queue.is_empty() && progress.running.is_empty()
    }

    /// Ends the batch: what was published and what failed, how many tries failed, and the lanes that run on, if any.
    pub(super) fn end(self) -> (BatchSettled, u64, Option<Stragglers>) {
        let mut progress = self.shared.lock();
        // What has not begun stays in the outbox.
        progress.queue.clear();
        let still = mem::take(&mut progress.running);
        let mut running: Vec<(i16, String)> = still.values().cloned().collect();
        let names = still.into_iter().map(|(number, (_, lane))| (number, lane));
        progress.stragglers = names.collect();
        running.append(&mut progress.panicked);
        let settled = BatchSettled {
            parts: self.parts,
            published: mem::take(&mut progress.published),
            failed: mem::take(&mut progress.failed),
            running,
            lease_left: self.lease_ends.saturating_duration_since(clock::now()),
        };
        let (failures, left) = (progress.failures, progress.stragglers.len());
        drop(progress);
        let stragglers = (left > 0).then_some(Stragglers {
            shared: self.shared,
            lease_ends: self.lease_ends,
            tokens: None,
        });
        (settled, failures, stragglers)
    }
}

impl Stragglers {
    /// What the store answered.
    pub(super) fn have(&mut self, tokens: &[(String, i64)]) {
        self.tokens = Some(tokens.iter().cloned().collect());
    }

    /// The lanes that have ended, once their leases are known.
    pub(super) fn ended(&self) -> Vec<Ended> {
        let Some(tokens) = &self.tokens else {
            return Vec::new();
        };
        let mut ended = mem::take(&mut self.shared.lock().late);
        for lane in &mut ended {
            lane.settled.token = tokens.get(&lane.settled.lane).copied().unwrap_or(NO_TOKEN);
        }
        ended
    }

    /// How many lanes run or are not taken up yet.
    pub(super) fn left(&self) -> usize {
        if clock::now() >= self.lease_ends {
            return 0;
        }
        let progress = self.shared.lock();
        progress.stragglers.len() + progress.late.len()
    }
}

/// How long a task publishes without help and without giving way while its publisher never waits. A publisher that computes uses
/// other cores then.
const ALONE: Duration = Duration::from_millis(1);

/// What the tasks of a batch have in common.
struct BatchContext<P> {
    shared: Arc<Shared>,
    lease_ends: Instant,
    publisher: Arc<P>,
    settings: Arc<Settings>,
    stopping: Arc<AtomicBool>,
}

impl<P> Clone for BatchContext<P> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            lease_ends: self.lease_ends,
            publisher: self.publisher.clone(),
            settings: self.settings.clone(),
            stopping: self.stopping.clone(),
        }
    }
}

impl<P: Publisher> BatchContext<P> {
    /// Starts another task where one may start. A task for every lane from the beginning would cost more than a publisher that
    /// only puts events into a buffer.
    fn help(&self) {
        let mut progress = self.shared.lock();
        if progress.tasks_left > 0 && !progress.queue.is_empty() {
            progress.tasks_left -= 1;
            drop(progress);
            tokio::spawn(publish(self.clone()));
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// One task of a batch: takes a lane after the other.
async fn publish<P: Publisher>(context: BatchContext<P>) {
    let mut alone_since = clock::now();
    while let Some((number, events)) = next(&context.shared, context.is_stopping()) {
        let mut watch = PanicGuard {
            context: &context,
            number: Some(number),
        };
        let claimed = Claimed {
            // It is known by its number until it has ended.
            lane: String::new(),
            token: NO_TOKEN,
            crashes: 0,
            events,
        };
        let stopping = || context.is_stopping();
        let mut lane = pin!(lane::publish(
            claimed,
            context.lease_ends,
            &*context.publisher,
            &context.settings,
            stopping
        ));
        let ended = match poll_fn(|context| Poll::Ready(lane.as_mut().poll(context))).await {
            Poll::Ready(ended) => ended,
            Poll::Pending => {
                context.help();
                lane.await
            }
        };
        watch.number = None;
        context.shared.on_end(number, ended);
        if clock::now() >= alone_since + ALONE {
            context.help();
            tokio::task::yield_now().await;
            alone_since = clock::now();
        }
    }
}

/// The next lane's number and events.
fn next(shared: &Shared, stopping: bool) -> Option<(u64, Vec<Message>)> {
    let mut progress = shared.lock();
    if stopping {
        progress.queue.clear();
    }
    let Some(BatchLane { lane, part, events }) = progress.queue.pop_front() else {
        if progress.running.is_empty() {
            shared.changed.notify_one();
        }
        return None;
    };
    progress.begun += 1;
    let number = progress.begun;
    progress.running.insert(number, (part, lane));
    Some((number, events))
}

impl Shared {
    fn on_end(&self, number: u64, mut ended: Ended) {
        let mut progress = self.lock();
        let Some((part, lane)) = progress.running.remove(&number) else {
            ended.settled.lane = progress.stragglers.remove(&number).unwrap_or_default();
            progress.late.push(ended);
            drop(progress);
            self.changed.notify_one();
            return;
        };
        progress.failures += ended.failed;
        progress.published.append(&mut ended.settled.published);
        if ended.settled.retry.is_some() || !ended.settled.parked.is_empty() {
            ended.settled.lane = lane;
            progress.failed.push((part, ended.settled));
        }
    }
}

/// Notices a publisher that panics: its lane gets a lease of its own, which runs out and is counted.
struct PanicGuard<'a, P: Publisher> {
    context: &'a BatchContext<P>,
    number: Option<u64>,
}

impl<P: Publisher> Drop for PanicGuard<'_, P> {
    fn drop(&mut self) {
        let Some(number) = self.number.take() else {
            return;
        };
        let shared = &self.context.shared;
        let mut progress = shared.lock();
        // The task ends with its publisher, and another takes its place.
        progress.tasks_left += 1;
        match progress.running.remove(&number) {
            Some(lane) => progress.panicked.push(lane),
            None => drop(progress.stragglers.remove(&number)),
        }
        drop(progress);
        shared.changed.notify_one();
        self.context.help();
    }
}
