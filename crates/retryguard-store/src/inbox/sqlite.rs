use std::time::Duration;

use sqlx::{SqliteConnection, SqlitePool};

use super::{PooledInbox, TransactionalInbox, check_consumer, check_id};
use crate::{Backend, Statement, StoreError, clock, sqlite};

const MARK: &str = "INSERT INTO retryguard_inbox (consumer, id, seen_at) VALUES (?, ?, ?)
    ON CONFLICT DO NOTHING";
const CLEAN: &str = "DELETE FROM retryguard_inbox WHERE (consumer, id) IN
    (SELECT consumer, id FROM retryguard_inbox WHERE seen_at <= ? ORDER BY seen_at LIMIT ?)";

/// The inbox of a consumer whose effects are in a SQLite database.
#[derive(Debug, Clone)]
pub struct SqliteInbox {
    consumer: String,
}

impl SqliteInbox {
    /// The inbox of the consumer with this name; [`migrations::sqlite`](crate::migrations::sqlite) makes its
    /// table.
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
    pub fn on(self, pool: SqlitePool) -> PooledInbox<Self, SqlitePool> {
        PooledInbox { inbox: self, pool }
    }

    /// Whether this consumer sees the event for the first time; marks it, in the transaction of the effect.
    ///
    /// # Errors
    /// Where the id is empty or too long, or the database refuses.
    pub async fn first(&self, transaction: &mut SqliteConnection, id: &str) -> Result<bool, StoreError> {
        let mark = self.statement(id)?;
        let done = mark.query().execute(transaction).await.map_err(failed)?;
        Ok(done.rows_affected() == 1)
    }

    /// The statement of [`SqliteInbox::first`], for a driver other than sqlx: it changes one row where the consumer sees the
    /// event for the first time, and none otherwise.
    ///
    /// # Errors
    /// Where the id is empty or too long.
    pub fn statement(&self, id: &str) -> Result<Statement, StoreError> {
        check_id(id)?;
        Ok(Statement::new(
            MARK,
            vec![
                self.consumer.as_str().into(),
                id.into(),
                clock::unix_micros().into(),
            ],
        ))
    }

    /// Deletes at most `limit` marks of any consumer that are older than `age`; says how many it were.
    ///
    /// # Errors
    /// Where the database refuses.
    pub async fn clean(pool: &SqlitePool, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let clean = sqlx::query(CLEAN)
            .bind(clock::unix_micros().saturating_sub(age))
            .bind(limit);
        Ok(clean.execute(pool).await.map_err(failed)?.rows_affected())
    }
}

impl TransactionalInbox for PooledInbox<SqliteInbox, SqlitePool> {
    type Transaction = sqlx::Transaction<'static, sqlx::Sqlite>;

    async fn begin(&self, id: &str) -> Result<Option<Self::Transaction>, StoreError> {
        // Immediate, because the handler may read before it writes.
        let mut transaction = sqlite::begin(&self.pool).await.map_err(failed)?;
        let first = self.inbox.first(&mut transaction, id).await?;
        Ok(first.then_some(transaction))
    }

    async fn commit(&self, transaction: Self::Transaction) -> Result<(), StoreError> {
        transaction.commit().await.map_err(failed)
    }
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::from_sqlx(Backend::Sqlite, error)
}
