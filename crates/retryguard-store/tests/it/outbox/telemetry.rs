//! The metrics of an outbox, as a recorder gets them.

use std::{collections::HashMap, time::Duration};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use retryguard_store::outbox::{
    Event, METRICS, MemoryOutbox, Message, OutboxStore, PublishError, Settings, Worker,
};

use super::worker::quick;
use crate::clock;

fn values(snapshotter: &Snapshotter) -> HashMap<String, f64> {
    let value = |value| match value {
        DebugValue::Counter(value) => value as f64,
        DebugValue::Gauge(value) => value.into_inner(),
        DebugValue::Histogram(_) => f64::NAN,
    };
    let list = snapshotter.snapshot().into_vec().into_iter();
    list.map(|(key, _, _, found)| {
        let label = key
            .key()
            .labels()
            .next()
            .expect("every metric has its outbox's name");
        assert_eq!((label.key(), label.value()), ("outbox", "mine"));
        (key.key().name().to_owned(), value(found))
    })
    .collect()
}

#[test]
fn every_metric_is_told() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(work()));
    let values = values(&snapshotter);
    for (name, ..) in METRICS {
        assert!(values.contains_key(*name), "{name}");
    }
    assert_eq!(values["retryguard_outbox_published_total"], 2.0);
    assert_eq!(values["retryguard_outbox_failures_total"], 1.0);
    assert_eq!(values["retryguard_outbox_given_up_total"], 1.0);
    assert_eq!(values["retryguard_outbox_parked"], 1.0);
    assert_eq!(values["retryguard_outbox_pending"], 1.0, "the held one");
    assert_eq!(values["retryguard_outbox_cleaned_total"], 2.0);
}

/// The page has a row for each metric, word by word.
#[test]
fn the_page_has_every_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/store.md");
    let page = std::fs::read_to_string(path).unwrap();
    for (name, kind, labels, meaning) in METRICS.iter().chain(retryguard_store::breaker::METRICS) {
        let row = format!("| `{name}` | {kind} | {labels} | {meaning} |");
        assert!(page.contains(&row), "docs/store.md has no row\n{row}");
    }
}

async fn work() {
    let outbox = MemoryOutbox::new();
    let publish = |message: Message| async move {
        match &message.payload[..] {
            b"bad" => Err(PublishError::poison("bad")),
            _ => Ok(()),
        }
    };
    let settings = Settings {
        name: "mine".to_owned(),
        after_parking: retryguard_store::outbox::AfterParking::Hold,
        keep: Duration::from_secs(60),
        ..quick()
    };
    let event = |key: &str, payload: &'static str| Event::new("t", payload).key(key);
    outbox
        .put(&[
            event("a", "bad"),
            event("a", "1"),
            event("b", "2"),
            event("c", "3"),
        ])
        .unwrap();
    let worker = Worker::new(outbox.clone(), publish, settings).unwrap().start();
    clock::sleep(Duration::from_secs(120)).await;
    assert_eq!(outbox.counts().await.unwrap().pending, 1);
    worker.stop().await;
}
