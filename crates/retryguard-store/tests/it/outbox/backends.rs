//! One outbox of each backend, behind one face for the tests.

use std::{future::Future, sync::Arc, time::Duration};

use retryguard_store::{
    StoreError, migrations,
    outbox::{Event, MemoryOutbox, OutboxStore, PostgresOutbox, SqliteOutbox},
};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use tempfile::TempDir;

/// An outbox that tests write to.
pub(crate) trait Place: Send + Sync {
    type Store: OutboxStore;

    fn store(&self) -> &Self::Store;

    /// Writes events in one transaction.
    fn put(&self, events: &[Event]) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl Place for MemoryOutbox {
    type Store = Self;

    fn store(&self) -> &Self {
        self
    }

    async fn put(&self, events: &[Event]) -> Result<(), StoreError> {
        MemoryOutbox::put(self, events)
    }
}

pub(crate) struct Sqlite {
    pub(crate) pool: sqlx::SqlitePool,
    pub(crate) outbox: SqliteOutbox,
    pub(crate) file: std::path::PathBuf,
    _folder: TempDir,
}

impl Sqlite {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("outbox.db");
        let pool = sqlite_pool(&file).await;
        migrations::sqlite(&pool).await.unwrap();
        let outbox = SqliteOutbox::new(pool.clone());
        Self {
            pool,
            outbox,
            file,
            _folder: folder,
        }
    }
}

/// A database as the documentation asks for it.
pub(crate) async fn sqlite_pool(file: &std::path::Path) -> sqlx::SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(sqlx::sqlite::SqliteSynchronous::Normal)
        .busy_timeout(Duration::from_secs(20));
    SqlitePoolOptions::new()
        .max_connections(4)
        .connect_with(options)
        .await
        .unwrap()
}

impl Place for Sqlite {
    type Store = SqliteOutbox;

    fn store(&self) -> &SqliteOutbox {
        &self.outbox
    }

    async fn put(&self, events: &[Event]) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        for event in events {
            self.outbox.put(&mut transaction, event).await?;
        }
        transaction.commit().await.unwrap();
        self.outbox.wake();
        Ok(())
    }
}

pub(crate) struct Postgres {
    pub(crate) pool: sqlx::PgPool,
    pub(crate) outbox: PostgresOutbox,
    pub(crate) url: String,
    /// Stopped when the last test that uses it has ended.
    server: Option<Arc<retryguard_parts::Postgres>>,
}

impl Postgres {
    /// A database of its own on a server that the tests of this program share.
    pub(crate) async fn database() -> Self {
        let (server, url) = crate::servers::postgres_database().await;
        let mut place = Self::at(&url).await;
        place.server = Some(server);
        place
    }

    pub(crate) async fn at(url: &str) -> Self {
        let pool = postgres_pool(url).await;
        migrations::postgres(&pool).await.unwrap();
        let outbox = PostgresOutbox::new(pool.clone()).limit(Duration::from_secs(20));
        Self {
            pool,
            outbox,
            url: url.to_owned(),
            server: None,
        }
    }
}

pub(crate) async fn postgres_pool(url: &str) -> sqlx::PgPool {
    sqlx::postgres::PgPoolOptions::new()
        .max_connections(6)
        .acquire_timeout(Duration::from_secs(20))
        .connect(url)
        .await
        .unwrap()
}

impl Place for Postgres {
    type Store = PostgresOutbox;

    fn store(&self) -> &PostgresOutbox {
        &self.outbox
    }

    async fn put(&self, events: &[Event]) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await.unwrap();
        for event in events {
            self.outbox.put(&mut transaction, event).await?;
        }
        transaction.commit().await.unwrap();
        self.outbox.wake();
        Ok(())
    }
}
