//! Forgets what is no longer kept.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use retryguard_core::Chance as _;

use super::{IdempotencyStore, telemetry::SWEPT};
use crate::{clean_up::BatchSize, clock};

/// The most at once: a long delete would hold up claims where a database has one writer.
const MOST: u32 = 1000;

/// Sweeps for as long as the layer lives. Without a runtime there are no sweeps.
pub(super) fn start(store: &Arc<dyn IdempotencyStore>, every: Duration) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(sweep(Arc::downgrade(store), every));
    }
}

async fn sweep(store: Weak<dyn IdempotencyStore>, every: Duration) {
    let Some(backend) = store.upgrade().map(|store| store.backend()) else {
        return;
    };
    let mut size = BatchSize::new(backend, MOST);
    loop {
        // Between half and all of it, so that the replicas of a service do not sweep together.
        let half = every / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        clock::sleep(half + Duration::from_nanos(clock::Random.below(nanos))).await;
        let Some(store) = store.upgrade() else { return };
        loop {
            let from = clock::now();
            match store.sweep(size.rows()).await {
                Ok(swept) => {
                    metrics::counter!(SWEPT, "backend" => backend.as_str()).increment(swept);
                    let Some(pause) = size.deleted(swept, clock::now() - from) else {
                        break;
                    };
                    clock::sleep(pause).await;
                }
                Err(error) => {
                    tracing::warn!(target: "retryguard", %error, "idempotency keys could not be swept; trying later");
                    break;
                }
            }
        }
    }
}
