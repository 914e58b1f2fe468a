//! The worker: claims lanes, publishes them side by side, tells the store how they went.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use retryguard_core::Chance as _;
use tokio::{
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
    time::Instant,
};

use super::{
    AfterParking, Batch, BatchReport, BatchSettled, OutboxStore, Publisher, Settings, SettingsError, Settled,
    Taken,
    batch::{Kept, RunningBatch, Stragglers},
    lane::{self, Ended},
    telemetry::Telemetry,
};
use crate::{StoreError, clean_up::BatchSize, clock};

/// The most events that are deleted at once, because a long delete would hold locks and undo information for as long, and the
/// most of one round of housekeeping.
const CLEAN_AT_ONCE: u32 = 1000;
const CLEAN_A_ROUND: u64 = 20_000;

/// Publishes the events of an outbox. Any number of them may work on one outbox, in any number of processes.
#[derive(Debug)]
pub struct Worker<S, P> {
    store: S,
    publisher: Arc<P>,
    settings: Arc<Settings>,
}

/// A worker under way. It goes on when this is dropped.
#[derive(Debug)]
pub struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops politely: no more events are begun, those under way are ended and told to the store. Takes no
    /// longer than publishing one event may, unless the database does not answer.
    pub async fn stop(self) {
        // Fails only when the worker has ended.
        let _ = self.stop.send(true);
        let _ = self.task.await;
    }
}

impl<S: OutboxStore, P: Publisher> Worker<S, P> {
    /// A worker that has not begun.
    ///
    /// # Errors
    /// Where a setting cannot work.
    pub fn new(store: S, publisher: P, settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self {
            store,
            publisher: Arc::new(publisher),
            settings: Arc::new(settings),
        })
    }

    /// Works in a task of its own.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn start(self) -> Running {
        let (stop, mut stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            self.run(async {
                // When the handle is dropped, the worker goes on.
                if stopped.wait_for(|stop| *stop).await.is_err() {
                    std::future::pending::<()>().await;
                }
            })
            .await;
        });
        Running { stop, task }
    }

    /// Works until `stop` ends, then ends politely as [`Running::stop`] says. Database failures do not end it:
    /// it tries again.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let telemetry = Telemetry::new(&self.settings.name);
        let beside = async { tokio::join!(self.housekeeping(&telemetry), self.store.listen()) };
        tokio::select! {
            () = self.work(&telemetry, stop) => {}
            _ = beside => {}
        }
    }

    async fn work(&self, telemetry: &Telemetry, stop: impl Future<Output = ()> + Send) {
        let mut round = Round {
            worker: self,
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
                () = self.store.woken(), if !stopping && round.may_be_woken() => round.look_at = clock::now(),
            }
        }
    }

    /// Deletes what is old enough and tells the gauges, now and then.
    async fn housekeeping(&self, telemetry: &Telemetry) {
        if self.settings.after_parking == AfterParking::GoOn {
            // It is tried again with every round until it has been done once.
            while let Err(error) = self.store.release_held().await {
                note(telemetry, &error, "releasing held keys");
                clock::sleep(self.jittered(self.settings.housekeeping)).await;
            }
        }
        let mut size = BatchSize::new(self.store.backend(), CLEAN_AT_ONCE);
        loop {
            if let Err(error) = self.store.follow_clock().await {
                note(telemetry, &error, "following the clock");
            }
            if let Err(error) = self.clean(telemetry, &mut size).await {
                note(telemetry, &error, "cleaning");
            }
            match self.store.counts().await {
                Ok(counts) => telemetry.on_counts(&counts),
                Err(error) => note(telemetry, &error, "counting"),
            }
            clock::sleep(self.jittered(self.settings.housekeeping)).await;
        }
    }

    async fn clean(&self, telemetry: &Telemetry, size: &mut BatchSize) -> Result<(), StoreError> {
        // Not longer than the time between two rounds, so that the gauges are told on a slow disk too.
        let end = clock::now() + self.settings.housekeeping;
        let mut all = 0;
        while all < CLEAN_A_ROUND && clock::now() < end {
            let from = clock::now();
            let cleaned = self.store.clean(self.settings.keep, size.rows()).await?;
            telemetry.cleaned.increment(cleaned);
            all += cleaned;
            let Some(pause) = size.deleted(cleaned, clock::now() - from) else {
                break;
            };
            clock::sleep(pause).await;
        }
        Ok(())
    }

    /// Between half of it and the whole, so that workers which started together do not look together.
    fn jittered(&self, span: Duration) -> Duration {
        span / 2 + clock::Random.up_to(span / 2)
    }
}

/// What a worker has in hand.
struct Round<'a, S, P> {
    worker: &'a Worker<S, P>,
    telemetry: &'a Telemetry,
    running: JoinSet<Ended>,
    /// Lanes that the store has not been told of yet.
    unsettled: Vec<Ended>,
    batch: Option<RunningBatch>,
    /// Batches that the store has not been told of yet, in the order in which they ended.
    reports: VecDeque<Report>,
    /// Lanes that ran on when their batch was reported.
    stragglers: Vec<Stragglers>,
    /// Notified when a batch or a straggler has ended.
    changed: Arc<Notify>,
    /// When exceptions are next looked for while there are batches.
    exceptions_at: Instant,
    batch_lease_ends: Instant,
    stopping: Arc<AtomicBool>,
    /// When the store is next asked for work, or told again after it did not listen.
    look_at: Instant,
    /// How often the store has failed in a row.
    errors: u32,
}

