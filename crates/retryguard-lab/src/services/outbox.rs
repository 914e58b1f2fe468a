//! Paid orders and the messages about them: one transaction, and a worker that delivers what was written.

use std::{sync::Arc, time::Duration};

use retryguard_store::outbox::{Event, Message, OutboxStore, PublishError, Settings, Worker};
use serde_json::json;

use crate::{
    clock,
    database::Outbox,
    site::{Site, client::Downstream},
    trace::{Span, TRACEPARENT},
};

/// What events are about.
const TOPIC: &str = "orders.paid";

/// How often the number of waiting events is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Makes the tables and starts the worker, which lives as long as the service.
pub(super) async fn start(site: &Site, notifications: Downstream) -> anyhow::Result<Outbox> {
    let outbox = site.database.outbox().await?;
    match &outbox {
        Outbox::Sqlite(store) => deliver_from(store.clone(), site, notifications)?,
        #[cfg(feature = "real")]
        Outbox::Postgres(store) => deliver_from(store.clone(), site, notifications)?,
    }
    Ok(outbox)
}

/// That the customer of an order is to be told.
pub(super) fn event(reference: &str) -> Event {
    Event::new(TOPIC, json!({"order": reference}).to_string())
        .key(reference)
        .header(TRACEPARENT.as_str(), Span::current().traceparent())
}

fn deliver_from(store: impl OutboxStore, site: &Site, notifications: Downstream) -> anyhow::Result<()> {
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
    let counts = site.counts.clone();
    site.life.spawn(async move {
        loop {
            if let Ok(found) = store.counts().await {
                counts.set_pending(found.pending);
            }
            clock::sleep(LOOK).await;
        }
    });
    Ok(())
}

/// Delivers under the event's own id, which the consumer tells repeated deliveries by.
async fn deliver(notifications: &Downstream, message: &Message) -> Result<(), PublishError> {
    let body: serde_json::Value = serde_json::from_slice(&message.payload).map_err(PublishError::poison)?;
    // The delivery belongs to the trace of the order, however much later it is.
    let mut headers = message.headers.iter();
    let span = headers
        .find(|(name, _)| name == TRACEPARENT.as_str())
        .and_then(|(_, value)| Span::of(value))
        .unwrap_or_else(Span::root);
    match span
        .scope(notifications.post("/notifications", Some(&message.id), &body))
        .await
    {
        Ok((status, ..)) if status.is_success() => Ok(()),
        Ok((status, ..)) => Err(PublishError::retry(format!("answered {status}"))),
        Err(error) => Err(PublishError::retry(error)),
    }
}
