use retryguard_controller::domain::state::{Change, RetryState};
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::actuator::{Actuator as _, ActuatorError};
use serde_json::{Value, json};

use super::cluster::{Cluster, apply, found, off, to};

/// Shapes that the definition lets through, although they make no sense.
#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn objects_of_strange_shapes_are_left_as_they_are_and_stop_no_other() {
    let cluster = Cluster::start().await;
    let strange: [Value; 6] = [
        json!({}),
        json!({"hosts": []}),
        json!({"http": []}),
        json!({"http": [{}, {"route": []}, {"retries": {"attempts": 2}}]}),
        json!({"http": [{"route": to("a"), "retries": {}}, {"route": to("a b"), "retries": {"attempts": 3}}]}),
        json!({"hosts": ["*", "."], "http": [{"route": to("*")}, {"name": " ", "route": to("..")}], "unknown": {"x": [1.5, {}]}}),
    ];
    for (number, spec) in strange.iter().enumerate() {
        cluster.create(&format!("s{number}"), spec.clone()).await;
    }
    cluster
        .create("good", json!({"hosts": ["a"], "http": [{"route": to("a")}]}))
        .await;
    let mut before = Vec::new();
    for number in 0..strange.len() {
        before.push(cluster.text(&format!("s{number}")).await);
    }
    let istio = cluster.istio(&["a"]);
    apply(&istio, "a", RetryState::Off).await;
    assert_eq!(cluster.spec("good").await["http"][0]["retries"], off());
    for (number, before) in before.iter().enumerate() {
        assert_eq!(&cluster.text(&format!("s{number}")).await, before);
    }
    apply(&istio, "a", RetryState::Original).await;
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn a_forged_annotation_is_told_and_does_not_stop_the_others() {
    let cluster = Cluster::start().await;
    let spec = json!({"hosts": ["a"], "http": [{"route": to("a")}]});
    let forged =
        json!({"name": "forged", "annotations": {"retryguard.io/held": "{\"form\":1,\"routes\":7}"}});
    cluster.create_with(forged, spec.clone()).await;
    cluster.create("good", spec).await;
    let istio = cluster.istio(&["a"]);
    let change = Change {
        target: TargetName::new("a"),
        desired: RetryState::Off,
        why: String::new(),
        term: 1,
    };
    let error = istio.apply(&change).await.unwrap_err();
    assert!(matches!(&error, ActuatorError::Refused { .. }), "{error}");
    assert!(
        error.to_string().contains("/forged") && error.to_string().contains("remove it"),
        "{error}"
    );
    assert_eq!(cluster.spec("good").await["http"][0]["retries"], off());
    assert_eq!(found(&istio).await.len(), 1);
}
