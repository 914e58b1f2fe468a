//! PostgreSQL: one schema for all services of a system, real row locks, and keys and events in the transactions of the
//! effects.

use std::{str::FromStr as _, time::Duration};

use anyhow::Context as _;
use axum::body::Body;
use http::Response;
use retryguard_store::outbox::{Event, PostgresOutbox};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use super::{
    DatabaseError, Effects, Finish, Reservation, Reserved,
    reservation::{Lock, StockResult, written},
    statements::statements,
};
use crate::{clock, name::Name};

/// A schema of a PostgreSQL database, as one service uses it.
#[derive(Debug, Clone)]
pub struct Postgres {
    pool: PgPool,
}

/// Any constant of ours: one service at a time makes the tables.
const LOCK: i64 = 0x6c61_625f_7461_626c;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS orders (
    number BIGSERIAL PRIMARY KEY, reference TEXT NOT NULL, amount BIGINT NOT NULL,
    status TEXT NOT NULL, at BIGINT NOT NULL, key TEXT UNIQUE);
CREATE INDEX IF NOT EXISTS orders_by_reference ON orders (reference);
CREATE TABLE IF NOT EXISTS charges (
    number BIGSERIAL PRIMARY KEY, reference TEXT NOT NULL, amount BIGINT NOT NULL, at BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS stock (
    sku BIGINT PRIMARY KEY, quantity BIGINT NOT NULL CHECK (quantity >= 0));
CREATE TABLE IF NOT EXISTS reservations (
    number BIGSERIAL PRIMARY KEY, reference TEXT NOT NULL, sku BIGINT NOT NULL, quantity BIGINT NOT NULL,
    at BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS notifications (
    number BIGSERIAL PRIMARY KEY, reference TEXT NOT NULL, at BIGINT NOT NULL);
";

statements!(Postgres);

impl Postgres {
    /// Connects a service to its schema, and makes the tables where they are missing.
    ///
    /// # Errors
    /// Where the server cannot be reached or its database not be written.
    pub async fn open(url: &str, schema: &str, name: Name) -> anyhow::Result<Self> {
        let connections = match name {
            Name::Gateway => 1,
            // A reservation holds a connection for as long as it holds its rows.
            Name::Inventory => 32,
            Name::Orders | Name::Payments => 16,
            Name::Notifications => 8,
        };
        let database = Self::connect(url, schema, connections)?;
        // The gateway writes nothing, and needs no connection until it does.
        if name != Name::Gateway {
            database
                .make_tables(schema)
                .await
                .with_context(|| format!("cannot use PostgreSQL at {}", shown(url)))?;
        }
        Ok(database)
    }

    fn connect(url: &str, schema: &str, connections: u32) -> anyhow::Result<Self> {
        let plain = schema
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if schema.is_empty() || schema.len() > 60 || !plain {
            anyhow::bail!("`{schema}` is not a schema: use up to 60 of a-z, 0-9 and _");
        }
        let options = PgConnectOptions::from_str(url)
            .with_context(|| {
                format!(
                    "`{}` is not an address of PostgreSQL: write postgres://USER@HOST:PORT/DATABASE",
                    shown(url)
                )
            })?
            .options([("search_path", schema), ("synchronous_commit", "off")]);
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(Duration::from_secs(30))
            .connect_lazy_with(options);
        Ok(Self { pool })
    }

    async fn make_tables(&self, schema: &str) -> sqlx::Result<()> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("SELECT pg_advisory_xact_lock($1)")
            .bind(LOCK)
            .execute(&mut *transaction)
            .await?;
        // Checked above: nothing in the name needs quotes.
        let schema = format!("CREATE SCHEMA IF NOT EXISTS {schema}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(schema))
            .execute(&mut *transaction)
            .await?;
        sqlx::raw_sql(TABLES).execute(&mut *transaction).await?;
        transaction.commit().await
    }

    /// Counts the effects of all services in a schema.
    ///
    /// # Errors
    /// Where the server cannot be reached.
    pub async fn effects(url: &str, schema: &str) -> anyhow::Result<Effects> {
        let database = Self::connect(url, schema, 1)?;
        let effects = Effects::of(&super::Database::Postgres(database.clone())).await?;
        database.close().await;
        Ok(effects)
    }

    /// The schemas that experiments have made on a server and not removed.
    ///
    /// # Errors
    /// Where the server cannot be reached.
    pub async fn schemas(url: &str) -> anyhow::Result<Vec<String>> {
        let database = Self::connect(url, "public", 1)?;
        let names =
            sqlx::query_scalar("SELECT nspname::text FROM pg_namespace WHERE nspname ~ '^lab_[0-9a-f]{16}$'")
                .fetch_all(&database.pool)
                .await?;
        database.close().await;
        Ok(names)
    }

    /// Removes a schema with all that is in it.
    ///
    /// # Errors
    /// Where the server cannot be reached.
    pub async fn remove(url: &str, schema: &str) -> anyhow::Result<()> {
        let database = Self::connect(url, schema, 1)?;
        let text = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
        sqlx::raw_sql(sqlx::AssertSqlSafe(text))
            .execute(&database.pool)
            .await?;
        database.close().await;
        Ok(())
    }

    /// The connections, for what is written in one transaction with the rows of others.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Closes the connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    pub(crate) async fn charge(
        &self,
        reference: &str,
        amount: i64,
        finish: impl FnOnce(i64) -> Finish,
    ) -> Result<Response<Body>, DatabaseError> {
        let mut transaction = self.pool.begin().await?;
        let number: i64 = sqlx::query_scalar(
            "INSERT INTO charges (reference, amount, at) VALUES ($1, $2, $3) RETURNING number",
        )
        .bind(reference)
        .bind(amount)
        .bind(clock::wall_millis())
        .fetch_one(&mut *transaction)
        .await?;
        let response = finish(number).write(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(response)
    }

    /// The key of a notification is in Redis, which is not part of this transaction: the layer stores the answer
    /// afterwards.
    pub(crate) async fn notify(
        &self,
        reference: &str,
        finish: Finish,
    ) -> Result<Response<Body>, DatabaseError> {
        sqlx::query("INSERT INTO notifications (reference, at) VALUES ($1, $2)")
            .bind(reference)
            .bind(clock::wall_millis())
            .execute(&self.pool)
            .await?;
        Ok(finish.plain())
    }

    pub(crate) async fn conclude(
        &self,
        number: i64,
        event: Option<(&PostgresOutbox, &Event)>,
        finish: Finish,
    ) -> Result<Response<Body>, DatabaseError> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("UPDATE orders SET status = 'paid' WHERE number = $1")
            .bind(number)
            .execute(&mut *transaction)
            .await?;
        if let Some((outbox, event)) = event {
            outbox.put(&mut transaction, event).await?;
        }
        let response = finish.write(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(response)
    }

    pub(crate) async fn stock_up(&self, goods: u32, each: i64) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO stock (sku, quantity) SELECT sku, $2 FROM generate_series(0, $1 - 1) AS sku
             ON CONFLICT DO NOTHING",
        )
        .bind(i64::from(goods))
        .bind(each)
        .execute(&self.pool)
        .await
        .map(|_| ())
    }

    /// The rows are locked in order, so that two orders never wait for each other's. One that is stopped rolls back, and
    /// its rows are free.
    pub(crate) async fn reserve(
        &self,
        wanted: &Reservation,
        finish: Finish,
    ) -> Result<Reserved, DatabaseError> {
        let skus: Vec<i64> = wanted.items.iter().map(|item| i64::from(item.sku)).collect();
        let quantities: Vec<i64> = wanted.items.iter().map(|item| i64::from(item.quantity)).collect();
        let mut transaction = self.pool.begin().await?;
        let locked = sqlx::query("SELECT sku FROM stock WHERE sku = ANY($1) ORDER BY sku FOR UPDATE")
            .bind(&skus)
            .fetch_all(&mut *transaction)
            .await?;
        // The server itself waits for rows that another holds, so that a row that is not locked is not there.
        if Lock::of(skus.len(), locked.len(), locked.len()) != Lock::Held {
            transaction.rollback().await?;
            return Ok(Reserved::Unknown);
        }
        clock::sleep(wanted.hold).await;
        let taken = sqlx::query(
            "WITH wanted AS (SELECT * FROM unnest($2::bigint[], $3::bigint[]) AS w (sku, quantity)),
             taken AS (UPDATE stock SET quantity = stock.quantity - wanted.quantity FROM wanted
                       WHERE stock.sku = wanted.sku)
             INSERT INTO reservations (reference, sku, quantity, at) SELECT $1, sku, quantity, $4 FROM wanted",
        )
        .bind(&wanted.order)
        .bind(&skus)
        .bind(&quantities)
        .bind(clock::wall_millis())
        .execute(&mut *transaction)
        .await
        .map(|done| done.rows_affected());
        if StockResult::of(skus.len(), written(taken)?) != StockResult::Done {
            transaction.rollback().await?;
            return Ok(Reserved::TooFew);
        }
        let response = finish.write(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(Reserved::Done(response))
    }
}

/// An address without what may be a password.
fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    }
}
