//! A store of each backend, new and empty.

use std::{path::Path, sync::Arc};

use retryguard_parts::{Postgres, Redis};
use retryguard_store::idempotency::{IdempotencyStore, MemoryStore, PostgresStore, RedisStore, SqliteStore};
use tempfile::TempDir;

/// A store and what it stands on; dropped together.
pub(crate) struct Place {
    pub(crate) store: Arc<dyn IdempotencyStore>,
    /// Where another store on the same records is opened; none for memory.
    pub(crate) address: Option<String>,
    _redis: Option<Redis>,
    _postgres: Option<Postgres>,
    _folder: Option<TempDir>,
}

/// Opens a store by its address: a path, or the address of a server.
pub(crate) async fn open(address: &str) -> Arc<dyn IdempotencyStore> {
    if address.starts_with("redis:") {
        Arc::new(RedisStore::connect(address).await.unwrap())
    } else if address.starts_with("postgres:") {
        Arc::new(PostgresStore::connect(address).await.unwrap())
    } else {
        Arc::new(SqliteStore::open(Path::new(address)).await.unwrap())
    }
}

pub(crate) fn memory() -> Place {
    Place {
        store: Arc::new(MemoryStore::new()),
        address: None,
        _redis: None,
        _postgres: None,
        _folder: None,
    }
}

pub(crate) async fn sqlite() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let address = folder.path().join("keys.db").to_string_lossy().into_owned();
    Place {
        store: open(&address).await,
        address: Some(address),
        _folder: Some(folder),
        ..memory()
    }
}

pub(crate) async fn redis() -> Place {
    let redis = Redis::start();
    Place {
        store: open(&redis.url()).await,
        address: Some(redis.url()),
        _redis: Some(redis),
        ..memory()
    }
}

pub(crate) async fn postgres() -> Place {
    let postgres = Postgres::start();
    Place {
        store: open(&postgres.url()).await,
        address: Some(postgres.url()),
        _postgres: Some(postgres),
        ..memory()
    }
}
