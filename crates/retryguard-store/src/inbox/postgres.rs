use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use super::{check_consumer, check_id};
use crate::{Backend, StoreError};

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

    /// Whether this consumer sees the event for the first time; marks it, in the transaction of the effect.
    /// Waits while the transaction of another delivery of the same event is open.
    ///
    /// # Errors
    /// Where the id is empty or too long, or the database refuses.
    pub async fn first(&self, transaction: &mut PgConnection, id: &str) -> Result<bool, StoreError> {
        check_id(id)?;
        let mark = sqlx::query(MARK).bind(&self.consumer).bind(id);
        let done = mark.execute(transaction).await.map_err(failed)?;
        Ok(done.rows_affected() == 1)
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

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::from_sqlx(Backend::Postgres, error)
}