impl<S: OutboxStore, P: Publisher> Round<'_, S, P> {
    /// Whether more may be claimed: while the store cannot be told of what ended, it is not asked.
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

    /// Reports a batch; what still runs gets leases of its own. Where there is a backlog, the next batch is claimed at the same
    /// time: of the same parts by the same statement, or of others while the store is told of this one.
    async fn end_batch(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let lease_ends = batch.lease_ends;
        let (events, kept) = (batch.events, batch.kept);
        let was_large = events * 2 >= self.worker.settings.batch as usize;
        let (settled, failures, stragglers) = batch.end();
        let was_published = settled.is_published(events);
        self.reports.push_back(Report {
            settled,
            failures,
            lease_ends,
            stragglers,
        });
        let goes_on = was_large && self.errors == 0 && self.reports.len() == 1 && self.room() > 0;
        if !goes_on || self.stopping.load(Ordering::Relaxed) {
            return self.settle_batches().await;
        }
        let Some(report) = self.next_report() else { return };
        if was_published && kept.may_stay(events) {
            return self.go_on(report, kept).await;
        }
        let (worker, keep) = (self.worker, self.keeps());
        let (answer, taken) = tokio::join!(
            worker.store.settle_batch(&report.settled, keep),
            self.claim_batch()
        );
        self.on_report(report, answer);
        match taken {
            Ok(taken) => self.start_next(taken),
            Err(error) => self.on_error(&error, "claiming"),
        }
    }

    /// Reports a batch and takes the next of the same parts.
    async fn go_on(&mut self, report: Report, kept: Kept) {
        let (worker, settings) = (self.worker, &self.worker.settings);
        self.batch_lease_ends = clock::now() + settings.lease;
        let answer = worker
            .store
            .settle_and_go_on(&report.settled, self.keeps(), settings.batch, settings.lease)
            .await;
        match answer {
            Ok((answer, taken)) => {
                self.on_report(report, Ok(answer));
                self.start_next(taken);
                if let Some(batch) = &mut self.batch {
                    batch.kept = kept.longer();
                }
            }
            Err(error) => {
                self.on_report(report, Err(error));
            }
        }
    }

    fn start_next(&mut self, taken: Taken) {
        if let Taken::Batch(batch) = taken {
            self.start(batch);
            self.look_at = self.exceptions_at;
        }
    }

    fn keeps(&self) -> bool {
        !self.worker.settings.keep.is_zero()
    }

    async fn settle_batches(&mut self) {
        while let Some(report) = self.next_report() {
            let answer = self
                .worker
                .store
                .settle_batch(&report.settled, self.keeps())
                .await;
            if !self.on_report(report, answer) {
                return;
            }
        }
    }

    /// The first batch that the store can still be told of.
    fn next_report(&mut self) -> Option<Report> {
        while let Some(report) = self.reports.pop_front() {
            if clock::now() < report.lease_ends {
                return Some(report);
            }
            // It belongs to another worker: telling of it would change nothing.
            self.telemetry.lost.increment(report.settled.parts.len() as u64);
        }
        None
    }

    /// Takes up what the store answered; false where it has to be told again.
    fn on_report(&mut self, mut report: Report, answer: Result<BatchReport, StoreError>) -> bool {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.reports.push_front(report);
                self.on_error(&error, "settling");
                return false;
            }
        };
        self.errors = 0;
        self.look_at = clock::now();
        let failed = report.settled.failed.iter();
        let parked: usize = failed.map(|(_, lane)| lane.parked.len()).sum();
        self.telemetry.lost.increment(answer.lost as u64);
        self.telemetry.failed.increment(report.failures);
        let published = report.settled.published.len();
        self.telemetry.published.increment(published as u64);
        self.telemetry.given_up.increment(parked as u64);
        if let Some(mut stragglers) = report.stragglers.take() {
            stragglers.have(&answer.tokens);
            self.stragglers.push(stragglers);
        }
        true
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

    /// Takes up what has ended, and what ends within a moment: they are told in one transaction, and a transaction
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

/// A batch that has ended and is not told of yet.
struct Report {
    settled: BatchSettled,
    failures: u64,
    lease_ends: Instant,
    stragglers: Option<Stragglers>,
}

/// How soon a worker looks again when others have the parts in which something may wait.
const BUSY: Duration = Duration::from_millis(50);

/// How often exceptions are looked for while there are batches to publish.
const EXCEPTIONS: Duration = Duration::from_millis(50);

/// How long a lane that has ended waits for others, so that they are told together.
const GATHER: Duration = Duration::from_millis(3);

/// The longest wait before a database that failed is asked again.
const LONGEST_WAIT_FOR_STORE: Duration = Duration::from_secs(2);

fn note(telemetry: &Telemetry, error: &StoreError, doing: &str) {
    telemetry.errors.increment(1);
    tracing::warn!(target: "retryguard", %error, doing, "outbox store");
}
