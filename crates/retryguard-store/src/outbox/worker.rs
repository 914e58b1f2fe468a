//! The worker: claims lanes, publishes them side by side, tells the store how they went.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use retryguard_core::Chance as _;
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::Instant,
};

use super::{
    AfterParking, OutboxStore, Publisher, Settings, SettingsError, Settled,
    lane::{self, Ended},
    telemetry::Telemetry,
};
use crate::{StoreError, clock};

/// The most events that one round of housekeeping deletes, and in how many steps: a long delete would hold
/// locks and undo information for as long.
const CLEAN_AT_ONCE: u32 = 1000;
const CLEAN_STEPS: u32 = 20;

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
                // Whoever drops the handle lets the worker go on.
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
            stopping: Arc::new(AtomicBool::new(false)),
            look_at: clock::now(),
            errors: 0,
        };
        let mut stop = std::pin::pin!(stop);
        loop {
            let stopping = round.stopping.load(Ordering::Relaxed);
            if stopping && round.running.is_empty() && round.unsettled.is_empty() {
                return;
            }
            if !stopping && round.has_room() && clock::now() >= round.look_at {
                round.claim().await;
            }
            tokio::select! {
                biased;
                () = &mut stop, if !stopping => round.stopping.store(true, Ordering::Relaxed),
                Some(ended) = round.running.join_next(), if !round.running.is_empty() => {
                    round.gather(ended.ok()).await;
                    round.settle().await;
                }
                () = clock::sleep_until(round.look_at), if !round.unsettled.is_empty() => round.settle().await,
                () = clock::sleep_until(round.look_at), if !stopping && round.has_room() => {}
                () = self.store.woken(), if !stopping && round.has_room() && round.errors == 0 => {
                    round.look_at = clock::now();
                }
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
        loop {
            if let Err(error) = self.clean(telemetry).await {
                note(telemetry, &error, "cleaning");
            }
            match self.store.counts().await {
                Ok(counts) => telemetry.on_counts(&counts),
                Err(error) => note(telemetry, &error, "counting"),
            }
            clock::sleep(self.jittered(self.settings.housekeeping)).await;
        }
    }

    async fn clean(&self, telemetry: &Telemetry) -> Result<(), StoreError> {
        for _ in 0..CLEAN_STEPS {
            let cleaned = self.store.clean(self.settings.keep, CLEAN_AT_ONCE).await?;
            telemetry.cleaned.increment(cleaned);
            if cleaned < u64::from(CLEAN_AT_ONCE) {
                break;
            }
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
    /// What the store could not be told yet.
    unsettled: Vec<Ended>,
    stopping: Arc<AtomicBool>,
    /// When the store is next asked for work, or told again after it did not listen.
    look_at: Instant,
    /// How often the store has failed in a row.
    errors: u32,
}

impl<S: OutboxStore, P: Publisher> Round<'_, S, P> {
    /// Whether more lanes may be claimed: while the store cannot be told of those that ended, it is not asked.
    fn has_room(&self) -> bool {
        self.unsettled.is_empty() && self.running.len() < self.worker.settings.concurrency as usize
    }

    async fn claim(&mut self) {
        let settings = &self.worker.settings;
        let room = settings.concurrency - u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        // From before the question: the lease has begun no earlier than this.
        let lease_ends = clock::now() + settings.lease;
        match self
            .worker
            .store
            .claim(room, settings.batch, settings.lease)
            .await
        {
            Ok(lanes) => {
                self.errors = 0;
                if lanes.is_empty() {
                    self.look_at = clock::now() + self.worker.jittered(settings.poll);
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
        let keep = !self.worker.settings.keep.is_zero();
        match self.worker.store.settle(&lanes, keep).await {
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

/// How long a lane that has ended waits for others, so that they are told together.
const GATHER: Duration = Duration::from_millis(3);

/// The longest wait before a database that failed is asked again.
const LONGEST_WAIT_FOR_STORE: Duration = Duration::from_secs(2);

fn note(telemetry: &Telemetry, error: &StoreError, doing: &str) {
    telemetry.errors.increment(1);
    tracing::warn!(target: "retryguard", %error, doing, "outbox store");
}
