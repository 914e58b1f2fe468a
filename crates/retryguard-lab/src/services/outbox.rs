//! Paid orders and the messages about them: one transaction, and a worker that delivers what was written.

use std::{sync::Arc, time::Duration};

use retryguard_store::{
    migrations,
    outbox::{Event, Message, OutboxStore as _, PublishError, Settings, SqliteOutbox, Worker},
};
use serde_json::json;

use crate::{
    answer::Problem,
    clock,
    system::{Downstream, Site},
};

/// What events are about.
const TOPIC: &str = "orders.paid";

/// How often the number of waiting events is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Writes events beside orders.
#[derive(Clone)]
pub(super) struct Outbox {
    store: SqliteOutbox,
    site: Site,
}

impl Outbox {
    /// Makes the tables and starts the worker, which lives as long as the service.
    pub(super) async fn start(site: &Site, notifications: Downstream) -> anyhow::Result<Self> {
        let pool = site.database.pool().clone();
        migrations::sqlite(&pool).await?;
        let store = SqliteOutbox::new(pool);
        let settings = Settings {
            name: "orders".to_owned(),
            concurrency: 4,
            poll: Duration::from_millis(100),
            tries: 50,
            ..Settings::default()
        };
        let notifications = Arc::new(notifications);
        let publish = move |message: Message| {
            let notifications = notifications.clone();
            async move { deliver(&notifications, &message).await }
        };
        let worker = Worker::new(store.clone(), publish, settings)?;
        site.life.spawn(worker.run(std::future::pending()));
        let (watched, counts) = (store.clone(), site.counts.clone());
        site.life.spawn(async move {
            loop {
                if let Ok(found) = watched.counts().await {
                    counts.set_pending(found.pending);
                }
                clock::sleep(LOOK).await;
            }
        });
        Ok(Self {
            store,
            site: site.clone(),
        })
    }

    /// Notes that an order is paid and that its customer is to be told: both or neither.
    pub(super) async fn conclude(&self, number: i64, reference: &str) -> Result<(), Problem> {
        let pool = self.site.database.pool();
        let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query("UPDATE orders SET status = 'paid' WHERE number = ?")
            .bind(number)
            .execute(&mut *transaction)
            .await?;
        let payload = json!({"order": reference}).to_string();
        let event = Event::new(TOPIC, payload).key(reference);
        self.store
            .put(&mut transaction, &event)
            .await
            .map_err(|error| Problem::unavailable(format!("the event could not be written: {error}")))?;
        transaction.commit().await?;
        self.store.wake();
        Ok(())
    }
}

/// Delivers under the event's own id, which the consumer tells repeated deliveries by.
async fn deliver(notifications: &Downstream, message: &Message) -> Result<(), PublishError> {
    let body: serde_json::Value = serde_json::from_slice(&message.payload).map_err(PublishError::poison)?;
    match notifications
        .post("/notifications", Some(&message.id), &body)
        .await
    {
        Ok((status, ..)) if status.is_success() => Ok(()),
        Ok((status, ..)) => Err(PublishError::retry(format!("answered {status}"))),
        Err(error) => Err(PublishError::retry(error)),
    }
}
