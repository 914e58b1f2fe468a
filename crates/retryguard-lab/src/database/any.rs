//! A database of either kind, as the services see it.

use std::{path::PathBuf, sync::Arc};

use axum::body::Body;
use http::Response;
#[cfg(feature = "real")]
use retryguard_store::{idempotency::PostgresStore, outbox::PostgresOutbox};
use retryguard_store::{
    idempotency::{IdempotencyStore, SqliteStore},
    migrations,
    outbox::{Event, OutboxStore as _, SqliteOutbox},
};

#[cfg(feature = "real")]
use super::Postgres;
use super::{DatabaseError, Finish, OrderRow, Reservation, Reserved, Sqlite, Table};
use crate::{name::Name, settings::Backing};

/// The database of one service.
#[derive(Debug, Clone)]
pub enum Database {
    /// A file of its own.
    Sqlite(Sqlite),
    /// A schema that all services of a system share.
    #[cfg(feature = "real")]
    Postgres(Postgres),
}

/// An outbox in a service's database.
#[derive(Debug, Clone)]
pub(crate) enum Outbox {
    Sqlite(SqliteOutbox),
    #[cfg(feature = "real")]
    Postgres(PostgresOutbox),
}

impl Outbox {
    /// Itself, where the database is a SQLite file.
    const fn sqlite(&self) -> Option<&SqliteOutbox> {
        match self {
            Self::Sqlite(store) => Some(store),
            #[cfg(feature = "real")]
            Self::Postgres(_) => None,
        }
    }

    /// Itself, where the database is PostgreSQL.
    #[cfg(feature = "real")]
    const fn postgres(&self) -> Option<&PostgresOutbox> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(store) => Some(store),
        }
    }

    pub(crate) fn wake(&self) {
        match self {
            Self::Sqlite(store) => store.wake(),
            #[cfg(feature = "real")]
            Self::Postgres(store) => store.wake(),
        }
    }
}

/// The same call on either kind.
macro_rules! either {
    ($self:ident, $database:ident => $call:expr) => {
        match $self {
            Self::Sqlite($database) => $call,
            #[cfg(feature = "real")]
            Self::Postgres($database) => $call,
        }
    };
}

impl Database {
    /// Opens the database of a service, and makes its tables. `folder` is where embedded ones are kept.
    ///
    /// # Errors
    /// Where it cannot be reached or written.
    pub async fn open(
        backing: &Backing,
        folder: impl FnOnce() -> anyhow::Result<PathBuf>,
        name: Name,
    ) -> anyhow::Result<Self> {
        match backing {
            Backing::Embedded => Ok(Self::Sqlite(Sqlite::open(&folder()?, name).await?)),
            #[cfg(feature = "real")]
            Backing::Real(real) => Ok(Self::Postgres(
                Postgres::open(&real.postgres, &real.schema, name).await?,
            )),
        }
    }

    /// Closes it.
    pub async fn close(&self) {
        either!(self, it => it.close().await);
    }

    /// Where the keys of a service are kept. Those of notifications are in Redis where there is one, as described; those of
    /// the others stand beside the effects, so that both are written in one transaction.
    pub(crate) async fn keys(
        &self,
        backing: &Backing,
        name: Name,
    ) -> anyhow::Result<Arc<dyn IdempotencyStore>> {
        #[cfg(feature = "real")]
        if let (Backing::Real(real), Name::Notifications) = (backing, name) {
            use retryguard_store::idempotency::RedisStore;
            return Ok(Arc::new(RedisStore::connect(&real.redis).await?));
        }
        let _ = (backing, name);
        Ok(match self {
            Self::Sqlite(it) => Arc::new(SqliteStore::with_pool(it.pool().clone()).await?),
            #[cfg(feature = "real")]
            Self::Postgres(it) => Arc::new(PostgresStore::with_pool(it.pool().clone()).await?),
        })
    }

    /// An outbox in this database, and its tables.
    pub(crate) async fn outbox(&self) -> anyhow::Result<Outbox> {
        Ok(match self {
            Self::Sqlite(it) => {
                migrations::sqlite(it.pool()).await?;
                Outbox::Sqlite(SqliteOutbox::new(it.pool().clone()))
            }
            #[cfg(feature = "real")]
            Self::Postgres(it) => {
                migrations::postgres(it.pool()).await?;
                Outbox::Postgres(PostgresOutbox::new(it.pool().clone()))
            }
        })
    }

    /// The row of a new order; the row that it had where it was begun before under the same key and not ended.
    pub(crate) async fn insert_order(
        &self,
        reference: &str,
        amount: i64,
        key: Option<&str>,
    ) -> sqlx::Result<i64> {
        either!(self, it => it.insert_order(reference, amount, key).await)
    }

    pub(crate) async fn set_status(&self, number: i64, status: &str) -> sqlx::Result<()> {
        either!(self, it => it.set_status(number, status).await)
    }

    /// The latest row of an order.
    pub(crate) async fn order(&self, reference: &str) -> sqlx::Result<Option<OrderRow>> {
        either!(self, it => it.order(reference).await)
    }

    /// Makes a charge; the answer is made from its number.
    pub(crate) async fn charge(
        &self,
        reference: &str,
        amount: i64,
        finish: impl FnOnce(i64) -> Finish,
    ) -> Result<Response<Body>, DatabaseError> {
        either!(self, it => it.charge(reference, amount, finish).await)
    }

    /// Records that a customer was notified.
    pub(crate) async fn notify(
        &self,
        reference: &str,
        finish: Finish,
    ) -> Result<Response<Body>, DatabaseError> {
        either!(self, it => it.notify(reference, finish).await)
    }

    /// Notes that an order is paid, with the event that its customer is to be told where there is an outbox: one
    /// transaction.
    pub(crate) async fn conclude(
        &self,
        number: i64,
        event: Option<(&Outbox, &Event)>,
        finish: Finish,
    ) -> Result<Response<Body>, DatabaseError> {
        match self {
            Self::Sqlite(it) => {
                let event = event.and_then(|(outbox, event)| Some((outbox.sqlite()?, event)));
                it.conclude(number, event, finish).await
            }
            #[cfg(feature = "real")]
            Self::Postgres(it) => {
                let event = event.and_then(|(outbox, event)| Some((outbox.postgres()?, event)));
                it.conclude(number, event, finish).await
            }
        }
    }

    /// Fills the shelves, unless they are filled.
    pub(crate) async fn stock_up(&self, goods: u32, each: i64) -> sqlx::Result<()> {
        either!(self, it => it.stock_up(goods, each).await)
    }

    /// Locks the rows of the goods, holds them, takes the goods and frees the rows.
    pub(crate) async fn reserve(
        &self,
        wanted: &Reservation,
        finish: Finish,
    ) -> Result<Reserved, DatabaseError> {
        either!(self, it => it.reserve(wanted, finish).await)
    }

    /// All rows and the different orders among them.
    pub(crate) async fn count(&self, table: Table) -> sqlx::Result<(u64, u64)> {
        either!(self, it => it.count(table).await)
    }
}
