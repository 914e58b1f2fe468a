use retryguard_controller::domain::state::{Observed, RetryState};
use serde_json::json;

use super::cluster::{Cluster, RAMP, apply, found, off, to};

async fn one_route(cluster: &Cluster) {
    let spec =
        json!({"hosts": ["a"], "http": [{"name": "main", "route": to("a"), "retries": {"attempts": 4}}]});
    cluster.create("a", spec).await;
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn an_edit_of_the_retries_stands_and_is_what_comes_back_the_next_time() {
    let cluster = Cluster::start().await;
    one_route(&cluster).await;
    let istio = cluster.istio(&["a"]);
    apply(&istio, "a", RetryState::Off).await;
    let edit = json!({"attempts": 1, "retryOn": "reset"});
    cluster
        .patch(
            "a",
            json!([{"op": "replace", "path": "/spec/http/0/retries", "value": edit}]),
        )
        .await;
    let [(target, Observed::Overridden(sentence))] = &found(&istio).await[..] else {
        panic!("not seen")
    };
    assert_eq!(target, "a");
    assert!(sentence.contains("route `main`"), "{sentence}");
    for desired in [RetryState::Off, RAMP[0], RAMP[1]] {
        apply(&istio, "a", desired).await;
        assert_eq!(cluster.spec("a").await["http"][0]["retries"], edit);
    }
    apply(&istio, "a", RetryState::Original).await;
    assert_eq!(cluster.spec("a").await["http"][0]["retries"], edit);
    assert_eq!(cluster.annotations("a").await, 0);
    let events = cluster.events("a").await;
    let told = events
        .iter()
        .filter(|(reason, _)| reason == "RetriesLeftAlone")
        .count();
    assert_eq!(told, 1, "{events:?}");
    // The next episode.
    apply(&istio, "a", RetryState::Off).await;
    assert_eq!(cluster.spec("a").await["http"][0]["retries"], off());
    apply(&istio, "a", RetryState::Original).await;
    assert_eq!(cluster.spec("a").await["http"][0]["retries"], edit);
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn edits_of_other_fields_and_new_routes_go_along() {
    let cluster = Cluster::start().await;
    one_route(&cluster).await;
    let istio = cluster.istio(&["a"]);
    apply(&istio, "a", RetryState::Off).await;
    cluster
        .patch(
            "a",
            json!([
                {"op": "add", "path": "/spec/http/0/timeout", "value": "3s"},
                {"op": "add", "path": "/spec/http/0", "value": {"route": to("a"), "retries": {"attempts": 7}}},
                {"op": "add", "path": "/metadata/annotations/user", "value": "hello"},
            ]),
        )
        .await;
    // The new route makes what stands differ from every desired state, so the loop says again what it wants.
    let [(_, Observed::Managed(desired))] = found(&istio).await[..] else {
        panic!("not seen")
    };
    assert!(
        ![RetryState::Off, RetryState::Original, RAMP[0], RAMP[1], RAMP[2]].contains(&desired),
        "{desired:?}"
    );
    apply(&istio, "a", RetryState::Off).await;
    let spec = cluster.spec("a").await;
    assert_eq!(
        [&spec["http"][0]["retries"], &spec["http"][1]["retries"]],
        [&off(), &off()]
    );
    apply(&istio, "a", RetryState::Original).await;
    let spec = cluster.spec("a").await;
    assert_eq!(spec["http"][0]["retries"], json!({"attempts": 7}));
    assert_eq!(
        spec["http"][1],
        json!({"name": "main", "route": to("a"), "retries": {"attempts": 4}, "timeout": "3s"})
    );
    assert_eq!(cluster.annotations("a").await, 1, "the user's own");
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn a_tool_that_applies_the_whole_object_again_is_not_fought() {
    let cluster = Cluster::start().await;
    one_route(&cluster).await;
    let before = cluster.text("a").await;
    let istio = cluster.istio(&["a"]);
    apply(&istio, "a", RetryState::Off).await;
    // As `kubectl replace` does it: neither our block nor our annotation survives.
    let mut whole = cluster.objects().get("a").await.unwrap();
    whole.metadata.annotations = None;
    whole.data["spec"]["http"][0]["retries"] = json!({"attempts": 4});
    cluster
        .objects()
        .replace("a", &Default::default(), &whole)
        .await
        .unwrap();
    let [(_, Observed::Overridden(_))] = &found(&istio).await[..] else {
        panic!("not seen")
    };
    apply(&istio, "a", RetryState::Off).await;
    apply(&istio, "a", RAMP[0]).await;
    assert_eq!(cluster.text("a").await, before, "not fought, and not marked");
    apply(&istio, "a", RetryState::Original).await;
    assert_eq!(found(&istio).await, []);
    apply(&istio, "a", RetryState::Off).await;
    assert_eq!(
        cluster.spec("a").await["http"][0]["retries"],
        off(),
        "the next episode"
    );
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn a_tool_that_owns_the_list_by_server_side_apply_is_told_of_the_conflict_by_the_server() {
    use kube::api::{Patch, PatchParams};
    let cluster = Cluster::start().await;
    let whole = json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": "a"},
        "spec": {"hosts": ["a"], "http": [{"route": to("a"), "retries": {"attempts": 4}}]}});
    let flux = PatchParams::apply("flux");
    cluster
        .objects()
        .patch("a", &flux, &Patch::Apply(&whole))
        .await
        .unwrap();
    let istio = cluster.istio(&["a"]);
    apply(&istio, "a", RetryState::Off).await;
    let error = cluster
        .objects()
        .patch("a", &flux, &Patch::Apply(&whole))
        .await
        .unwrap_err();
    assert!(error.to_string().contains(".spec.http"), "{error}");
    // With force it takes the list back, and is not fought.
    cluster
        .objects()
        .patch("a", &flux.force(), &Patch::Apply(&whole))
        .await
        .unwrap();
    apply(&istio, "a", RetryState::Off).await;
    assert_eq!(cluster.spec("a").await, whole["spec"]);
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn an_object_that_is_deleted_while_off_is_gone_and_a_new_one_is_new() {
    let cluster = Cluster::start().await;
    one_route(&cluster).await;
    let istio = cluster.istio(&["a"]);
    apply(&istio, "a", RetryState::Off).await;
    cluster.delete("a").await;
    assert_eq!(found(&istio).await, []);
    cluster
        .create(
            "a",
            json!({"hosts": ["a"], "http": [{"route": to("a"), "retries": {"attempts": 9}}]}),
        )
        .await;
    apply(&istio, "a", RetryState::Off).await;
    assert_eq!(cluster.spec("a").await["http"][0]["retries"], off());
    apply(&istio, "a", RetryState::Original).await;
    assert_eq!(
        cluster.spec("a").await["http"][0]["retries"],
        json!({"attempts": 9})
    );
}
