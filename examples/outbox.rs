//! Orders and the notifications of them: the event is written with the order, in one transaction.
//!
//! `cargo run -p retryguard-examples --example outbox`
//!
//! The notification service does what services do: it is down at first, and once it does its work and its answer is
//! lost. One event is beyond help. In the end every order that was committed has one mail, in the order of its
//! customer, and the event beyond help waits for an operator.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use retryguard_examples::pause;
use retryguard_store::{
    inbox::SqliteInbox,
    migrations,
    outbox::{Event, Message, OutboxStore as _, PublishError, Settings, SqliteOutbox, Worker},
};
use sqlx::{Row as _, SqlitePool, sqlite::SqliteConnectOptions};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let shop = database(&folder.path().join("shop.db"), "CREATE TABLE orders (item TEXT)").await?;
    let mails = "CREATE TABLE mails (customer TEXT, text TEXT)";
    let mailer = database(&folder.path().join("mailer.db"), mails).await?;

    let outbox = SqliteOutbox::new(shop.clone());
    for (customer, item) in [("ann", "tea"), ("ben", "cup"), ("ann", "pot"), ("eve", "???")] {
        order(&shop, &outbox, customer, item, true).await?;
    }
    order(&shop, &outbox, "ann", "cake", false).await?;
    let counts = outbox.counts().await?;
    println!(
        "{} events wait, and none of the order that was not committed",
        counts.pending
    );

    let deliveries = Arc::new(AtomicU32::new(0));
    let publish = {
        let (mailer, deliveries) = (mailer.clone(), deliveries.clone());
        move |message: Message| notify(mailer.clone(), deliveries.clone(), message)
    };
    let worker = Worker::new(outbox.clone(), publish, Settings::default())?.start();
    while outbox.counts().await?.pending > 0 {
        pause(20).await;
    }
    worker.stop().await;

    let mails = sqlx::query("SELECT customer, text FROM mails ORDER BY customer, rowid");
    for mail in mails.fetch_all(&mailer).await? {
        println!(
            "mail to {}: {}",
            mail.get::<String, _>(0),
            mail.get::<String, _>(1)
        );
    }
    println!(
        "{} deliveries were tried for them",
        deliveries.load(Ordering::SeqCst)
    );
    for parked in outbox.parked(0, 10).await? {
        let customer = parked.message.key.unwrap_or_default();
        println!("parked, for {customer}: {}", parked.error);
    }
    Ok(())
}

/// The order and its event: both or none.
async fn order(
    shop: &SqlitePool,
    outbox: &SqliteOutbox,
    customer: &str,
    item: &str,
    commit: bool,
) -> anyhow::Result<()> {
    let mut transaction = retryguard_store::sqlite::begin(shop).await?;
    sqlx::query("INSERT INTO orders (item) VALUES (?)")
        .bind(item)
        .execute(&mut *transaction)
        .await?;
    let event = Event::new("orders.placed", item.to_owned()).key(customer);
    outbox.put(&mut transaction, &event).await?;
    if commit {
        transaction.commit().await?;
        outbox.wake();
    } else {
        transaction.rollback().await?;
    }
    Ok(())
}

/// The other service: its mail and its mark are one transaction, so that a repeated delivery changes nothing.
async fn notify(
    mailer: SqlitePool,
    deliveries: Arc<AtomicU32>,
    message: Message,
) -> Result<(), PublishError> {
    let number = deliveries.fetch_add(1, Ordering::SeqCst);
    if number < 3 {
        return Err(PublishError::retry("503 Service Unavailable"));
    }
    if &message.payload[..] == b"???" {
        return Err(PublishError::poison("400 Bad Request: there is no such item"));
    }
    let text = String::from_utf8_lossy(&message.payload).into_owned();
    let customer = message.key.clone().unwrap_or_default();
    let work = async {
        let mut transaction = retryguard_store::sqlite::begin(&mailer).await?;
        if SqliteInbox::new("mailer")?
            .first(&mut transaction, &message.id)
            .await?
        {
            sqlx::query("INSERT INTO mails VALUES (?, ?)")
                .bind(customer)
                .bind(text)
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        anyhow::Ok(())
    };
    work.await.map_err(PublishError::retry)?;
    if message.failed == 1 {
        return Err(PublishError::retry("the mail is sent, and the answer was lost"));
    }
    Ok(())
}

async fn database(file: &std::path::Path, table: &'static str) -> anyhow::Result<SqlitePool> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
        .busy_timeout(std::time::Duration::from_secs(10));
    let pool = SqlitePool::connect_with(options).await?;
    migrations::sqlite(&pool).await?;
    sqlx::raw_sql(table).execute(&pool).await?;
    Ok(pool)
}
