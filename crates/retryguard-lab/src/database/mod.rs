//! The databases: what really happened is read from here, and nowhere inferred.

mod any;
#[cfg(feature = "real")]
mod postgres;
mod reservation;
mod sqlite;
mod statements;

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use retryguard_store::{
    StoreError,
    idempotency::{Claim, Transactional},
};
use serde::{Deserialize, Serialize};

pub use any::Database;
pub(crate) use any::Outbox;
#[cfg(feature = "real")]
pub use postgres::Postgres;
pub use sqlite::Sqlite;

/// Why a request to a database failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// A statement failed.
    #[error(transparent)]
    Statement(#[from] sqlx::Error),
    /// The key or the event could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is answered once an effect is written, and the key under which the answer is stored with it.
pub(crate) struct Finish {
    pub(crate) claim: Option<Claim>,
    pub(crate) response: Response<Bytes>,
}

impl Finish {
    /// An answer in JSON.
    pub(crate) fn created(claim: Option<Claim>, body: &impl Serialize) -> Self {
        let mut response = Response::new(Bytes::from(serde_json::to_vec(body).unwrap_or_default()));
        *response.status_mut() = http::StatusCode::CREATED;
        response.headers_mut().insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("application/json"),
        );
        Self { claim, response }
    }

    /// Stores the answer under its key, in the transaction of the effect.
    async fn write(self, connection: &mut impl Transactional) -> Result<Response<Body>, StoreError> {
        match self.claim {
            Some(claim) => claim.complete_in(connection, self.response).await,
            None => Ok(self.response.map(Body::from)),
        }
    }

    /// The answer alone.
    #[cfg(feature = "real")]
    fn plain(self) -> Response<Body> {
        self.response.map(Body::from)
    }
}

/// A reservation to be made.
pub(crate) struct Reservation {
    pub(crate) order: String,
    /// Every kind once, in order.
    pub(crate) items: Vec<Item>,
    /// How long the rows stay locked.
    pub(crate) hold: Duration,
    /// How long they stay locked where their holder has died and the database does not see it.
    pub(crate) lease: Duration,
    /// Tells holders apart where the lock is written into the row.
    pub(crate) holder: i64,
}

/// What became of a reservation.
pub(crate) enum Reserved {
    Done(Response<Body>),
    /// One of the goods is not on sale.
    Unknown,
    /// There is not enough of one of them.
    TooFew,
}

/// What can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Orders,
    Paid,
    Charges,
    Reservations,
    Notifications,
}

impl Table {
    /// All rows and the different orders among them, in words that both databases understand.
    const fn count(self) -> &'static str {
        match self {
            Self::Orders => "SELECT COUNT(*), COUNT(DISTINCT reference) FROM orders",
            Self::Charges => "SELECT COUNT(*), COUNT(DISTINCT reference) FROM charges",
            // An order has a row for each kind of goods: the most rows of one kind are its reservations.
            Self::Reservations => {
                "SELECT CAST(COALESCE(SUM(times), 0) AS BIGINT), COUNT(*) FROM
                 (SELECT MAX(rows) AS times FROM
                  (SELECT reference, sku, COUNT(*) AS rows FROM reservations GROUP BY reference, sku) AS kinds
                  GROUP BY reference) AS orders"
            }
            Self::Notifications => "SELECT COUNT(*), COUNT(DISTINCT reference) FROM notifications",
            Self::Paid => "SELECT COUNT(*), COUNT(DISTINCT reference) FROM orders WHERE status = 'paid'",
        }
    }
}

/// One kind of goods, and how many of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Which.
    pub sku: u32,
    /// How many.
    pub quantity: u32,
}

/// What an order has come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrderRow {
    /// The customer's own reference.
    pub order: String,
    /// `pending`, `paid`, `payment_failed` or `not_reserved`.
    pub status: String,
    /// What it costs, in cents.
    pub amount: i64,
}

/// What the databases hold at the end: the only witness of duplicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    /// Rows of orders.
    pub orders: u64,
    /// Different orders among them.
    pub distinct_orders: u64,
    /// Rows of orders that were paid.
    pub paid_orders: u64,
    /// Charges made.
    pub charges: u64,
    /// Different orders that were charged.
    pub charged_orders: u64,
    /// Reservations made.
    pub reservations: u64,
    /// Different orders that have one.
    pub reserved_orders: u64,
    /// Notifications delivered.
    pub notifications: u64,
    /// Different orders whose customers were notified.
    pub notified_orders: u64,
}

impl Effects {
    /// Counts what a database holds.
    ///
    /// # Errors
    /// Where it does not answer.
    pub(crate) async fn of(database: &Database) -> sqlx::Result<Self> {
        let (orders, distinct_orders) = database.count(Table::Orders).await?;
        let (paid_orders, _) = database.count(Table::Paid).await?;
        let (charges, charged_orders) = database.count(Table::Charges).await?;
        let (reservations, reserved_orders) = database.count(Table::Reservations).await?;
        let (notifications, notified_orders) = database.count(Table::Notifications).await?;
        Ok(Self {
            orders,
            distinct_orders,
            paid_orders,
            charges,
            charged_orders,
            reservations,
            reserved_orders,
            notifications,
            notified_orders,
        })
    }

    /// These and others of another database.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            orders: self.orders + other.orders,
            distinct_orders: self.distinct_orders + other.distinct_orders,
            paid_orders: self.paid_orders + other.paid_orders,
            charges: self.charges + other.charges,
            charged_orders: self.charged_orders + other.charged_orders,
            reservations: self.reservations + other.reservations,
            reserved_orders: self.reserved_orders + other.reserved_orders,
            notifications: self.notifications + other.notifications,
            notified_orders: self.notified_orders + other.notified_orders,
        }
    }

    /// Charges beyond the first of an order: money taken twice.
    #[must_use]
    pub const fn duplicate_charges(&self) -> u64 {
        self.charges - self.charged_orders
    }

    /// Rows beyond the first of an order.
    #[must_use]
    pub const fn duplicate_orders(&self) -> u64 {
        self.orders - self.distinct_orders
    }

    /// Reservations beyond the first of an order.
    #[must_use]
    pub const fn duplicate_reservations(&self) -> u64 {
        self.reservations - self.reserved_orders
    }

    /// Notifications beyond the first of an order.
    #[must_use]
    pub const fn duplicate_notifications(&self) -> u64 {
        self.notifications - self.notified_orders
    }
}
