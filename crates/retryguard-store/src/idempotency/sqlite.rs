//! Keys in a SQLite file: for the processes of one machine, with nothing to install.

use std::{path::Path, time::Duration};

use sqlx::{
    Row as _, Sqlite, SqliteConnection, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous},
};

use super::{
    Asked, KeyId, Open, StoredResponse,
    columns::Columns,
    machine::{Change, Found, Record, Records, TransactionalRecords, Version},
    sql::Pooled,
    store::micros,
    transactional::CommittingDatabase,
};
use crate::{Backend, Statement, StoreError, Value, clock, migrations};

/// How long a file that others hold is asked for, and how often. Turning a new file to its write-ahead log takes
/// a lock of the whole file, and SQLite does not always wait for that one as it does for others.
const OPENING: Duration = Duration::from_secs(30);
const OPEN_AGAIN: Duration = Duration::from_millis(20);

/// Keeps keys in a SQLite database. Clones share the pool.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    pool: SqlitePool,
    /// Where keys are forgotten: requests do not wait for this connection.
    cleaner: SqlitePool,
}

/// Pages of the write-ahead log after which the cleaner copies them into the file, a tenth of SQLite's own setting. It changes most
/// pages, so requests seldom have to copy any.
const COPY_AFTER: &str = "100";

impl SqliteStore {
    /// Opens a file, makes it and its tables where they are missing.
    ///
    /// Every commit is on the disk before it is answered (`synchronous = FULL`), so that what was acknowledged
    /// outlives a power failure. One connection for requests: SQLite has one writer, and waiting in our own queue is fairer
    /// than waiting for its lock. Another one forgets keys.
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
        let one = SqlitePoolOptions::new().max_connections(1);
        let pool = one.clone().connect_with(options.clone()).await.map_err(failed)?;
        let cleaner = one.connect_lazy_with(options.pragma("wal_autocheckpoint", COPY_AFTER));
        Ok(Self {
            cleaner,
            ..Self::with_pool(pool).await?
        })
    }

    /// On a pool of the caller's, and makes the tables where they are missing.
    ///
    /// # Errors
    /// Where the database cannot be written.
    pub async fn with_pool(pool: SqlitePool) -> Result<Self, StoreError> {
        migrations::sqlite(&pool).await?;
        let cleaner = pool.clone();
        Ok(Self { pool, cleaner })
    }

    /// The pool, for the handler's own transactions: [`super::Claim::complete_in`] wants the same database.
    #[must_use]
    pub const fn pool(&self) -> &SqlitePool {
        &self.pool
    }
}

impl Pooled for SqliteStore {
    type Database = Sqlite;

    fn connections(&self) -> &SqlitePool {
        &self.pool
    }

    fn cleaner(&self) -> &SqlitePool {
        &self.cleaner
    }
}

const LOAD: &str =
    "SELECT fingerprint, token, locked_until - ?2, locked_for, expires_at <= ?2, status, headers, body
    FROM retryguard_idempotency WHERE id = ?1";
