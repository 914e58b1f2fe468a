//! The whole loop on a real API server: a source whose numbers the test sets, guards, Leases, VirtualServices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use retryguard_controller::adapters::election::kubernetes::Lease;
use retryguard_controller::adapters::election::single::SingleInstance;
use retryguard_controller::clock::sleep;
use retryguard_controller::domain::limits::Limits;
use retryguard_controller::domain::target::{TargetName, TargetSpec};
use retryguard_controller::reconcile::control_loop::{
    Components, Ended, MOST_QUERIES, Query, QuerySender, run,
};
use retryguard_controller::reconcile::election::LeaderElection;
use retryguard_controller::reconcile::source::{Round, Source};
use retryguard_core::guard::{Hysteresis, Mode, Settings};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::scripted::reading;

use super::cluster::{Cluster, off, to};

/// Says that so many of a hundred calls were rejected, until the test says otherwise.
#[derive(Clone, Default)]
struct Dial(Arc<AtomicU64>);

impl Source for Dial {
    fn name(&self) -> &'static str {
        "dial"
    }

    fn every(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn read(&mut self) -> Round<'_> {
        let rejected = self.0.load(Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(vec![reading("reviews", rejected)])))
    }
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Ended>,
    asks: QuerySender,
}

impl Running {
    /// Asks for the status until it is as described, for two minutes at most.
    async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let mut status = Value::Null;
        for _ in 0..1_200 {
            let (send, answer) = oneshot::channel();
            self.asks.send(Query::Status(send)).await.unwrap();
            status = answer.await.unwrap();
            if holds(&status) {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("never {what}: {status:#}");
    }
}

fn start(cluster: &Cluster, dial: &Dial, election: Box<dyn LeaderElection>) -> Running {
    start_with(cluster, dial, election, Duration::from_secs(1))
}

fn start_with(
    cluster: &Cluster,
    dial: &Dial,
    election: Box<dyn LeaderElection>,
    resync: Duration,
) -> Running {
    let rules = Hysteresis {
        samples: 2,
        cool_down: Duration::from_secs(1),
        step_for: Duration::from_secs(1),
        ..Hysteresis::default()
    };
    let guard = Settings {
        mode: Mode::Hysteresis(rules),
        ..Settings::default()
    };
    let parts = Components {
        targets: vec![TargetSpec {
            name: TargetName::new("reviews"),
            guards: vec![guard],
            price: retryguard_controller::domain::gain::PRICE,
            source: "dial",
            actuators: vec![0],
        }],
        sources: vec![Box::new(dial.clone())],
        actuators: vec![Arc::new(cluster.istio(&["reviews"]))],
        election,
        limits: Limits {
            resync,
            // A change is begun only where the rest of the term is longer than this.
            timeout: Duration::from_secs(2),
            changes_per_minute: 100,
            ..Limits::default()
        },
        dry_run: false,
        leave: false,
    };
    let (asks, questions) = mpsc::channel(MOST_QUERIES);
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(run(parts, questions, async {
        let _ = stopped.await;
    }));
    Running { stop, task, asks }
}

async fn create(cluster: &Cluster) -> String {
    let retries = json!({"attempts": 5, "retryOn": "5xx"});
    let spec = json!({"hosts": ["reviews"], "http": [{"route": to("reviews"), "retries": retries}]});
    cluster.create("reviews", spec).await;
    cluster.text("reviews").await
}

/// Every number of attempts that stood there, in order, until it is `last`.
async fn attempts_until(cluster: &Cluster, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    for _ in 0..2_000 {
        let now = cluster.spec("reviews").await["http"][0]["retries"]["attempts"]
            .as_u64()
            .unwrap();
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        if now == last {
            return seen;
        }
        sleep(Duration::from_millis(30)).await;
    }
    panic!("never {last}: {seen:?}");
}

/// From off to the user's own five by the steps of the ramp and nothing else. A slow machine may miss steps between
/// two looks, so that one was made is read in the events.
async fn ramps_back(cluster: &Cluster) {
    let seen = attempts_until(cluster, 5).await;
    let steps = [0, 1, 2, 3, 5];
    assert!(seen.iter().all(|now| steps.contains(now)), "{seen:?}");
    assert!(seen.is_sorted(), "{seen:?}");
    let events = cluster.events("reviews").await;
    assert!(
        events.iter().any(|(reason, _)| reason == "RetriesRamping"),
        "{events:?}"
    );
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn a_storm_switches_off_calm_ramps_back_and_a_polite_stop_restores() {
    let cluster = Cluster::start().await;
    let before = create(&cluster).await;
    let dial = Dial::default();
    let running = start(&cluster, &dial, Box::new(SingleInstance));
    assert_eq!(attempts_until(&cluster, 5).await, [5]);
    dial.0.store(60, Ordering::Relaxed);
    attempts_until(&cluster, 0).await;
    assert_eq!(cluster.spec("reviews").await["http"][0]["retries"], off());
    dial.0.store(0, Ordering::Relaxed);
    ramps_back(&cluster).await;
    assert_eq!(cluster.text("reviews").await, before);
    let events = cluster.events("reviews").await;
    assert!(
        events[0].1.contains("above 0.2000"),
        "the numbers that caused it: {events:?}"
    );

    dial.0.store(60, Ordering::Relaxed);
    attempts_until(&cluster, 0).await;
    running.stop.send(()).unwrap();
    assert_eq!(running.task.await.unwrap(), Ended::Restored);
    assert_eq!(cluster.text("reviews").await, before);
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn what_the_user_sets_during_a_storm_stands() {
    let cluster = Cluster::start().await;
    create(&cluster).await;
    let dial = Dial::default();
    let running = start(&cluster, &dial, Box::new(SingleInstance));
    dial.0.store(60, Ordering::Relaxed);
    attempts_until(&cluster, 0).await;
    let path = "/spec/http/0/retries";
    cluster
        .patch(
            "reviews",
            json!([{"op": "replace", "path": path, "value": {"attempts": 7}}]),
        )
        .await;
    let way = |status: &Value| status["targets"][0]["actuators"][0]["holds"].clone();
    running.until("seen", |status| way(status) == "theirs").await;
    dial.0.store(0, Ordering::Relaxed);
    running
        .until("forgotten", |status| {
            status["targets"][0]["state"] == "allowed" && way(status) == "allowed"
        })
        .await;
    assert_eq!(attempts_until(&cluster, 7).await, [7]);
    assert_eq!(
        cluster.annotations("reviews").await,
        0,
        "nothing of ours is left in the object"
    );
    dial.0.store(60, Ordering::Relaxed);
    // The next storm.
    attempts_until(&cluster, 0).await;
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
    assert_eq!(attempts_until(&cluster, 7).await, [7]);
}

/// Between two looks an hour passes, so what is noticed was told by the API server: an edit of ours that another client takes
/// back, and a route that comes in addition.
#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn edits_are_noticed_without_waiting_for_the_next_look() {
    let cluster = Cluster::start().await;
    create(&cluster).await;
    let dial = Dial::default();
    let running = start_with(
        &cluster,
        &dial,
        Box::new(SingleInstance),
        Duration::from_secs(3600),
    );
    dial.0.store(60, Ordering::Relaxed);
    attempts_until(&cluster, 0).await;
    let added = json!({"name": "late", "route": to("reviews"), "retries": {"attempts": 4}});
    cluster
        .patch(
            "reviews",
            json!([{"op": "add", "path": "/spec/http/1", "value": added}]),
        )
        .await;
    let way = |status: &Value| status["targets"][0]["actuators"][0]["holds"].clone();
    let mut late = Value::Null;
    for _ in 0..2_000 {
        late = cluster.spec("reviews").await["http"][1]["retries"].clone();
        if late == off() {
            break;
        }
        sleep(Duration::from_millis(30)).await;
    }
    assert_eq!(late, off(), "the new route is switched off too");
    for route in ["/spec/http/0/retries", "/spec/http/1/retries"] {
        let edit = json!([{"op": "replace", "path": route, "value": {"attempts": 7}}]);
        cluster.patch("reviews", edit).await;
    }
    running.until("seen", |status| way(status) == "theirs").await;
    assert_eq!(attempts_until(&cluster, 7).await, [7], "what they wrote stands");
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
    assert_eq!(cluster.annotations("reviews").await, 0);
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn of_two_controllers_one_acts_and_the_other_goes_on_when_it_is_killed() {
    let cluster = Cluster::start().await;
    let before = create(&cluster).await;
    let dial = Dial::default();
    let lease = |instance: &str| {
        let term = Duration::from_secs(10);
        let lease = Lease::new(
            cluster.client.clone(),
            &cluster.namespace,
            "guard",
            instance,
            term,
        );
        Box::new(lease)
    };
    let first = start(&cluster, &dial, lease("first"));
    dial.0.store(60, Ordering::Relaxed);
    attempts_until(&cluster, 0).await;
    let second = start(&cluster, &dial, lease("second"));
    // It has looked at its source and knows who leads.
    let follows = |status: &Value| status["leads"] == false && status["leader"].is_string();
    second.until("follows", follows).await;
    first.task.abort();
    // Off stays off over the change of leaders, and the heir brings it back.
    let heir = |status: &Value| status["leads"] == true && status["targets"][0]["state"] == "suspended";
    second.until("leads", heir).await;
    assert_eq!(attempts_until(&cluster, 0).await, [0]);
    let events = cluster.events("reviews").await;
    assert_eq!(
        events.len(),
        1,
        "the second one had nothing to change: {events:?}"
    );
    dial.0.store(0, Ordering::Relaxed);
    ramps_back(&cluster).await;
    second
        .until("on", |status| status["targets"][0]["state"] == "allowed")
        .await;
    assert_eq!(cluster.text("reviews").await, before);
    second.stop.send(()).unwrap();
    assert_eq!(second.task.await.unwrap(), Ended::Restored);
}
