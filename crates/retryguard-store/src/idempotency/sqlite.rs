//! Keys in a SQLite file: for the processes of one machine, with nothing to install.

use std::{path::Path, time::Duration};

use sqlx::{
    Row as _, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous},
};

use super::{
    Asked, Held, IdempotencyStore, KeyId, Standing, StoreFuture, StoredResponse,
    columns::{encode, restore},
    store::micros,
    transactional::{Sealed, Transactional},
};
use crate::{Backend, StoreError, clock, migrations};

/// How long a file that others hold is asked for, and how often. Turning a new file to its write-ahead log takes
/// a lock of the whole file, and SQLite does not always wait for that one as it does for others.
const OPENING: Duration = Duration::from_secs(30);
const OPEN_AGAIN: Duration = Duration::from_millis(20);

/// Keeps keys in a SQLite database. Clones share the pool.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    pool: SqlitePool,
}

impl SqliteStore {
    /// Opens a file, makes it and its tables where they are missing.
    ///
    /// Every commit is on the disk before it is answered (`synchronous = FULL`), so that what was acknowledged
    /// outlives a power failure. One connection: SQLite has one writer, and waiting in our own queue is fairer
    /// than waiting for its lock.
    ///
    /// # Errors
    /// Where the file cannot be opened or written.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(5));
        let end = clock::now() + OPENING;
        loop {
            match Self::connect(options.clone()).await {
                Err(error) if error.is_locked() && clock::now() < end => clock::sleep(OPEN_AGAIN).await,
                opened => return opened,
            }
        }
    }

    async fn connect(options: SqliteConnectOptions) -> Result<Self, StoreError> {
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options)
            .await
            .map_err(failed)?;
        Self::with_pool(pool).await
    }

    /// On a pool of the caller's, and makes the tables where they are missing.
    ///
    /// # Errors
    /// Where the database cannot be written.
    pub async fn with_pool(pool: SqlitePool) -> Result<Self, StoreError> {
        migrations::sqlite(&pool).await?;
        Ok(Self { pool })
    }

    /// The pool, for the handler's own transactions: [`super::Claim::complete_in`] wants the same database.
    #[must_use]
    pub const fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    async fn claim_key(&self, asked: Asked) -> Result<Standing, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(failed)?;
        // Again only where another process took the key over, or swept it, between two statements.
        for _ in 0..8 {
            if let Some(held) = insert(&mut connection, &asked).await? {
                return Ok(Standing::Yours(held));
            }
            let now = clock::unix_micros();
            let Some(row) = find(&mut connection, asked.id).await? else {
                continue;
            };
            if row.expires_at > now {
                if row.fingerprint != asked.fingerprint.0 {
                    return Ok(Standing::OtherRequest);
                }
                if let Some(response) = row.response {
                    return Ok(Standing::Done(response));
                }
                if row.locked_until > now {
                    let left = u64::try_from(row.locked_until - now).unwrap_or(0);
                    return Ok(Standing::Busy(Duration::from_micros(left)));
                }
            }
            if let Some(held) = take_over(&mut connection, &asked, row.token, now).await? {
                return Ok(Standing::Yours(held));
            }
        }
        Ok(Standing::Busy(Duration::ZERO))
    }
}

struct Row {
    fingerprint: Vec<u8>,
    token: i64,
    locked_until: i64,
    expires_at: i64,
    response: Option<StoredResponse>,
}

async fn insert(connection: &mut SqliteConnection, asked: &Asked) -> Result<Option<Held>, StoreError> {
    let now = clock::unix_micros();
    let row = sqlx::query(
        "INSERT INTO retryguard_idempotency (id, fingerprint, token, locked_until, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (id) DO NOTHING RETURNING token",
    )
    .bind(&asked.id.0[..])
    .bind(&asked.fingerprint.0[..])
    .bind(now)
    .bind(now.saturating_add(micros(asked.lock)))
    .bind(now.saturating_add(micros(asked.keep)))
    .fetch_optional(connection)
    .await
    .map_err(failed)?;
    held(asked.id, row)
}