const INSERT: &str = "INSERT INTO retryguard_idempotency
        (id, fingerprint, token, locked_until, locked_for, expires_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO NOTHING RETURNING token";
const CLAIM: &str = "UPDATE retryguard_idempotency
    SET fingerprint = ?4, token = max(token + 1, ?5), locked_until = ?6, locked_for = ?7, expires_at = ?8,
        status = NULL, headers = NULL, body = NULL
    WHERE id = ?1 AND token = ?2 AND (status IS NOT NULL) = ?3 RETURNING token";
const COMPLETE: &str = "UPDATE retryguard_idempotency
    SET status = ?4, headers = ?5, body = ?6, expires_at = ?7
    WHERE id = ?1 AND token = ?2 AND (status IS NOT NULL) = ?3";
const LOCK: &str = "UPDATE retryguard_idempotency SET locked_until = ?4
    WHERE id = ?1 AND token = ?2 AND (status IS NOT NULL) = ?3";

impl Records for SqliteConnection {
    /// Loads first: a reader waits for no writer, so a replay is never held up by other requests.
    async fn insert_or_load(&mut self, asked: &Asked) -> Result<Found, StoreError> {
        if let Some(record) = self.load(asked.id).await? {
            return Ok(Found::Record(record));
        }
        let now = clock::unix_micros();
        let row = sqlx::query(INSERT)
            .bind(&asked.id.0[..])
            .bind(&asked.fingerprint.0[..])
            .bind(now)
            .bind(now.saturating_add(micros(asked.lock)))
            .bind(micros(asked.lock))
            .bind(now.saturating_add(micros(asked.keep)))
            .fetch_optional(self)
            .await
            .map_err(failed)?;
        match row {
            Some(row) => Ok(Found::Inserted(row.try_get(0).map_err(failed)?)),
            None => Ok(Found::Moved),
        }
    }

    async fn replace(
        &mut self,
        id: KeyId,
        seen: Version,
        change: Change<'_>,
    ) -> Result<Option<i64>, StoreError> {
        let statement = Self::replacement(id, seen, change);
        // Only a claim changes the token.
        if !matches!(change, Change::Claim(_)) {
            let changed = self.execute(&statement).await? == 1;
            return Ok(changed.then_some(seen.token));
        }
        let row = statement.query().fetch_optional(self).await.map_err(failed)?;
        row.map(|row| row.try_get(0).map_err(failed)).transpose()
    }
}

const STORE: &str = "INSERT INTO retryguard_idempotency
        (id, fingerprint, token, locked_until, locked_for, expires_at, status, headers, body)
    VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING";
const STORE_OVER: &str = "UPDATE retryguard_idempotency
    SET fingerprint = ?2, token = max(token + 1, ?3), locked_until = 0, locked_for = ?4, expires_at = ?5,
        status = ?6, headers = ?7, body = ?8
    WHERE id = ?1 AND token = ?9 AND (status IS NOT NULL) = ?10";

impl TransactionalRecords for SqliteConnection {
    const BACKEND: Backend = Backend::Sqlite;

    async fn load(&mut self, id: KeyId) -> Result<Option<Record>, StoreError> {
        let load = sqlx::query(LOAD).bind(&id.0[..]).bind(clock::unix_micros());
        let row = load.fetch_optional(self).await.map_err(failed)?;
        row.map(|row| read(&row)).transpose()
    }

    fn replacement(id: KeyId, seen: Version, change: Change<'_>) -> Statement {
        let now = clock::unix_micros();
        let mut values: Vec<Value> = vec![id.0.into(), seen.token.into(), seen.completed.into()];
        let text = match change {
            Change::Claim(asked) => {
                values.extend([
                    asked.fingerprint.0.into(),
                    now.into(),
                    now.saturating_add(micros(asked.lock)).into(),
                    micros(asked.lock).into(),
                    now.saturating_add(micros(asked.keep)).into(),
                ]);
                CLAIM
            }
            Change::Complete(response, keep) => {
                values.extend(response.columns());
                values.push(now.saturating_add(micros(keep)).into());
                COMPLETE
            }
            Change::Lock(lock) => {
                // A released key is free by any clock.
                let till = if lock.is_zero() {
                    0
                } else {
                    now.saturating_add(micros(lock))
                };
                values.push(till.into());
                LOCK
            }
        };
        Statement::new(text, values)
    }

    fn storage(open: &Open, response: &StoredResponse, keep: Duration) -> Statement {
        let now = clock::unix_micros();
        let mut values: Vec<Value> = vec![
            open.asked.id.0.into(),
            open.asked.fingerprint.0.into(),
            now.into(),
            micros(open.asked.lock).into(),
            now.saturating_add(micros(keep)).into(),
        ];
        values.extend(response.columns());
        let Some(seen) = open.seen else {
            return Statement::new(STORE, values);
        };
        values.extend([seen.token.into(), seen.completed.into()]);
        Statement::new(STORE_OVER, values)
    }

    async fn execute(&mut self, statement: &Statement) -> Result<u64, StoreError> {
        let done = statement.query().execute(self).await.map_err(failed)?;
        Ok(done.rows_affected())
    }

    async fn sweep(&mut self, limit: u32) -> Result<u64, StoreError> {
        let done = sqlx::query(
            "DELETE FROM retryguard_idempotency WHERE id IN (
                SELECT id FROM retryguard_idempotency WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
             AND expires_at <= ?1",
        )
        .bind(clock::unix_micros())
        .bind(i64::from(limit))
        .execute(self)
        .await
        .map_err(failed)?;
        Ok(done.rows_affected())
    }
}

impl CommittingDatabase for Sqlite {
    async fn finish(
        mut transaction: Transaction<'static, Self>,
        statement: &Statement,
    ) -> Result<u64, StoreError> {
        let rows = TransactionalRecords::execute(&mut *transaction, statement).await?;
        if rows == 1 {
            transaction.commit().await.map_err(failed)?;
        }
        Ok(rows)
    }
}

fn read(row: &SqliteRow) -> Result<Record, StoreError> {
    let status: Option<i64> = row.try_get(5).map_err(failed)?;
    let headers: Option<Vec<u8>> = row.try_get(6).map_err(failed)?;
    let body: Option<Vec<u8>> = row.try_get(7).map_err(failed)?;
    let stored = Columns {
        fingerprint: row.try_get(0).map_err(failed)?,
        token: row.try_get(1).map_err(failed)?,
        lock_left: row.try_get(2).map_err(failed)?,
        lock: row.try_get(3).map_err(failed)?,
        expired: row.try_get(4).map_err(failed)?,
        response: status.map(|status| (status, headers.unwrap_or_default(), body)),
    };
    stored.record().map_err(|cause| StoreError::Refused {
        backend: Backend::Sqlite,
        cause: Box::new(cause),
    })
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::from_sqlx(Backend::Sqlite, error)
}
