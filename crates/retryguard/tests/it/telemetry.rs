//! What operators see.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use http_body_util::Full;
use metrics_util::{
    MetricKind,
    debugging::{DebugValue, DebuggingRecorder, Snapshotter},
};
use retryguard::{
    for_http::{HttpEndpoints, HttpLayer, tags::DEADLINE},
    remote::LivePolicy,
    server::ServerLayer,
    telemetry::{METRICS, reference},
};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{
    only, policy,
    scripted::{Scripted, get, silence, status},
    time::sleep,
};

/// One series that was recorded.
#[derive(Debug)]
pub(crate) struct Series {
    name: String,
    kind: MetricKind,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// What a program records, which runs alone under paused time.
pub(crate) fn recorded<F: Future<Output = ()>>(program: F) -> Vec<Series> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(program));
    read(&snapshotter)
}

fn read(snapshotter: &Snapshotter) -> Vec<Series> {
    let series = |(key, _, _, value): (metrics_util::CompositeKey, _, _, DebugValue)| {
        let (kind, key) = key.into_parts();
        Series {
            name: key.name().to_owned(),
            kind,
            labels: key
                .labels()
                .map(|label| (label.key().to_owned(), label.value().to_owned()))
                .collect(),
            value: match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(values) => values.len() as f64,
            },
        }
    };
    snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(series)
        .collect()
}

/// The sum of all series of a name that carry these labels.
pub(crate) fn value(recorded: &[Series], name: &str, labels: &[(&str, &str)]) -> f64 {
    let carries = |series: &&Series| {
        series.name == name
            && labels
                .iter()
                .all(|(key, value)| series.labels.get(*key).is_some_and(|found| found == value))
    };
    recorded.iter().filter(carries).map(|series| series.value).sum()
}

#[test]
fn a_call_is_counted_with_its_attempts_and_with_why_it_was_not_retried() {
    let recorded = recorded(async {
        let service = Scripted::new([status(503), status(200), status(503)]);
        let layer = HttpLayer::new(
            &only("maxRetries: 2, budget: { percent: 100%, minRetryRate: { count: 0 } }"),
            "it",
        );
        let guarded = layer.layer(service.clone());
        guarded.clone().oneshot(get()).await.unwrap();
        guarded.clone().oneshot(get()).await.unwrap();
        service.goes_on([status(404)]);
        guarded.clone().oneshot(get()).await.unwrap();
        service.goes_on([silence()]);
        let dropped = tokio::time::timeout(Duration::from_millis(5), guarded.oneshot(get())).await;
        assert!(dropped.is_err());
    });
    let of = |name: &str, labels: &[(&str, &str)]| value(&recorded, name, labels);
    let result = |result| of("retryguard_calls_total", &[("target", "it"), ("result", result)]);
    assert_eq!(
        (result("success"), result("failure"), result("abandoned")),
        (1.0, 2.0, 1.0)
    );
    let attempts = |number| {
        of(
            "retryguard_attempts_total",
            &[("target", "it"), ("attempt", number)],
        )
    };
    // The first took two attempts, the second two more until the budget was used up, the others one each.
    assert_eq!((attempts("1"), attempts("2"), attempts("3")), (4.0, 2.0, 0.0));
    assert_eq!(
        of("retryguard_successes_total", &[("attempt", "2")]),
        1.0,
        "a productive retry"
    );
    let reason = |reason| {
        of(
            "retryguard_refusals_total",
            &[("target", "it"), ("reason", reason)],
        )
    };
    assert_eq!((reason("budget"), reason("not-retryable")), (1.0, 1.0));
    assert_eq!(of("retryguard_in_flight", &[("target", "it")]), 0.0);
    assert_eq!(of("retryguard_call_duration_seconds", &[("target", "it")]), 3.0);
}

