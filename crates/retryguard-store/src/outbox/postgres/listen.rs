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

use sqlx::{
    Connection as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgListener},
};
use tokio::sync::{Mutex, Notify};

use crate::clock;

const CHANNEL: &str = "retryguard_outbox";
/// A signal is a commit, and need not be on the disk: after a crash the workers look anyway.
const SIGNAL: &str =
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify('retryguard_outbox', '')";
/// How long to wait before another try to listen.
const AGAIN: Duration = Duration::from_secs(1);

/// Sends signals, and one for many that come at the same time.
#[derive(Debug, Clone, Default)]
pub(super) struct Signals(Arc<Sending>);

#[derive(Debug, Default)]
struct Sending {
    waiting: AtomicBool,
    /// A connection beside the pool: one of the pool is asked whether it lives, before and after it is used, and may have to be
    /// waited for. Taken out while it is used, so that one whose answer is outstanding is not used again.
    connection: Mutex<Option<PgConnection>>,
}

impl Signals {
    pub(super) fn send(&self, pool: &PgPool, limit: Duration) {
        // Outside of a runtime it cannot be sent; the workers find the event when they next look.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.0.waiting.swap(true, Ordering::AcqRel) {
            return;
        }
        let (sending, options) = (self.0.clone(), pool.connect_options());
        runtime.spawn(async move {
            // A signal that is lost costs one look's time.
            let sent = tokio::time::timeout(limit, sending.send(&options)).await;
            if let Ok(Err(error)) = sent {
                tracing::debug!(target: "retryguard", %error, "outbox signal");
            }
            sending.waiting.store(false, Ordering::Release);
        });
    }
}

impl Sending {
    async fn send(&self, options: &PgConnectOptions) -> sqlx::Result<()> {
        let mut kept = self.connection.lock().await;
        // A transaction that commits from here on may be too late for this signal, and sends another.
        self.waiting.store(false, Ordering::Release);
        if let Some(mut connection) = kept.take()
            && signal(&mut connection).await.is_ok()
        {
            *kept = Some(connection);
            return Ok(());
        }
        // None yet, or the server has ended it.
        let mut connection = PgConnection::connect_with(options).await?;
        signal(&mut connection).await?;
        *kept = Some(connection);
        Ok(())
    }
}

async fn signal(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query(SIGNAL).execute(connection).await?;
    Ok(())
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
