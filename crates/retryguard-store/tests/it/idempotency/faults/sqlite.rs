//! Faults of a SQLite file.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{Router, routing::post};
use retryguard_store::idempotency::SqliteStore;
use sqlx::SqlitePool;

use super::{
    super::payments::{Payments, sqlite_pool},
    Fault, World, form, layer, pay, survives,
};

struct Sqlite {
    pool: SqlitePool,
    file: String,
    held: Option<sqlx::pool::PoolConnection<sqlx::Sqlite>>,
    writer: Option<(SqlitePool, sqlx::Transaction<'static, sqlx::Sqlite>)>,
    _folder: tempfile::TempDir,
}

impl Sqlite {
    /// On the connection that the store and the handlers use.
    async fn set(&self, pragma: &'static str) {
        sqlx::raw_sql(pragma).execute(&self.pool).await.unwrap();
    }

    /// From another connection, as the clock's change would come from outside.
    async fn shift(&self, statement: &'static str) {
        let other = sqlite_pool(&self.file).await;
        sqlx::raw_sql(statement).execute(&other).await.unwrap();
        other.close().await;
    }
}

impl World for Sqlite {
    const FAULTS: &'static [Fault] = &[
        Fault::ReadOnly,
        Fault::Full,
        Fault::Deadlock,
        Fault::Exhausted,
        Fault::ClockBack,
        Fault::ClockForward,
    ];

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::ReadOnly => self.set("PRAGMA query_only = on").await,
            Fault::Full => self.set("PRAGMA max_page_count = 1").await,
            // Another process holds the file's only lock, and does not let go.
            Fault::Deadlock => {
                let pool = sqlite_pool(&self.file).await;
                let transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                self.writer = Some((pool, transaction));
            }
            Fault::Exhausted => self.held = Some(self.pool.acquire().await.unwrap()),
            Fault::ClockBack => {
                self.shift(
                    "UPDATE retryguard_idempotency
                     SET locked_until = locked_until + 3600000000, expires_at = expires_at + 3600000000",
                )
                .await;
            }
            Fault::ClockForward => {
                self.shift(
                    "UPDATE retryguard_idempotency
                     SET locked_until = locked_until - 3600000000, expires_at = expires_at - 3600000000",
                )
                .await;
            }
            Fault::Cut | Fault::Kill => panic!("a file has no server"),
        }
    }

    async fn end(&mut self, fault: Fault) {
        match fault {
            Fault::ReadOnly => self.set("PRAGMA query_only = off").await,
            Fault::Full => self.set("PRAGMA max_page_count = 1000000").await,
            Fault::Deadlock => {
                let (pool, transaction) = self.writer.take().unwrap();
                transaction.rollback().await.unwrap();
                pool.close().await;
            }
            Fault::Exhausted => self.held = None,
            _ => {}
        }
    }

    async fn effects(&self) -> HashMap<String, Vec<String>> {
        Payments::Sqlite(self.pool.clone()).effects().await
    }
}

async fn sqlite_survives(in_transaction: bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.db").to_string_lossy().into_owned();
    drop(Payments::open(&file).await);
    // One connection for all, so that what is set on it holds for all.
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&file)
        .busy_timeout(Duration::from_millis(300));
    let pool = sqlx::sqlite::SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(1))
        .connect_with(options)
        .await
        .unwrap();
    let store = Arc::new(SqliteStore::with_pool(pool.clone()).await.unwrap());
    let app = Router::new()
        .route("/pay", post(pay))
        .layer(layer(store).in_transaction(in_transaction))
        .with_state(Payments::Sqlite(pool.clone()));
    let world = Sqlite {
        pool,
        file,
        held: None,
        writer: None,
        _folder: folder,
    };
    survives(form("SQLite", in_transaction), world, app).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    sqlite_survives(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_in_one_transaction() {
    sqlite_survives(true).await;
}
