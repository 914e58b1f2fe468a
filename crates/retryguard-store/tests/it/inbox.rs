//! The inbox on every backend: an event that comes again, also at the same moment, counts once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use retryguard_store::inbox::{MemoryInbox, PostgresInbox, RedisInbox, SqliteInbox};

use crate::outbox::backends::{Postgres, Sqlite};

const RACERS: usize = 8;
const EVENTS: usize = 20;
const LONG: Duration = Duration::from_secs(60);

/// Delivers every event to several consumers at once.
async fn race<F>(deliver: impl Fn(String) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for event in 0..EVENTS {
        let racers: Vec<_> = (0..RACERS)
            .map(|_| tokio::spawn(deliver(format!("event-{event}"))))
            .collect();
        for racer in racers {
            racer.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory() {
    let (inbox, effects) = (MemoryInbox::new(), Arc::new(AtomicUsize::new(0)));
    race(|id| {
        let (inbox, effects) = (inbox.clone(), effects.clone());
        async move {
            if let Some(first) = inbox.first(&id).await.unwrap() {
                tokio::task::yield_now().await;
                effects.fetch_add(1, Ordering::SeqCst);
                first.done();
            }
        }
    })
    .await;
    assert_eq!(effects.load(Ordering::SeqCst), EVENTS);
    // An effect that did not happen leaves no mark.
    drop(inbox.first("failed").await.unwrap());
    assert!(inbox.first("failed").await.unwrap().is_some());
    assert_eq!(inbox.clean(LONG, 100), 0);
    assert_eq!(inbox.clean(Duration::ZERO, 5), 5);
    assert_eq!(inbox.clean(Duration::ZERO, 100), EVENTS - 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    let place = Sqlite::start().await;
    let pool = place.pool.clone();
    sqlx::raw_sql("CREATE TABLE effects (id TEXT)")
        .execute(&pool)
        .await
        .unwrap();
    let inbox = SqliteInbox::new("a").unwrap();
    race(|id| {
        let (inbox, pool) = (inbox.clone(), pool.clone());
        async move {
            let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
            if inbox.first(&mut transaction, &id).await.unwrap() {
                let effect = sqlx::query("INSERT INTO effects VALUES (?)").bind(id);
                effect.execute(&mut *transaction).await.unwrap();
            }
            transaction.commit().await.unwrap();
        }
    })
    .await;
    let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM effects");
    assert_eq!(count.fetch_one(&pool).await.unwrap(), EVENTS as i64);
    // Rolled back, it never was; and another consumer has marks of its own.
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert!(inbox.first(&mut transaction, "failed").await.unwrap());
    transaction.rollback().await.unwrap();
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert!(inbox.first(&mut transaction, "failed").await.unwrap());
    let other = SqliteInbox::new("b").unwrap();
    assert!(other.first(&mut transaction, "failed").await.unwrap());
    transaction.commit().await.unwrap();
    assert_eq!(SqliteInbox::clean(&pool, LONG, 100).await.unwrap(), 0);
    assert_eq!(SqliteInbox::clean(&pool, Duration::ZERO, 5).await.unwrap(), 5);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    let place = Postgres::database().await;
    let pool = place.pool.clone();
    sqlx::raw_sql("CREATE TABLE effects (id TEXT)")
        .execute(&pool)
        .await
        .unwrap();
    let inbox = PostgresInbox::new("a").unwrap();
    race(|id| {
        let (inbox, pool) = (inbox.clone(), pool.clone());
        async move {
            let mut transaction = pool.begin().await.unwrap();
            if inbox.first(&mut transaction, &id).await.unwrap() {
                let effect = sqlx::query("INSERT INTO effects VALUES ($1)").bind(id);
                effect.execute(&mut *transaction).await.unwrap();
            }
            transaction.commit().await.unwrap();
        }
    })
    .await;
    let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM effects");
    assert_eq!(count.fetch_one(&pool).await.unwrap(), EVENTS as i64);
    let mut transaction = pool.begin().await.unwrap();
    assert!(inbox.first(&mut transaction, "failed").await.unwrap());
    transaction.rollback().await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    assert!(inbox.first(&mut transaction, "failed").await.unwrap());
    let other = PostgresInbox::new("b").unwrap();
    assert!(other.first(&mut transaction, "failed").await.unwrap());
    transaction.commit().await.unwrap();
    assert_eq!(PostgresInbox::clean(&pool, LONG, 100).await.unwrap(), 0);
    assert_eq!(PostgresInbox::clean(&pool, Duration::ZERO, 5).await.unwrap(), 5);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis"]
async fn redis() {
    let mut server = retryguard_parts::Redis::start();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_connection_manager().await.unwrap();
    let inbox = RedisInbox::new(connection.clone(), "a", LONG, Duration::from_secs(2)).unwrap();
    race(|_| {
        let inbox = inbox.clone();
        async move {
            let effect = redis::cmd("INCR").arg("effects").to_owned();
            let both = redis::cmd("RPUSH").arg("list").arg("a b").to_owned();
            inbox.apply("one", &[effect, both]).await.unwrap();
        }
    })
    .await;
    let mut look = connection.clone();
    let get = redis::cmd("GET").arg("effects").to_owned();
    let effects: usize = get.query_async(&mut look).await.unwrap();
    let list: Vec<String> = redis::cmd("LRANGE")
        .arg("list")
        .arg(0)
        .arg(-1)
        .query_async(&mut look)
        .await
        .unwrap();
    assert_eq!((effects, list), (1, vec!["a b".to_owned()]));
    // A first command that fails leaves no mark.
    let wrong = redis::cmd("INCR").arg("list").to_owned();
    inbox.apply("two", &[wrong]).await.unwrap_err();
    assert!(inbox.apply("two", &[]).await.unwrap() && !inbox.apply("two", &[]).await.unwrap());
    let many = vec![redis::cmd("PING"); RedisInbox::MOST_COMMANDS + 1];
    assert!(inbox.apply("many", &many[1..]).await.unwrap());
    assert!(inbox.apply("more", &many).await.is_err());
    // Held still, it says so in its time.
    server.process().pause();
    let error = inbox.apply("three", &[]).await.unwrap_err();
    assert!(error.to_string().contains("redis store"), "{error}");
    server.process().resume();
    let again = async { while inbox.apply("four", &[]).await.is_err() {} };
    tokio::time::timeout(LONG, again).await.unwrap();
}
