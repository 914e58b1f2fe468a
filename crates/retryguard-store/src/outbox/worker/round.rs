//! What one worker has in hand: it claims, publishes and reports until it is stopped.

mod reports;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::JoinSet, time::Instant};

use super::{
    super::{
        Batch, OutboxStore, Publisher, Settings, Settled, Taken,
        batch::{RunningBatch, Stragglers},
        lane::{self, Ended},
        telemetry::Telemetry,
    },
    Worker, note,
};
use crate::{StoreError, clock};
use reports::Report;

/// How soon a worker looks again when others have the parts in which something may wait.
const BUSY: Duration = Duration::from_millis(50);

/// How often exceptions are looked for while there are batches to publish.
const EXCEPTIONS: Duration = Duration::from_millis(50);

/// How long a lane that has ended waits for others, so that they are reported together.
const GATHER: Duration = Duration::from_millis(3);

/// The longest wait before a database that failed is asked again.
const LONGEST_WAIT_FOR_STORE: Duration = Duration::from_secs(2);

/// Works until `stop` ends, and then until what was begun is published and reported.
pub(super) async fn work<S: OutboxStore, P: Publisher>(
    worker: &Worker<S, P>,
    telemetry: &Telemetry,
    stop: impl Future<Output = ()> + Send,
) {
    let mut round = Round {
        worker,
        telemetry,
        running: JoinSet::new(),
        unsettled: Vec::new(),
        batch: None,
        reports: VecDeque::new(),
        stragglers: Vec::new(),
        changed: Arc::default(),
        exceptions_at: clock::now(),
        batch_lease_ends: clock::now(),
        stopping: Arc::new(AtomicBool::new(false)),
        look_at: clock::now(),
        errors: 0,
    };
    let mut stop = std::pin::pin!(stop);
    loop {
        let stopping = round.stopping.load(Ordering::Relaxed);
        round.take_late();
        if stopping && round.is_done() {
            return;
        }
        if !stopping && round.has_room() && clock::now() >= round.look_at {
            round.look().await;
        }
        let (look_at, split_at) = (round.look_at, round.split_at());
        let changed = round.changed.clone();
        tokio::select! {
            biased;
            () = &mut stop, if !stopping => round.stopping.store(true, Ordering::Relaxed),
            () = changed.notified() => round.on_change().await,
            () = clock::sleep_until(split_at), if round.batch.is_some() => round.end_batch().await,
            Some(ended) = round.running.join_next(), if !round.running.is_empty() => {
                round.gather(ended.ok()).await;
                round.settle().await;
            }
            () = clock::sleep_until(look_at), if round.owes() => round.settle().await,
            () = clock::sleep_until(look_at), if !stopping && round.has_room() => {}
            () = worker.store.woken(), if !stopping && round.may_be_woken() => round.look_at = clock::now(),
        }
    }
}

/// What a worker has in hand.
struct Round<'a, S, P> {
    worker: &'a Worker<S, P>,
    telemetry: &'a Telemetry,
    running: JoinSet<Ended>,
    /// Lanes that the store has not been notified of yet.
    unsettled: Vec<Ended>,
    batch: Option<RunningBatch>,
    /// Batches that the store has not been notified of yet, in the order in which they ended.
    reports: VecDeque<Report>,
    /// Lanes that ran on when their batch was reported.
    stragglers: Vec<Stragglers>,
    /// Notified when a batch or a straggler has ended.
    changed: Arc<Notify>,
    /// When exceptions are next looked for while there are batches.
    exceptions_at: Instant,
    batch_lease_ends: Instant,
    stopping: Arc<AtomicBool>,
    /// When the store is next asked for work, or the report is repeated after it failed.
    look_at: Instant,
    /// How often the store has failed in a row.
    errors: u32,
}

