use retryguard_controller::domain::state::{Observed, RetryState};
use serde_json::json;

use super::cluster::{Cluster, RAMP, apply, found, off, to};

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn a_target_without_a_virtual_service_gets_one_and_loses_it_again() {
    let cluster = Cluster::start().await;
    let istio = cluster.istio(&["a"]);
    apply(&istio, "a", RetryState::Original).await;
    assert_eq!(cluster.names().await, Vec::<String>::new());
    let losses = apply(&istio, "a", RetryState::Off).await;
    assert!(losses.iter().any(|loss| loss.0.contains("gateway")), "{losses:?}");
    assert_eq!(cluster.names().await, ["retryguard-a"]);
    let spec = cluster.spec("retryguard-a").await;
    let host = format!("a.{}.svc.cluster.local", cluster.namespace);
    assert_eq!(spec["hosts"], json!([host]));
    assert_eq!(spec["http"][0]["route"], to(&host));
    assert_eq!(spec["http"][0]["retries"], off());
    assert_eq!(
        found(&istio).await,
        [("a".to_owned(), Observed::Managed(RetryState::Off))]
    );
    apply(&istio, "a", RAMP[0]).await;
    assert_eq!(
        cluster.spec("retryguard-a").await["http"][0]["retries"],
        json!({"attempts": 1})
    );
    // Another controller, after a crash, knows it by what stands in the object.
    let next = cluster.istio(&["a"]);
    assert_eq!(found(&next).await, [("a".to_owned(), Observed::Managed(RAMP[0]))]);
    apply(&next, "a", RetryState::Original).await;
    assert_eq!(cluster.names().await, Vec::<String>::new());
    let reasons: Vec<String> = cluster
        .events("retryguard-a")
        .await
        .into_iter()
        .map(|event| event.0)
        .collect();
    assert_eq!(
        reasons,
        ["VirtualServiceMade", "RetriesRamping", "VirtualServiceRemoved"]
    );
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn one_that_the_user_has_changed_is_the_users_and_stays() {
    let cluster = Cluster::start().await;
    let istio = cluster.istio(&["a"]);
    apply(&istio, "a", RetryState::Off).await;
    cluster
        .patch(
            "retryguard-a",
            json!([{"op": "add", "path": "/spec/http/0/timeout", "value": "3s"}]),
        )
        .await;
    apply(&istio, "a", RetryState::Original).await;
    let object = cluster.objects().get("retryguard-a").await.unwrap();
    assert_eq!(object.data["spec"]["http"][0].get("retries"), None);
    assert_eq!(object.data["spec"]["http"][0]["timeout"], "3s");
    assert_eq!(object.metadata.annotations, None);
    assert_eq!(
        object.metadata.labels, None,
        "nothing says any more that it is ours"
    );
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn one_that_the_user_makes_meanwhile_takes_the_place_of_ours() {
    let cluster = Cluster::start().await;
    let istio = cluster.istio(&["a"]);
    apply(&istio, "a", RetryState::Off).await;
    cluster
        .create(
            "mine",
            json!({"hosts": ["a"], "http": [{"route": to("a"), "retries": {"attempts": 3}}]}),
        )
        .await;
    let [(_, Observed::Managed(desired))] = found(&istio).await[..] else {
        panic!("not seen")
    };
    assert_ne!(desired, RetryState::Off, "the loop must say it again");
    apply(&istio, "a", RetryState::Off).await;
    assert_eq!(cluster.names().await, ["mine"]);
    assert_eq!(cluster.spec("mine").await["http"][0]["retries"], off());
    assert_eq!(
        found(&istio).await,
        [("a".to_owned(), Observed::Managed(RetryState::Off))]
    );
    apply(&istio, "a", RetryState::Original).await;
    assert_eq!(cluster.names().await, ["mine"]);
    assert_eq!(
        cluster.spec("mine").await["http"][0]["retries"],
        json!({"attempts": 3})
    );
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn a_gateways_virtual_service_is_not_one_for_the_mesh() {
    let cluster = Cluster::start().await;
    let istio = cluster.istio(&["a"]);
    let spec = json!({"hosts": ["shop.example.com"], "gateways": ["edge"], "http": [{"route": to("a")}]});
    cluster.create("edge", spec.clone()).await;
    apply(&istio, "a", RetryState::Off).await;
    assert_eq!(cluster.names().await, ["edge", "retryguard-a"]);
    assert_eq!(cluster.spec("edge").await["http"][0]["retries"], off());
    apply(&istio, "a", RetryState::Original).await;
    assert_eq!(cluster.names().await, ["edge"]);
    assert_eq!(cluster.spec("edge").await, spec);
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn where_none_may_be_made_the_loss_says_so() {
    let cluster = Cluster::start().await;
    let istio = cluster.istio(&["a.elsewhere", "api.example.com"]);
    for target in ["a.elsewhere", "api.example.com"] {
        let losses = apply(&istio, target, RetryState::Off).await;
        assert!(
            losses[0].0.contains("no VirtualService takes the calls"),
            "{losses:?}"
        );
    }
    assert_eq!(cluster.names().await, Vec::<String>::new());
}
