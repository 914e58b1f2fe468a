use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use super::{PooledInbox, TransactionalInbox, check_consumer, check_id};
use crate::{Backend, Statement, StoreError};

const MARK: &str = "INSERT INTO retryguard_inbox (consumer, id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const CLEAN: &str = "DELETE FROM retryguard_inbox WHERE (consumer, id) IN
    (SELECT consumer, id FROM retryguard_inbox
     WHERE seen_at <= statement_timestamp() - $1 * interval '1 second' ORDER BY seen_at LIMIT $2
     FOR UPDATE SKIP LOCKED)";

/// The inbox of a consumer whose effects are in a PostgreSQL database.
#[derive(Debug, Clone)]
pub struct PostgresInbox {
    consumer: String,
}

impl PostgresInbox {
    /// The inbox of the consumer with this name; [`migrations::postgres`](crate::migrations::postgres) makes
    /// its table.
    ///
    /// # Errors
    /// Where the name is empty or too long.
    pub fn new(consumer: impl Into<String>) -> Result<Self, StoreError> {
        let consumer = consumer.into();
        check_consumer(&consumer)?;
        Ok(Self { consumer })
    }

    /// With the pool of the effects' database, for [`once`](super::once) and [`Consumer`](super::Consumer).
    #[must_use]
    pub fn on(self, pool: PgPool) -> PooledInbox<Self, PgPool> {
        PooledInbox { inbox: self, pool }
    }

    /// Whether this consumer sees the event for the first time; marks it, in the transaction of the effect.
    /// Waits while the transaction of another delivery of the same event is open.
    ///
    /// # Errors
    /// Where the id is empty or too long, or the database refuses.
    pub async fn first(&self, transaction: &mut PgConnection, id: &str) -> Result<bool, StoreError> {
        let mark = self.statement(id)?;
        let done = mark.query().execute(transaction).await.map_err(failed)?;
        Ok(done.rows_affected() == 1)
    }

    /// The statement of [`PostgresInbox::first`], for a driver other than sqlx: it changes one row where the consumer sees the
    /// event for the first time, and none otherwise.
    ///
    /// # Errors
    /// Where the id is empty or too long.
    pub fn statement(&self, id: &str) -> Result<Statement, StoreError> {
        check_id(id)?;
        Ok(Statement::new(
            MARK,
            vec![self.consumer.as_str().into(), id.into()],
        ))
    }

    /// Deletes at most `limit` marks of any consumer that are older than `age`; says how many it were.
    ///
    /// # Errors
    /// Where the database refuses.
    pub async fn clean(pool: &PgPool, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let clean = sqlx::query(CLEAN).bind(age.as_secs_f64()).bind(i64::from(limit));
        Ok(clean.execute(pool).await.map_err(failed)?.rows_affected())
    }
}

impl TransactionalInbox for PooledInbox<PostgresInbox, PgPool> {
    type Transaction = sqlx::Transaction<'static, sqlx::Postgres>;

    async fn begin(&self, id: &str) -> Result<Option<Self::Transaction>, StoreError> {
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        let first = self.inbox.first(&mut transaction, id).await?;
        Ok(first.then_some(transaction))
    }

    async fn commit(&self, transaction: Self::Transaction) -> Result<(), StoreError> {
        transaction.commit().await.map_err(failed)
    }
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::from_sqlx(Backend::Postgres, error)
}
