//! The tables, made by the program itself.
//!
//! Run [`sqlite`] or [`postgres`] at every start: what is there already is left alone, and several processes
//! may do so at once. A table is changed by another numbered step, never by editing an old one.

use crate::{Backend, StoreError};

/// One step: its number and its statements. Numbers are never reused.
struct Step {
    number: i64,
    sql: &'static str,
}

macro_rules! steps {
    ($folder:literal: $($number:literal $file:literal),*) => {
        &[$(Step {
            number: $number,
            sql: include_str!(concat!("../migrations/", $folder, "/", $file, ".sql")),
        }),*]
    };
}

#[cfg(feature = "sqlite")]
const SQLITE: &[Step] = steps!(
    "sqlite": 1 "0001_idempotency", 2 "0002_outbox", 3 "0003_lock_length", 4 "0004_outbox_clock"
);

#[cfg(feature = "postgres")]
const POSTGRES: &[Step] = steps!(
    "postgres": 1 "0001_idempotency", 2 "0002_outbox", 3 "0003_lock_length", 4 "0004_outbox_parts", 5 "0005_idempotency_store"
);

/// Makes the tables of this crate in a SQLite database.
///
/// # Errors
/// Where the database cannot be written.
#[cfg(feature = "sqlite")]
pub async fn sqlite(pool: &sqlx::SqlitePool) -> Result<(), StoreError> {
    let failed = |error| StoreError::from_sqlx(Backend::Sqlite, error);
    // Immediate: of several processes, one migrates, and the others wait for it before they look.
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS retryguard_migrations (number INTEGER PRIMARY KEY)")
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
    for step in SQLITE {
        let done =
            sqlx::query("INSERT INTO retryguard_migrations (number) VALUES (?) ON CONFLICT DO NOTHING")
                .bind(step.number)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        if done.rows_affected() == 1 {
            sqlx::raw_sql(step.sql)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        }
    }
    transaction.commit().await.map_err(failed)
}

/// Makes the tables of this crate in a PostgreSQL database, in the first schema of the search path.
///
/// # Errors
/// Where the database cannot be reached or written.
#[cfg(feature = "postgres")]
pub async fn postgres(pool: &sqlx::PgPool) -> Result<(), StoreError> {
    /// Any constant of ours: the lock lets one process migrate at a time. `CREATE TABLE IF NOT EXISTS` alone
    /// is not safe against another that runs at the same moment.
    const LOCK: i64 = 0x5265_7472_7947_7561;
    let failed = |error| StoreError::from_sqlx(Backend::Postgres, error);
    let mut transaction = pool.begin().await.map_err(failed)?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(LOCK)
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS retryguard_migrations (number BIGINT PRIMARY KEY)")
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
    for step in POSTGRES {
        let done =
            sqlx::query("INSERT INTO retryguard_migrations (number) VALUES ($1) ON CONFLICT DO NOTHING")
                .bind(step.number)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        if done.rows_affected() == 1 {
            sqlx::raw_sql(step.sql)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        }
    }
    transaction.commit().await.map_err(failed)
}
