//! The clean-up of the layer and of the worker, switched on and off, with its batches timed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use retryguard_store::{
    Backend, StoreError,
    idempotency::{Asked, Held, IdempotencyLayer, IdempotencyStore, Standing, StoreFuture, StoredResponse},
    outbox::{
        Claimed, Counts, Message, OutboxStore, Parked, PublishError, Running, Settings, Settled, Worker,
    },
};
use tower::Layer as _;

use crate::{Done, now};

/// A round begins as soon as the last has ended.
const AT_ONCE: Duration = Duration::from_millis(2);

/// What a clean-up has deleted since this was last asked.
#[derive(Debug, Default)]
pub(super) struct Batches {
    is_on: AtomicBool,
    rows: AtomicU64,
    /// In microseconds.
    longest: AtomicU64,
}

impl Batches {
    pub(super) fn switch(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::SeqCst);
    }

    /// Rows, and the longest batch.
    pub(super) fn take(&self) -> (u64, Duration) {
        let rows = self.rows.swap(0, Ordering::SeqCst);
        let longest = self.longest.swap(0, Ordering::SeqCst);
        (rows, Duration::from_micros(longest))
    }

    async fn timed(&self, batch: impl Future<Output = Result<u64, StoreError>>) -> Result<u64, StoreError> {
        if !self.is_on.load(Ordering::SeqCst) {
            return Ok(0);
        }
        let from = now();
        let rows = batch.await?;
        let took = u64::try_from(from.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.rows.fetch_add(rows, Ordering::SeqCst);
        self.longest.fetch_max(took, Ordering::SeqCst);
        Ok(rows)
    }
}

/// Starts the layer's clean-up, which ends with what is returned.
pub(super) fn of_keys(store: Arc<dyn IdempotencyStore>, batches: &Arc<Batches>) -> impl Sized + use<> {
    let batches = batches.clone();
    let layer = IdempotencyLayer::new(Keys { store, batches }).sweep_every(Some(AT_ONCE));
    // The first service starts it.
    let service = layer.layer(());
    (layer, service)
}

#[derive(Debug)]
struct Keys {
    store: Arc<dyn IdempotencyStore>,
    batches: Arc<Batches>,
}

impl IdempotencyStore for Keys {
    fn backend(&self) -> Backend {
        self.store.backend()
    }

    fn claim(&self, asked: Asked) -> StoreFuture<'_, Standing> {
        self.store.claim(asked)
    }

    fn complete<'a>(
        &'a self,
        held: Held,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        self.store.complete(held, response, keep)
    }

    fn release(&self, held: Held) -> StoreFuture<'_, ()> {
        self.store.release(held)
    }

    fn sweep(&self, limit: u32) -> StoreFuture<'_, u64> {
        Box::pin(self.batches.timed(self.store.sweep(limit)))
    }
}

/// Starts a worker that only cleans.
pub(super) fn of_events<S: OutboxStore>(store: S, batches: &Arc<Batches>) -> Done<Running> {
    let batches = batches.clone();
    let settings = Settings {
        keep: Duration::from_micros(1),
        housekeeping: AT_ONCE,
        ..Settings::default()
    };
    let publish = |_: Message| std::future::ready(Ok::<(), PublishError>(()));
    Ok(Worker::new(Events { store, batches }, publish, settings)?.start())
}

#[derive(Clone)]
struct Events<S> {
    store: S,
    batches: Arc<Batches>,
}

impl<S: OutboxStore> OutboxStore for Events<S> {
    fn backend(&self) -> Backend {
        self.store.backend()
    }

    async fn claim(&self, _: u32, _: u32, _: Duration) -> Result<Vec<Claimed>, StoreError> {
        Ok(Vec::new())
    }

    async fn settle(&self, lanes: &[Settled], keep: bool) -> Result<usize, StoreError> {
        self.store.settle(lanes, keep).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        Ok(Counts::default())
    }

    async fn parked(&self, after: i64, limit: u32) -> Result<Vec<Parked>, StoreError> {
        self.store.parked(after, limit).await
    }

    async fn retry(&self, number: i64) -> Result<bool, StoreError> {
        self.store.retry(number).await
    }

    async fn discard(&self, number: i64) -> Result<bool, StoreError> {
        self.store.discard(number).await
    }

    async fn release_held(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn clean(&self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        self.batches.timed(self.store.clean(age, limit)).await
    }

    fn wake(&self) {}

    async fn woken(&self) {
        std::future::pending::<()>().await;
    }
}
