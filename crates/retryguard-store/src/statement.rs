//! Statements of this crate for a driver that it does not know.

use bytes::Bytes;

/// A statement and its values, to be executed in a transaction of the caller's by any driver: diesel, sea-orm,
/// tokio-postgres, rusqlite. Placeholders are those of the database: `$1` for PostgreSQL, `?1` for SQLite.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The SQL.
    pub text: &'static str,
    /// The values of its placeholders, in order.
    pub values: Vec<Value>,
}

/// A value of a placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `BIGINT`.
    Integer(i64),
    /// `BOOLEAN`; 0 or 1 in SQLite.
    Boolean(bool),
    /// `TEXT`, or NULL.
    Text(Option<String>),
    /// `BYTEA` or `BLOB`, or NULL.
    Bytes(Option<Bytes>),
}

impl Statement {
    pub(crate) const fn new(text: &'static str, values: Vec<Value>) -> Self {
        Self { text, values }
    }

    /// As a query of sqlx.
    pub(crate) fn query<'q, DB>(&self) -> sqlx::query::Query<'q, DB, DB::Arguments>
    where
        DB: sqlx::Database,
        i64: for<'t> sqlx::Encode<'t, DB> + sqlx::Type<DB>,
        bool: for<'t> sqlx::Encode<'t, DB> + sqlx::Type<DB>,
        Option<String>: for<'t> sqlx::Encode<'t, DB> + sqlx::Type<DB>,
        for<'t> Option<&'t [u8]>: sqlx::Encode<'t, DB> + sqlx::Type<DB>,
    {
        self.values
            .iter()
            .fold(sqlx::query(self.text), |query, value| match value {
                Value::Integer(value) => query.bind(*value),
                Value::Boolean(value) => query.bind(*value),
                Value::Text(value) => query.bind(value.clone()),
                Value::Bytes(value) => query.bind(value.as_deref()),
            })
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<Option<String>> for Value {
    fn from(value: Option<String>) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(Some(value.to_owned()))
    }
}

impl From<Option<Bytes>> for Value {
    fn from(value: Option<Bytes>) -> Self {
        Self::Bytes(value)
    }
}

impl From<[u8; 32]> for Value {
    fn from(value: [u8; 32]) -> Self {
        Self::Bytes(Some(Bytes::copy_from_slice(&value)))
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(Some(value.into()))
    }
}
