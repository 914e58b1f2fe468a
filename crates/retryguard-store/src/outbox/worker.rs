//! The worker: claims lanes, publishes them side by side, tells the store how they went.

mod round;

use std::{future::Future, sync::Arc, time::Duration};

use retryguard_core::Chance as _;
use tokio::{sync::watch, task::JoinHandle};

use super::{AfterParking, OutboxStore, Publisher, Settings, SettingsError, telemetry::Telemetry};
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
    /// Stops gracefully: no more events are begun, those under way are ended and told to the store. Takes no
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

    /// Works until `stop` ends, then ends gracefully as [`Running::stop`] says. Database failures do not end it:
    /// it tries again.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let telemetry = Telemetry::new(&self.settings.name);
        let beside = async { tokio::join!(self.housekeeping(&telemetry), self.store.listen()) };
        tokio::select! {
            () = round::work(&self, &telemetry, stop) => {}
            _ = beside => {}
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
        // Not longer than the time between two rounds, so that the gauges are updated on a slow disk too.
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

fn note(telemetry: &Telemetry, error: &StoreError, doing: &str) {
    telemetry.errors.increment(1);
    tracing::warn!(target: "retryguard", %error, doing, "outbox store");
}
