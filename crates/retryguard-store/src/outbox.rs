//! The outbox: events written in the caller's own transaction, published at least once and in order per key.
//!
//! A service that changes its database and then tells others of it has two writes and no transaction around
//! both: a crash between them loses the message, or sends it for a change that was rolled back. So the event is
//! written *into the database*, in the transaction of the change, and a [`Worker`] publishes it afterwards.
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")]
//! # async fn example(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
//! use retryguard_store::{migrations, outbox::{Event, Message, OutboxStore, PublishError, Settings, SqliteOutbox, Worker}};
//!
//! migrations::sqlite(&pool).await?;
//! let outbox = SqliteOutbox::new(pool.clone());
//!
//! let publish = async |message: Message| {
//!     println!("{} {:?}", message.topic, message.payload);
//!     Ok::<(), PublishError>(())
//! };
//! # let publish = |message: Message| async move { let _ = message; Ok::<(), PublishError>(()) };
//! let worker = Worker::new(outbox.clone(), publish, Settings::default())?.start();
//!
//! let mut transaction = retryguard_store::sqlite::begin(&pool).await?;
//! sqlx::query("UPDATE orders SET state = 'paid' WHERE id = 17").execute(&mut *transaction).await?;
//! outbox.put(&mut transaction, &Event::new("orders.paid", "17").key("order-17")).await?;
//! transaction.commit().await?;
//! outbox.wake();
//!
//! worker.stop().await;
//! # Ok(()) }
//! ```
//!
//! # Order
//!
//! Events with the same key form a *lane*; events without a key have a lane each. A worker claims whole lanes,
//! for the time of a lease, and publishes the events of a lane one after the other in the order in which their
//! transactions were committed. While a lane is claimed, or waits for another try of its first event, no worker
//! else touches it. A worker that lost its lease (it was paused, its machine was cut off) may publish an event
//! once more; it cannot mark it, because the lane carries the token of the new claim. So every event's *first*
//! delivery is in order, and an [`Inbox`](crate::inbox) makes the first one the only one.
//!
//! # Failures
//!
//! A failed event is tried again after a [`Backoff`](retryguard_core::backoff::Backoff), and parked with its
//! last error after [`Settings::tries`]. What follows it in its lane goes on or is held, by
//! [`Settings::after_parking`]. Parked events are listed, retried and discarded through [`OutboxStore`]. An
//! event whose publishing ends the worker itself is parked after [`Settings::crashes`].

mod batch;
mod event;
mod lane;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod publish;
mod settings;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod telemetry;
mod worker;

pub use event::{Event, Message};
pub use memory::MemoryOutbox;
#[cfg(feature = "postgres")]
pub use postgres::PostgresOutbox;
pub use publish::{PublishError, Publisher};
pub use settings::{AfterParking, Settings, SettingsError};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteOutbox;
pub use store::{
    Batch, BatchLane, BatchReport, BatchSettled, Claimed, Counts, OutboxStore, Parked, PartClaim, Settled,
    Taken, Trouble,
};
pub use telemetry::METRICS;
pub use worker::{Running, Worker};