/// Something that makes every metric of ours move.
async fn everything() {
    let guard = "guard: { interval: 100ms, samples: 1, minimumCalls: 2, coolDown: 1s }";
    let breaker = "breaker: { trip: consecutive, failures: 30, openFor: 1s, closeAfter: 1 }";
    let layer = HttpLayer::new(
        &only(&format!("maxRetries: 1, budget: on, {guard}, {breaker}")),
        "it",
    );
    let service = Scripted::new([status(503)]);
    let guarded = layer.layer(service.clone());
    for _ in 0..60 {
        let _ = guarded.clone().oneshot(get()).await;
        sleep(20).await;
    }
    service.goes_on([status(200)]);
    for _ in 0..200 {
        let _ = guarded.clone().oneshot(get()).await;
        sleep(50).await;
    }

    // The default guard measures.
    let measured = HttpLayer::new(&policy(""), "it").layer(Scripted::new([status(503), status(200)]));
    measured.oneshot(get()).await.unwrap();

    let endpoints = HttpEndpoints::new(&only("maxRetries: 1"), "it");
    let broken = Scripted::new([status(503)]);
    endpoints.insert("a", broken.clone()).unwrap();
    endpoints.insert("b", Scripted::new([status(200)])).unwrap();
    for _ in 0..200 {
        endpoints.clone().oneshot(get()).await.unwrap();
        sleep(50).await;
    }
    broken.goes_on([status(200)]);
    for _ in 0..1000 {
        endpoints.clone().oneshot(get()).await.unwrap();
        sleep(50).await;
    }

    let server = ServerLayer::new(&policy("services: { it: { server: { inFlight: 1 } } }"), "it");
    let handler = service_fn(|_: http::Request<Full<bytes::Bytes>>| async {
        sleep(100).await;
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::<bytes::Bytes>::default()))
    });
    let served = server.layer(handler);
    let (first, second) = (served.clone().oneshot(get()), served.clone().oneshot(get()));
    let (first, second) = tokio::join!(first, second);
    assert_eq!(
        (first.unwrap().status(), second.unwrap().status()),
        (200.try_into().unwrap(), 503.try_into().unwrap())
    );
    let mut late = get();
    late.headers_mut().insert(DEADLINE, "0".parse().unwrap());
    served.oneshot(late).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    fs::write(&path, "defaults: { maxRetries: 1 }").unwrap();
    let live = LivePolicy::file(&path).unwrap();
    fs::write(&path, "defaults: { maxRetries: none }").unwrap();
    sleep(3_000).await;
    fs::write(&path, "defaults: { maxRetries: 3 }").unwrap();
    sleep(3_000).await;
    assert_eq!(live.policy().service("it").target.call.retries, 3);
}

#[test]
fn every_documented_metric_is_emitted_and_no_other_with_the_documented_labels() {
    let recorded = recorded(everything());
    let mut moved = BTreeSet::new();
    for series in &recorded {
        let metric = METRICS.iter().find(|metric| metric.name == series.name);
        let metric = metric.unwrap_or_else(|| panic!("{} is not documented", series.name));
        let kind = match series.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        assert_eq!(metric.kind, kind, "{}", metric.name);
        assert_eq!(
            documented(metric.labels),
            series.labels.keys().cloned().collect(),
            "{}",
            metric.name
        );
        // A counter that was only made and never counted is not emitted by anything.
        if series.kind == MetricKind::Gauge || series.value > 0.0 {
            moved.insert(series.name.as_str());
        }
    }
    for metric in METRICS {
        assert!(
            moved.contains(metric.name),
            "{} is documented and never emitted",
            metric.name
        );
    }
    let of = |name: &str, labels: &[(&str, &str)]| value(&recorded, name, labels);
    for to in ["open", "half-open", "closed"] {
        assert!(
            of("retryguard_breaker_changes_total", &[("to", to)]) > 0.0,
            "{to}"
        );
    }
    for to in ["suspended", "limited", "allowed"] {
        assert!(of("retryguard_guard_changes_total", &[("to", to)]) > 0.0, "{to}");
    }
    for to in ["out", "back"] {
        let labels = [("endpoint", "a"), ("to", to)];
        assert!(of("retryguard_endpoint_changes_total", &labels) > 0.0, "{to}");
    }
    assert_eq!(of("retryguard_endpoint_out", &[]), 0.0);
    for reason in ["in-flight", "deadline"] {
        assert_eq!(
            of(
                "retryguard_shed_total",
                &[("reason", reason), ("criticality", "critical")]
            ),
            1.0
        );
    }
    assert_eq!(
        of(
            "retryguard_served_total",
            &[("service", "it"), ("attempt", "first")]
        ),
        1.0
    );
    assert_eq!(of("retryguard_serving", &[("service", "it")]), 0.0);
    assert_eq!(of("retryguard_policy_info", &[]), 1.0, "one policy is in force");
    assert_eq!(of("retryguard_policy_refused_total", &[]), 1.0);
    assert_eq!(of("retryguard_breaker_state", &[]), 0.0);
    assert_eq!(of("retryguard_guard_share", &[]), 1.0);
    let (gain, error) = (
        of("retryguard_retry_gain", &[]),
        of("retryguard_retry_gain_error", &[]),
    );
    assert!(gain > 0.0 && error > 0.0, "{gain} ± {error}");
}

