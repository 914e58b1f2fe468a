//! A store that is full refuses new keys with a clear error, and works again when there is room.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use retryguard_parts::{Postgres, Redis};
use retryguard_store::{
    StoreError,
    idempotency::{
        Asked, Fingerprint, IdempotencyStore, KeyId, MemoryStore, PostgresStore, RedisStore, SqliteStore,
        Standing, StoredResponse,
    },
};

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn put(store: &dyn IdempotencyStore, number: usize) -> Result<(), StoreError> {
    let asked = Asked {
        id: KeyId::of(&[&number.to_be_bytes()]),
        fingerprint: Fingerprint::of(&[]),
        lock: DAY,
        keep: DAY,
    };
    let response = StoredResponse {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Some(Bytes::from(vec![b'x'; 50_000])),
    };
    match store.claim(asked).await? {
        Standing::Yours(held) => store.complete(held, &response, DAY).await.map(drop),
        _ => Ok(()),
    }
}

/// Writes until it is full, and says with what.
async fn fill(store: &dyn IdempotencyStore) -> StoreError {
    for number in 0..1_000 {
        if let Err(error) = put(store, number).await {
            return error;
        }
    }
    panic!("50 MB fit where there was room for less");
}

fn assert_full(error: &StoreError) {
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("store is full"), "{error}");
}

#[tokio::test]
async fn memory() {
    let store = MemoryStore::with_room(1_000, 1_000_000);
    assert_full(&fill(&store).await);
    let store = MemoryStore::with_room(5, 100_000_000);
    assert_full(&fill(&store).await);
}

/// One caller filled the store with its own keys, and every other payment was refused.
#[tokio::test]
async fn one_caller_cannot_fill_the_memory_of_all() {
    async fn put(store: &MemoryStore, caller: &str, number: usize, size: usize) -> Result<(), StoreError> {
        let asked = Asked {
            id: KeyId::of_caller(caller.as_bytes(), &[caller.as_bytes(), &number.to_be_bytes()]),
            fingerprint: Fingerprint::of(&[]),
            lock: DAY,
            keep: DAY,
        };
        let response = StoredResponse {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: Some(Bytes::from(vec![b'x'; size])),
        };
        match store.claim(asked).await? {
            Standing::Yours(held) => store.complete(held, &response, DAY).await.map(drop),
            _ => Ok(()),
        }
    }
    let store = MemoryStore::with_room(1_000, 1_000_000);
    let mut kept = Vec::new();
    for caller in ["a", "b", "c", "d"] {
        let mut number = 0;
        while put(&store, caller, number, 1).await.is_ok() {
            number += 1;
        }
        assert_full(&put(&store, caller, number, 1).await.unwrap_err());
        kept.push(number);
    }
    assert_eq!(kept, [500, 250, 125, 63], "each half of what the others leave");
    put(&store, "e", 0, 1).await.unwrap();
    let store = MemoryStore::with_room(1_000, 1_000);
    put(&store, "a", 1, 400).await.unwrap();
    assert_full(&put(&store, "a", 2, 200).await.unwrap_err());
    put(&store, "b", 1, 200).await.unwrap();
}

#[tokio::test]
async fn sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("keys.db")).await.unwrap();
    let limit = |pages: u32| sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
    sqlx::query(limit(200)).execute(store.pool()).await.unwrap();
    assert_full(&fill(&store).await);
    sqlx::query(limit(100_000)).execute(store.pool()).await.unwrap();
    put(&store, 5_000).await.unwrap();
}

#[tokio::test]
#[ignore = "needs Redis"]
async fn redis() {
    let server = Redis::start();
    let store = Arc::new(RedisStore::connect(&server.url()).await.unwrap());
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut set = async |value: &str| {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("maxmemory").arg(value);
        let _: () = command.query_async(&mut connection).await.unwrap();
    };
    set("3mb").await;
    assert_full(&fill(store.as_ref()).await);
    set("0").await;
    put(store.as_ref(), 5_000).await.unwrap();
}

/// A disk cannot be filled in a test that shares it with others. So a trigger raises what PostgreSQL itself raises
/// then (53100); everything else is real.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    let server = Postgres::start();
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    sqlx::raw_sql(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
         CREATE TRIGGER full_disk BEFORE INSERT ON retryguard_idempotency EXECUTE FUNCTION full_disk();",
    )
    .execute(store.pool())
    .await
    .unwrap();
    assert_full(&fill(&store).await);
    let drop = "DROP TRIGGER full_disk ON retryguard_idempotency";
    sqlx::raw_sql(drop).execute(store.pool()).await.unwrap();
    put(&store, 5_000).await.unwrap();
}
