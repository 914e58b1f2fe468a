use retryguard_controller::domain::state::{Observed, RetryState};
use serde_json::json;

use super::cluster::{Cluster, RAMP, apply, found, to};

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn the_next_controller_after_a_crash_finds_and_restores_everything() {
    let cluster = Cluster::start().await;
    let spec = json!({"hosts": ["a"], "http": [
        {"route": to("a"), "retries": {"attempts": 4, "retryOn": "5xx"}},
        {"route": to("b")},
    ]});
    cluster.create("both", spec).await;
    let before = cluster.text("both").await;
    let killed = cluster.istio(&["a", "b", "c"]);
    apply(&killed, "a", RetryState::Off).await;
    apply(&killed, "b", RAMP[1]).await;
    apply(&killed, "c", RetryState::Off).await;
    drop(killed);
    // The configuration has changed meanwhile: `b` and `c` are no longer in it.
    let next = cluster.istio(&["a"]);
    let all = [("a", RetryState::Off), ("b", RAMP[1]), ("c", RetryState::Off)]
        .map(|(target, desired)| (target.to_owned(), Observed::Managed(desired)));
    assert_eq!(found(&next).await, all);
    for target in ["a", "b", "c"] {
        apply(&next, target, RetryState::Original).await;
    }
    assert_eq!(cluster.text("both").await, before);
    assert_eq!(cluster.names().await, ["both"]);
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn killed_half_way_through_several_objects_is_seen_as_neither_off_nor_original() {
    let cluster = Cluster::start().await;
    let spec = json!({"hosts": ["a"], "http": [{"route": to("a"), "retries": {"attempts": 4}}]});
    cluster.create("one", spec.clone()).await;
    let killed = cluster.istio(&["a"]);
    apply(&killed, "a", RetryState::Off).await;
    cluster.create("two", spec.clone()).await;
    let next = cluster.istio(&["a"]);
    let [(_, Observed::Managed(desired))] = found(&next).await[..] else {
        panic!("not found")
    };
    assert!(desired != RetryState::Off && desired != RetryState::Original);
    apply(&next, "a", RetryState::Original).await;
    for name in ["one", "two"] {
        assert_eq!(cluster.spec(name).await, spec);
    }
}