/// Takes over what the former holder has released, or held for too long, or is no longer kept. The token says
/// that it is still the record that was looked at.
async fn take_over(
    connection: &mut SqliteConnection,
    asked: &Asked,
    seen: i64,
    now: i64,
) -> Result<Option<Held>, StoreError> {
    let row = sqlx::query(
        "UPDATE retryguard_idempotency
         SET fingerprint = ?2, token = max(token + 1, ?3), locked_until = ?4, expires_at = ?5,
             status = NULL, headers = NULL, body = NULL
         WHERE id = ?1 AND token = ?6 AND (expires_at <= ?3 OR (status IS NULL AND locked_until <= ?3))
         RETURNING token",
    )
    .bind(&asked.id.0[..])
    .bind(&asked.fingerprint.0[..])
    .bind(now)
    .bind(now.saturating_add(micros(asked.lock)))
    .bind(now.saturating_add(micros(asked.keep)))
    .bind(seen)
    .fetch_optional(connection)
    .await
    .map_err(failed)?;
    held(asked.id, row)
}

fn held(id: KeyId, row: Option<SqliteRow>) -> Result<Option<Held>, StoreError> {
    row.map(|row| {
        let token = row.try_get(0).map_err(failed)?;
        Ok(Held { id, token })
    })
    .transpose()
}

async fn find(connection: &mut SqliteConnection, id: KeyId) -> Result<Option<Row>, StoreError> {
    let row = sqlx::query(
        "SELECT fingerprint, token, locked_until, expires_at, status, headers, body
         FROM retryguard_idempotency WHERE id = ?1",
    )
    .bind(&id.0[..])
    .fetch_optional(connection)
    .await
    .map_err(failed)?;
    row.map(|row| read(&row)).transpose()
}

fn read(row: &SqliteRow) -> Result<Row, StoreError> {
    let status: Option<i64> = row.try_get(4).map_err(failed)?;
    let headers: Option<Vec<u8>> = row.try_get(5).map_err(failed)?;
    let body: Option<Vec<u8>> = row.try_get(6).map_err(failed)?;
    let response = status
        .map(|status| restore(status, &headers.unwrap_or_default(), body))
        .transpose()
        .map_err(|cause| StoreError::Refused {
            backend: Backend::Sqlite,
            cause: Box::new(cause),
        })?;
    Ok(Row {
        fingerprint: row.try_get(0).map_err(failed)?,
        token: row.try_get(1).map_err(failed)?,
        locked_until: row.try_get(2).map_err(failed)?,
        expires_at: row.try_get(3).map_err(failed)?,
        response,
    })
}

impl Sealed for SqliteConnection {}

impl Transactional for SqliteConnection {
    const BACKEND: Backend = Backend::Sqlite;

    async fn complete(
        &mut self,
        held: Held,
        response: &StoredResponse,
        keep: Duration,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "UPDATE retryguard_idempotency SET status = ?3, headers = ?4, body = ?5, expires_at = ?6
             WHERE id = ?1 AND token = ?2 AND status IS NULL",
        )
        .bind(&held.id.0[..])
        .bind(held.token)
        .bind(i64::from(response.status.as_u16()))
        .bind(encode(&response.headers))
        .bind(response.body.as_deref())
        .bind(clock::unix_micros().saturating_add(micros(keep)))
        .execute(self)
        .await
        .map_err(failed)?;
        Ok(done.rows_affected() == 1)
    }
}

impl IdempotencyStore for SqliteStore {
    fn backend(&self) -> Backend {
        Backend::Sqlite
    }

    fn claim(&self, asked: Asked) -> StoreFuture<'_, Standing> {
        Box::pin(self.claim_key(asked))
    }

    fn complete<'a>(
        &'a self,
        held: Held,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut connection = self.pool.acquire().await.map_err(failed)?;
            Transactional::complete(&mut *connection, held, response, keep).await
        })
    }

    fn release(&self, held: Held) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            sqlx::query(
                "UPDATE retryguard_idempotency SET locked_until = 0
                 WHERE id = ?1 AND token = ?2 AND status IS NULL",
            )
            .bind(&held.id.0[..])
            .bind(held.token)
            .execute(&self.pool)
            .await
            .map_err(failed)?;
            Ok(())
        })
    }

    fn sweep(&self, limit: u32) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let done = sqlx::query(
                "DELETE FROM retryguard_idempotency WHERE id IN (
                    SELECT id FROM retryguard_idempotency WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
                 AND expires_at <= ?1",
            )
            .bind(clock::unix_micros())
            .bind(i64::from(limit))
            .execute(&self.pool)
            .await
            .map_err(failed)?;
            Ok(done.rows_affected())
        })
    }
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::from_sqlx(Backend::Sqlite, error)
}