#[test]
fn gauges_show_the_state_of_the_moment() {
    let keys = "maxRetries: 0, budget: { percent: 50%, interval: 1h, minRetryRate: { count: 0 } }, \
                breaker: { trip: consecutive, failures: 6, openFor: 1h }, \
                guard: { interval: 100ms, samples: 1, minimumCalls: 2 }";
    let recorded = recorded(async {
        let service = Scripted::new([status(503)]);
        let guarded = HttpLayer::new(&only(keys), "it").layer(service.clone());
        for _ in 0..6 {
            guarded.clone().oneshot(get()).await.unwrap();
            sleep(40).await;
        }
        let other = HttpLayer::new(&only(""), "other").layer(Scripted::new([silence()]));
        let mut held = Box::pin(other.oneshot(get()));
        assert!(
            tokio::time::timeout(Duration::from_millis(5), &mut held)
                .await
                .is_err()
        );
        std::mem::forget(held);
    });
    let of = |name: &str, target: &str| value(&recorded, name, &[("target", target)]);
    assert_eq!(of("retryguard_breaker_state", "it"), 1.0, "open");
    assert_eq!(
        (
            of("retryguard_guard_state", "it"),
            of("retryguard_guard_share", "it")
        ),
        (1.0, 0.0),
        "off"
    );
    assert_eq!(
        of("retryguard_budget_balance", "it"),
        3.0,
        "half of six first attempts"
    );
    assert_eq!(of("retryguard_in_flight", "other"), 1.0);
}

/// Such calls are counted under the lock and handed on once a second, while the target lives and also after a pause.
#[test]
fn calls_that_succeed_at_once_are_reported_within_a_second() {
    let recorded = recorded(async {
        let layer = HttpLayer::new(&only(""), "it");
        let guarded = layer.layer(Scripted::new([status(200)]));
        for calls in [3, 2] {
            for _ in 0..calls {
                guarded.clone().oneshot(get()).await.unwrap();
            }
            sleep(60_000).await;
        }
        guarded.clone().oneshot(get()).await.unwrap();
        // Another target of the same name, by another policy, has the same gauge.
        let other = HttpLayer::new(&only(""), "it").layer(Scripted::new([silence()]));
        let mut held = Box::pin(other.oneshot(get()));
        let answered = tokio::time::timeout(Duration::from_millis(5), &mut held).await;
        assert!(answered.is_err());
        sleep(1_100).await;
        // Not told by their ends.
        std::mem::forget((guarded, held));
    });
    let of = |name: &str| value(&recorded, name, &[("target", "it")]);
    assert_eq!(of("retryguard_calls_total"), 6.0);
    assert_eq!(of("retryguard_attempts_total"), 6.0);
    assert_eq!(of("retryguard_successes_total"), 6.0);
    assert_eq!(of("retryguard_in_flight"), 1.0);
}

/// A target in a static is never dropped.
#[test]
fn the_last_counts_are_reported_when_the_runtime_ends() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let guarded = HttpLayer::new(&only(""), "it").layer(Scripted::new([status(200)]));
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            for _ in 0..3 {
                runtime.block_on(guarded.clone().oneshot(get())).unwrap();
            }
        }
        std::mem::forget(guarded);
    });
    let recorded = read(&snapshotter);
    let of = |name: &str| value(&recorded, name, &[("target", "it")]);
    assert_eq!(of("retryguard_calls_total"), 6.0);
    assert_eq!(of("retryguard_in_flight"), 0.0);
}

/// The keys in `target, result (success, failure)`.
fn documented(labels: &str) -> BTreeSet<String> {
    let mut depth = 0_u32;
    let mut bare = String::new();
    for letter in labels.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            letter if depth == 0 => bare.push(letter),
            _ => {}
        }
    }
    bare.split(',').map(|key| key.trim().to_owned()).collect()
}

#[test]
fn the_reference_page_is_the_one_in_docs() {
    retryguard_parts::committed("docs/metrics.md", &reference());
}

/// Notes the messages of our events.
#[derive(Clone, Default)]
struct Events(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl tracing::Subscriber for Events {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "retryguard"
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{}={value:?} ", field.name());
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0.trim_end().to_owned());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn every_retry_and_every_refusal_is_an_event() {
    let events = Events::default();
    let _guard = tracing::subscriber::set_default(events.clone());
    let policy = crate::support::only("maxRetries: 1, breaker: { trip: consecutive, failures: 2 }");
    let no = || async { Err::<(), _>(std::io::Error::other("no")) };
    // Other tests may be the first to reach one of these events, at the moment when this test's subscriber appears, and
    // switch it off for all. So every one is reached once, and then asked for anew.
    let before = retryguard::target(&policy, "before");
    retryguard::call(&before, no).await.unwrap_err();
    retryguard::call(&before, no).await.unwrap_err();
    tracing::callsite::rebuild_interest_cache();
    events.0.lock().unwrap().clear();
    let target = retryguard::target(&policy, "it");
    retryguard::call(&target, no).await.unwrap_err();
    retryguard::call(&target, no).await.unwrap_err();
    let seen = events.0.lock().unwrap().clone();
    assert_eq!(
        seen,
        [
            r#"message=attempt name="it" attempt=2 kind="retry""#,
            r#"message=breaker name="it" from="closed" to="open""#,
            r#"message=call failed name="it" attempts=2 failure="fault" refusal="attempts-used""#,
            r#"message=call failed name="it" attempts=0 refusal="breaker-open""#,
        ]
    );
}
