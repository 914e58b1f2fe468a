//! Keys in PostgreSQL: for any number of machines, beside the data that the effects are in.

use std::time::Duration;

use sqlx::{
    PgConnection, PgPool, Row as _,
    postgres::{PgPoolOptions, PgRow},
};

use super::{
    Asked, Held, IdempotencyStore, KeyId, Standing, StoreFuture, StoredResponse,
    columns::{encode, restore},
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

impl PostgresStore {
    /// Connects, and makes the tables where they are missing.
    ///
    /// # Errors
    /// Where the server cannot be reached or its database not be written.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(10)
            // Not longer than a request waits for the store: a queue behind a dead server helps nobody.
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

    async fn claim_key(&self, asked: Asked) -> Result<Standing, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(failed)?;
        // Again only where another process took the key over, or swept it, between two statements.
        for _ in 0..8 {
            if let Some(held) = insert(&mut connection, &asked).await? {
                return Ok(Standing::Yours(held));
            }
            let Some(row) = find(&mut connection, asked.id).await? else {
                continue;
            };
            if !row.expired {
                if row.fingerprint != asked.fingerprint.0 {
                    return Ok(Standing::OtherRequest);
                }
                if let Some(response) = row.response {
                    return Ok(Standing::Done(response));
                }
                if row.left > 0 {
                    let left = Duration::from_micros(u64::try_from(row.left).unwrap_or(0));
                    return Ok(Standing::Busy(left));
                }
            }
            if let Some(held) = take_over(&mut connection, &asked, row.token).await? {
                return Ok(Standing::Yours(held));
            }
        }
        Ok(Standing::Busy(Duration::ZERO))
    }
}

struct Row {
    fingerprint: Vec<u8>,
    token: i64,
    left: i64,
    expired: bool,
    response: Option<StoredResponse>,
}

/// One round trip for a new key. `DO NOTHING` waits for nobody who completes the key in a long transaction, where
/// `DO UPDATE` would.
async fn insert(connection: &mut PgConnection, asked: &Asked) -> Result<Option<Held>, StoreError> {
    let row = sqlx::query(
        "INSERT INTO retryguard_idempotency (id, fingerprint, token, locked_until, expires_at)
         VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
                 clock_timestamp() + $3 * interval '1 microsecond',
                 clock_timestamp() + $4 * interval '1 microsecond')
         ON CONFLICT (id) DO NOTHING RETURNING token",
    )
    .bind(&asked.id.0[..])
    .bind(&asked.fingerprint.0[..])
    .bind(micros(asked.lock))
    .bind(micros(asked.keep))
    .fetch_optional(connection)
    .await
    .map_err(failed)?;
    held(asked.id, row)
}

/// Takes over what the former holder has released, or held for too long, or is no longer kept. If that holder is
/// completing it in a transaction at this moment, the statement waits for it and then finds nothing to take.
async fn take_over(
    connection: &mut PgConnection,
    asked: &Asked,
    seen: i64,
) -> Result<Option<Held>, StoreError> {
    let row = sqlx::query(
        "UPDATE retryguard_idempotency
         SET fingerprint = $2,
             token = greatest(token + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
             locked_until = clock_timestamp() + $3 * interval '1 microsecond',
             expires_at = clock_timestamp() + $4 * interval '1 microsecond',
             status = NULL, headers = NULL, body = NULL
         WHERE id = $1 AND token = $5
           AND (expires_at <= clock_timestamp() OR (status IS NULL AND locked_until <= clock_timestamp()))
         RETURNING token",
    )
    .bind(&asked.id.0[..])
    .bind(&asked.fingerprint.0[..])
    .bind(micros(asked.lock))
    .bind(micros(asked.keep))
    .bind(seen)
    .fetch_optional(connection)
    .await
    .map_err(failed)?;
    held(asked.id, row)
}

fn held(id: KeyId, row: Option<PgRow>) -> Result<Option<Held>, StoreError> {
    row.map(|row| {
        let token = row.try_get(0).map_err(failed)?;
        Ok(Held { id, token })
    })
    .transpose()
}

async fn find(connection: &mut PgConnection, id: KeyId) -> Result<Option<Row>, StoreError> {
    let row = sqlx::query(
        "SELECT fingerprint, token,
                ceil(extract(epoch FROM locked_until - clock_timestamp()) * 1000000)::bigint,
                expires_at <= clock_timestamp(), status, headers, body
         FROM retryguard_idempotency WHERE id = $1",
    )
    .bind(&id.0[..])
    .fetch_optional(connection)
    .await
    .map_err(failed)?;
    row.map(|row| read(&row)).transpose()
}

fn read(row: &PgRow) -> Result<Row, StoreError> {
    let status: Option<i16> = row.try_get(4).map_err(failed)?;
    let headers: Option<Vec<u8>> = row.try_get(5).map_err(failed)?;
    let body: Option<Vec<u8>> = row.try_get(6).map_err(failed)?;
    let response = status
        .map(|status| restore(i64::from(status), &headers.unwrap_or_default(), body))
        .transpose()
        .map_err(|cause| StoreError::Refused {
            backend: Backend::Postgres,
            cause: Box::new(cause),
        })?;
    Ok(Row {
        fingerprint: row.try_get(0).map_err(failed)?,
        token: row.try_get(1).map_err(failed)?,
        left: row.try_get(2).map_err(failed)?,
        expired: row.try_get(3).map_err(failed)?,
        response,
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
        let status = i16::try_from(response.status.as_u16()).unwrap_or(i16::MAX);
        let done = sqlx::query(
            "UPDATE retryguard_idempotency
             SET status = $3, headers = $4, body = $5,
                 expires_at = clock_timestamp() + $6 * interval '1 microsecond'
             WHERE id = $1 AND token = $2 AND status IS NULL",
        )
        .bind(&held.id.0[..])
        .bind(held.token)
        .bind(status)
        .bind(encode(&response.headers))
        .bind(response.body.as_deref())
        .bind(micros(keep))
        .execute(self)
        .await
        .map_err(failed)?;
        Ok(done.rows_affected() == 1)
    }
}

impl IdempotencyStore for PostgresStore {
    fn backend(&self) -> Backend {
        Backend::Postgres
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
                "UPDATE retryguard_idempotency SET locked_until = clock_timestamp()
                 WHERE id = $1 AND token = $2 AND status IS NULL",
            )
            .bind(&held.id.0[..])
            .bind(held.token)
            .execute(&self.pool)
            .await
            .map_err(failed)?;
            Ok(())
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
