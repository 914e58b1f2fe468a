//! Waking workers of other processes.
//!
//! The signal is sent after the commit and on a connection of its own. Inside the caller's transaction it would
//! be sent by the commit itself, but PostgreSQL lets only one transaction that notifies commit at a time, and
//! every writer of events would wait for the disk in one queue.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{PgPool, postgres::PgListener};
use tokio::sync::Notify;

use crate::clock;

const CHANNEL: &str = "retryguard_outbox";
/// A signal is a commit, and need not be on the disk: after a crash the workers look anyway.
const SIGNAL: &str =
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify('retryguard_outbox', '')";
/// How long to wait before another try to listen.
const AGAIN: Duration = Duration::from_secs(1);

/// Sends signals, and one for many that come at the same time.
#[derive(Debug, Default)]
pub(super) struct Signals {
    waiting: Arc<AtomicBool>,
}

impl Signals {
    pub(super) fn send(&self, pool: &PgPool, limit: Duration) {
        // Outside of a runtime it cannot be sent; the workers find the event when they next look.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.waiting.swap(true, Ordering::AcqRel) {
            return;
        }
        let (waiting, pool) = (self.waiting.clone(), pool.clone());
        runtime.spawn(async move {
            let signal = async {
                let mut connection = pool.acquire().await?;
                // A transaction that commits from here on may be too late for this signal, and sends another.
                waiting.store(false, Ordering::Release);
                sqlx::query(SIGNAL).execute(&mut *connection).await
            };
            // A signal that is lost costs one look's time.
            let _ = tokio::time::timeout(limit, signal).await;
            waiting.store(false, Ordering::Release);
        });
    }
}

/// Wakes the workers of this process when another has written. Never ends.
pub(super) async fn listen(pool: &PgPool, woken: &Notify) {
    loop {
        let heard = async {
            let mut listener = PgListener::connect_with(pool).await?;
            listener.listen(CHANNEL).await?;
            loop {
                listener.recv().await?;
                woken.notify_one();
            }
        };
        let Err(error): sqlx::Result<std::convert::Infallible> = heard.await;
        tracing::debug!(target: "retryguard", %error, "outbox listener");
        clock::sleep(AGAIN).await;
    }
}