impl<S: OutboxStore, P: Publisher> Round<'_, S, P> {
    /// Whether more may be claimed: while the store cannot be notified of what ended, it is not asked.
    fn has_room(&self) -> bool {
        !self.owes() && self.room() > 0
    }

    fn owes(&self) -> bool {
        !self.unsettled.is_empty() || !self.reports.is_empty()
    }

    fn room(&self) -> usize {
        let stragglers: usize = self.stragglers.iter().map(Stragglers::left).sum();
        (self.worker.settings.concurrency as usize).saturating_sub(self.running.len() + stragglers)
    }

    fn is_done(&self) -> bool {
        let left: usize = self.stragglers.iter().map(Stragglers::left).sum();
        self.running.is_empty() && !self.owes() && self.batch.is_none() && left == 0
    }

    fn may_be_woken(&self) -> bool {
        self.has_room() && self.batch.is_none() && self.errors == 0
    }

    fn split_at(&self) -> Instant {
        self.batch.as_ref().map_or(self.look_at, |batch| batch.split_at)
    }

    /// Takes up lanes that ran on after their batch and have ended now.
    fn take_late(&mut self) {
        for stragglers in &self.stragglers {
            self.unsettled.extend(stragglers.ended());
        }
        self.stragglers.retain(|stragglers| stragglers.left() > 0);
    }

    async fn on_change(&mut self) {
        if self.batch.as_ref().is_some_and(RunningBatch::is_done) {
            self.end_batch().await;
        }
        self.take_late();
        if !self.unsettled.is_empty() {
            self.settle().await;
        }
    }

    fn keeps(&self) -> bool {
        !self.worker.settings.keep.is_zero()
    }

    /// Asks the store for work.
    async fn look(&mut self) {
        let mut taken = Taken::Busy;
        if self.batch.is_none() {
            taken = match self.claim_batch().await {
                Ok(taken) => taken,
                Err(error) => return self.on_error(&error, "claiming"),
            };
        }
        let started = matches!(taken, Taken::Batch(_));
        if let Taken::Batch(batch) = taken {
            self.start(batch);
        } else if self.batch.is_none() {
            let wait = if taken == Taken::Busy {
                BUSY.min(self.worker.settings.poll)
            } else {
                self.worker.settings.poll
            };
            self.look_at = clock::now() + self.worker.jittered(wait);
        }
        let now = clock::now();
        if !started || now >= self.exceptions_at {
            self.exceptions_at = now + EXCEPTIONS;
            self.claim().await;
        }
        if self.batch.is_some() {
            self.look_at = now + EXCEPTIONS;
        }
    }

    async fn claim_batch(&mut self) -> Result<Taken, StoreError> {
        let settings = &self.worker.settings;
        self.batch_lease_ends = clock::now() + settings.lease;
        let taken = self
            .worker
            .store
            .claim_batch(settings.batch, settings.lease)
            .await?;
        self.errors = 0;
        Ok(taken)
    }

    fn start(&mut self, batch: Batch) {
        let worker = self.worker;
        self.batch = Some(RunningBatch::start(
            batch,
            self.batch_lease_ends,
            self.room(),
            &worker.publisher,
            &worker.settings,
            &self.stopping,
            self.changed.clone(),
        ));
    }

    async fn claim(&mut self) {
        let settings = &self.worker.settings;
        let room = u32::try_from(self.room()).unwrap_or(u32::MAX);
        if room == 0 {
            return;
        }
        // From before the question: the lease has begun no earlier than this.
        let lease_ends = clock::now() + settings.lease;
        match self
            .worker
            .store
            .claim_exceptions(room, settings.batch, settings.lease)
            .await
        {
            Ok(lanes) => {
                self.errors = 0;
                if !lanes.is_empty() {
                    // There may be more.
                    self.look_at = clock::now();
                }
                for claimed in lanes {
                    let (publisher, settings) = (self.worker.publisher.clone(), settings.clone());
                    let stopping = self.stopping.clone();
                    self.running.spawn(async move {
                        let stopping = || stopping.load(Ordering::Relaxed);
                        lane::publish(claimed, lease_ends, &*publisher, &settings, stopping).await
                    });
                }
            }
            Err(error) => self.on_error(&error, "claiming"),
        }
    }

    /// Takes up what has ended, and what ends within a moment: they are reported in one transaction, and a transaction
    /// waits for the disk.
    async fn gather(&mut self, first: Option<Ended>) {
        self.unsettled.extend(first);
        let end = clock::now() + GATHER;
        while let Ok(Some(ended)) = tokio::time::timeout_at(end, self.running.join_next()).await {
            // A publisher that panicked has lost its lane: the lease gives it back, and counts it as a crash.
            self.unsettled.extend(ended.ok());
        }
    }

    /// Tells the store of every lane that has ended, in one transaction.
    async fn settle(&mut self) {
        self.settle_batches().await;
        let now = clock::now();
        // Whose lease has run out belongs to another: telling of it would change nothing.
        let before = self.unsettled.len();
        self.unsettled.retain(|ended| now < ended.lease_ends);
        self.telemetry
            .lost
            .increment((before - self.unsettled.len()) as u64);
        if self.unsettled.is_empty() {
            return;
        }
        let lanes: Vec<Settled> = self.unsettled.iter().map(|ended| ended.settled.clone()).collect();
        match self.worker.store.settle(&lanes, self.keeps()).await {
            Ok(lost) => {
                self.errors = 0;
                self.look_at = clock::now();
                self.telemetry.lost.increment(lost as u64);
                for ended in self.unsettled.drain(..) {
                    self.telemetry.failed.increment(ended.failed);
                    self.telemetry
                        .published
                        .increment(ended.settled.published.len() as u64);
                    self.telemetry
                        .given_up
                        .increment(ended.settled.parked.len() as u64);
                }
            }
            Err(error) => self.on_error(&error, "settling"),
        }
    }

    fn on_error(&mut self, error: &StoreError, doing: &str) {
        note(self.telemetry, error, doing);
        self.errors = self.errors.saturating_add(1);
        let backoff = &self.worker.settings.backoff;
        let wait = backoff
            .delay(self.errors, Duration::ZERO, &mut clock::Random)
            .unwrap_or(backoff.cap)
            // However long an event may wait for its next try, a database that is back is to be noticed.
            .clamp(Settings::SHORTEST_POLL, LONGEST_WAIT_FOR_STORE);
        self.look_at = clock::now() + wait;
    }
}
