//! The inbox: what makes a delivery that comes at least once count exactly once.
//!
//! A consumer asks, in the transaction of its own effect, whether it sees an event for the first time:
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")]
//! # async fn example(pool: sqlx::SqlitePool, id: &str) -> Result<(), Box<dyn std::error::Error>> {
//! use retryguard_store::inbox::SqliteInbox;
//!
//! let inbox = SqliteInbox::new("mailer")?;
//! let mut transaction = retryguard_store::sqlite::begin(&pool).await?;
//! if inbox.first(&mut transaction, id).await? {
//!     sqlx::query("INSERT INTO mails (order_id) VALUES (17)").execute(&mut *transaction).await?;
//! }
//! transaction.commit().await?;
//! # Ok(()) }
//! ```
//!
//! The mark and the effect are committed together or not at all, so a crash at any point leaves both or none.
//! Two deliveries at the same moment wait for each other: the second sees what became of the first.
//!
//! [`once`] does all of that around a function, and [`Consumer`] is the loop around it: it receives from a broker, has the
//! effect once, acknowledges, and waits between the tries of a message that fails.
//!
//! A mark must be kept for longer than an event may come again: [`KEEP`] is far longer than the outbox's tries
//! take, but an operator may retry a parked event at any time. Deleting old marks is the consumer's decision
//! (`clean`).

mod consumer;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::time::Duration;

use crate::StoreError;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use consumer::PooledInbox;
pub use consumer::{
    Consumer, Delivered, Delivery, Effect, Failure, OnceError, Source, TransactionalInbox, once,
};
pub use memory::{First, MemoryInbox};
#[cfg(feature = "postgres")]
pub use postgres::PostgresInbox;
#[cfg(feature = "redis")]
pub use redis::RedisInbox;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteInbox;

/// The longest name of a consumer, in bytes.
pub const LONGEST_CONSUMER: usize = 255;
/// The longest id of an event, in bytes.
pub const LONGEST_ID: usize = 255;
/// How long marks should be kept: a week.
pub const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// Consumers with different names do not see each other's marks.
#[cfg(any(test, feature = "postgres", feature = "redis", feature = "sqlite"))]
fn check_consumer(consumer: &str) -> Result<(), StoreError> {
    check("name of a consumer", consumer, LONGEST_CONSUMER)
}

fn check_id(id: &str) -> Result<(), StoreError> {
    check("id of an event", id, LONGEST_ID)
}

fn check(what: &'static str, text: &str, limit: usize) -> Result<(), StoreError> {
    let size = text.len();
    if size > limit {
        return Err(StoreError::TooLarge { what, size, limit });
    }
    let why = match text {
        "" => "it is empty",
        text if text.contains('\0') => "it contains a NUL character",
        _ => return Ok(()),
    };
    Err(StoreError::Unusable { what, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_have_limits() {
        check_consumer(&"a".repeat(LONGEST_CONSUMER)).unwrap();
        check_id(&"a".repeat(LONGEST_ID)).unwrap();
        assert!(check_consumer(&"a".repeat(LONGEST_CONSUMER + 1)).is_err());
        assert!(check_id(&"a".repeat(LONGEST_ID + 1)).is_err());
        assert!(check_id("").unwrap_err().to_string().contains("empty"));
        assert!(check_id("\0").unwrap_err().to_string().contains("NUL"));
    }
}
