//! Keys in PostgreSQL: for any number of machines, beside the data that the effects are in.

use std::time::Duration;

use sqlx::{
    Connection as _, PgConnection, PgPool, Row as _,
    postgres::{PgPoolOptions, PgRow},
};

use super::{
    Asked, Held, IdempotencyStore, KeyId, Open, Standing, StoreFuture, StoredResponse,
    columns::{Columns, encode},
    machine::{self, Change, Found, Record, Records, TransactionalRecords, Version},
    store::micros,
    transactional::{Sealed, Transactional},
};
use crate::{Backend, StoreError, migrations};

/// Keeps keys in a PostgreSQL database. Clones share the pool.
///
/// All times are the server's own, so that the clocks of the machines that use it do not matter.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pool: PgPool,
}

/// A connection that was idle for longer is tried before it is used: a server that was restarted has closed it.
const IDLE: Duration = Duration::from_millis(500);

impl PostgresStore {
    /// Connects, and makes the tables where they are missing.
    ///
    /// # Errors
    /// Where the server cannot be reached or its database not be written.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(10)
            // A round trip for every statement would be the price of asking each time whether the connection lives.
            .test_before_acquire(false)
            .before_acquire(|connection, about| {
                Box::pin(async move {
                    if about.idle_for > IDLE {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            // Not longer than a request waits for the store: a queue behind a dead server does not help.
            .acquire_timeout(Duration::from_secs(2))
            .connect(url)
            .await
            .map_err(failed)?;
        Self::with_pool(pool).await
    }

    /// On a pool of the caller's, and makes the tables where they are missing.
    ///
    /// # Errors
    /// Where the database cannot be written.
    pub async fn with_pool(pool: PgPool) -> Result<Self, StoreError> {
        migrations::postgres(&pool).await?;
        Ok(Self { pool })
    }

    /// The pool, for the handler's own transactions: [`super::Claim::complete_in`] wants the same database.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }
}

/// Stores a claim where there is no record and loads the record otherwise, in one round trip. The second part does not
/// see what the first has stored, because both have one snapshot: of a new key comes one row, of a known one the other.
/// `DO NOTHING` does not wait for a transaction that completes the key, where `DO UPDATE` would.
const INSERT_OR_LOAD: &str = "WITH stored AS (
        INSERT INTO retryguard_idempotency (id, fingerprint, token, locked_until, locked_for, expires_at)
        VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
                clock_timestamp() + $3 * interval '1 microsecond', $3,
                clock_timestamp() + $4 * interval '1 microsecond')
        ON CONFLICT (id) DO NOTHING RETURNING token
    )
    SELECT token, true, NULL::bytea, NULL::bigint, NULL::bigint, NULL::boolean,
           NULL::smallint, NULL::bytea, NULL::bytea FROM stored
    UNION ALL
    SELECT token, false, fingerprint,
           ceil(extract(epoch FROM locked_until - clock_timestamp()) * 1000000)::bigint, locked_for,
           expires_at <= clock_timestamp(), status, headers, body
    FROM retryguard_idempotency WHERE id = $1";
const CLAIM: &str = "UPDATE retryguard_idempotency
    SET fingerprint = $4,
        token = greatest(token + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
        locked_until = clock_timestamp() + $5 * interval '1 microsecond', locked_for = $5,
        expires_at = clock_timestamp() + $6 * interval '1 microsecond',
        status = NULL, headers = NULL, body = NULL
    WHERE id = $1 AND token = $2 AND (status IS NOT NULL) = $3 RETURNING token";
const COMPLETE: &str = "UPDATE retryguard_idempotency
    SET status = $4, headers = $5, body = $6, expires_at = clock_timestamp() + $7 * interval '1 microsecond'
    WHERE id = $1 AND token = $2 AND (status IS NOT NULL) = $3 RETURNING token";
const LOCK: &str = "UPDATE retryguard_idempotency
    SET locked_until = CASE WHEN $4 = 0 THEN 'epoch' ELSE clock_timestamp() + $4 * interval '1 microsecond' END
    WHERE id = $1 AND token = $2 AND (status IS NOT NULL) = $3 RETURNING token";

impl Records for PgConnection {
    async fn insert_or_load(&mut self, asked: &Asked) -> Result<Found, StoreError> {
        let rows = sqlx::query(INSERT_OR_LOAD)
            .bind(&asked.id.0[..])
            .bind(&asked.fingerprint.0[..])
            .bind(micros(asked.lock))
            .bind(micros(asked.keep))
            .fetch_all(self)
            .await
            .map_err(failed)?;
        let mut found = Found::Moved;
        for row in &rows {
            if row.try_get(1).map_err(failed)? {
                return Ok(Found::Inserted(row.try_get(0).map_err(failed)?));
            }
            found = Found::Record(read(row)?);
        }
        Ok(found)
    }

    async fn replace(
        &mut self,
        id: KeyId,
        seen: Version,
        change: Change<'_>,
    ) -> Result<Option<i64>, StoreError> {
        let at = |statement| {
            let query = sqlx::query(statement).bind(id.0.to_vec());
            query.bind(seen.token).bind(seen.completed)
        };
        let query = match change {
            Change::Claim(asked) => at(CLAIM)
                .bind(&asked.fingerprint.0[..])
                .bind(micros(asked.lock))
                .bind(micros(asked.keep)),
            Change::Complete(response, keep) => at(COMPLETE)
                .bind(i16::try_from(response.status.as_u16()).unwrap_or(i16::MAX))
                .bind(encode(&response.headers))
                .bind(response.body.as_deref())
                .bind(micros(keep)),
            Change::Lock(lock) => at(LOCK).bind(micros(lock)),
        };
        let row = query.fetch_optional(self).await.map_err(failed)?;
        row.map(|row| row.try_get(0).map_err(failed)).transpose()
    }
}

const LOAD: &str = "SELECT token, false, fingerprint,
        ceil(extract(epoch FROM locked_until - clock_timestamp()) * 1000000)::bigint, locked_for,
        expires_at <= clock_timestamp(), status, headers, body
    FROM retryguard_idempotency WHERE id = $1";
/// Where another transaction has stored the key and is not committed, this waits for it and then stores nothing.
const STORE: &str = "INSERT INTO retryguard_idempotency
        (id, fingerprint, token, locked_until, locked_for, expires_at, status, headers, body)
    VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 'epoch', $3,
            clock_timestamp() + $4 * interval '1 microsecond', $5, $6, $7)
    ON CONFLICT (id) DO NOTHING";
const STORE_OVER: &str = "UPDATE retryguard_idempotency
    SET fingerprint = $2, token = greatest(token + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
        locked_until = 'epoch', locked_for = $3, expires_at = clock_timestamp() + $4 * interval '1 microsecond',
        status = $5, headers = $6, body = $7
    WHERE id = $1 AND token = $8 AND (status IS NOT NULL) = $9";

impl TransactionalRecords for PgConnection {
    async fn load(&mut self, id: KeyId) -> Result<Option<Record>, StoreError> {
        let load = sqlx::query(LOAD).bind(&id.0[..]);
        let row = load.fetch_optional(self).await.map_err(failed)?;
        row.map(|row| read(&row)).transpose()
    }

    async fn store(
        &mut self,
        open: &Open,
        response: &StoredResponse,
        keep: Duration,
    ) -> Result<bool, StoreError> {
        let mut query = sqlx::query(if open.seen.is_some() { STORE_OVER } else { STORE })
            .bind(&open.asked.id.0[..])
            .bind(&open.asked.fingerprint.0[..])
            .bind(micros(open.asked.lock))
            .bind(micros(keep))
            .bind(i16::try_from(response.status.as_u16()).unwrap_or(i16::MAX))
            .bind(encode(&response.headers))
            .bind(response.body.as_deref());
        if let Some(seen) = open.seen {
            query = query.bind(seen.token).bind(seen.completed);
        }
        let done = query.execute(self).await.map_err(failed)?;
        Ok(done.rows_affected() == 1)
    }
}

fn read(row: &PgRow) -> Result<Record, StoreError> {
    let status: Option<i16> = row.try_get(6).map_err(failed)?;
    let headers: Option<Vec<u8>> = row.try_get(7).map_err(failed)?;
    let body: Option<Vec<u8>> = row.try_get(8).map_err(failed)?;
    let stored = Columns {
        fingerprint: row.try_get(2).map_err(failed)?,
        token: row.try_get(0).map_err(failed)?,
        lock_left: row.try_get(3).map_err(failed)?,
        lock: row.try_get(4).map_err(failed)?,
        expired: row.try_get(5).map_err(failed)?,
        response: status.map(|status| (i64::from(status), headers.unwrap_or_default(), body)),
    };
    stored.record().map_err(|cause| StoreError::Refused {
        backend: Backend::Postgres,
        cause: Box::new(cause),
    })
}

impl Sealed for PgConnection {}

impl Transactional for PgConnection {
    const BACKEND: Backend = Backend::Postgres;

    async fn complete(
        &mut self,
        held: Held,
        response: &StoredResponse,
        keep: Duration,
    ) -> Result<bool, StoreError> {
        machine::complete(self, held, response, keep).await
    }

    async fn store(
        &mut self,
        open: &Open,
        response: &StoredResponse,
        keep: Duration,
    ) -> Result<bool, StoreError> {
        TransactionalRecords::store(self, open, response, keep).await
    }
}

impl IdempotencyStore for PostgresStore {
    fn backend(&self) -> Backend {
        Backend::Postgres
    }

    fn claim(&self, asked: Asked) -> StoreFuture<'_, Standing> {
        Box::pin(async move {
            let mut connection = self.pool.acquire().await.map_err(failed)?;
            machine::claim(&mut *connection, asked).await
        })
    }

    fn complete<'a>(
        &'a self,
        held: Held,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut connection = self.pool.acquire().await.map_err(failed)?;
            machine::complete(&mut *connection, held, response, keep).await
        })
    }

    fn look(&self, asked: Asked) -> StoreFuture<'_, Standing> {
        Box::pin(async move {
            let mut connection = self.pool.acquire().await.map_err(failed)?;
            machine::look(&mut *connection, asked).await
        })
    }

    fn store<'a>(
        &'a self,
        open: &'a Open,
        response: &'a StoredResponse,
        keep: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut connection = self.pool.acquire().await.map_err(failed)?;
            TransactionalRecords::store(&mut *connection, open, response, keep).await
        })
    }

    fn release(&self, held: Held) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut connection = self.pool.acquire().await.map_err(failed)?;
            machine::release(&mut *connection, held).await
        })
    }

    /// Rows that another sweeper has locked are left to it.
    fn sweep(&self, limit: u32) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let done = sqlx::query(
                "DELETE FROM retryguard_idempotency WHERE id IN (
                    SELECT id FROM retryguard_idempotency WHERE expires_at <= clock_timestamp()
                    ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)",
            )
            .bind(i64::from(limit))
            .execute(&self.pool)
            .await
            .map_err(failed)?;
            Ok(done.rows_affected())
        })
    }
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::from_sqlx(Backend::Postgres, error)
}
