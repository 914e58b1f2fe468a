//! The databases: what really happened is read from here, and nowhere inferred.

mod sqlite;

use serde::{Deserialize, Serialize};

pub use sqlite::Sqlite;
pub(crate) use sqlite::Table;

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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
    /// Different orders that were told.
    pub notified_orders: u64,
}

impl Effects {
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
