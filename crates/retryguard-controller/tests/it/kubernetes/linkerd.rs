//! Linkerd's annotations of Services and routes on a real API server. There is no Linkerd behind it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use retryguard_controller::adapters::actuator::linkerd::Linkerd;
use retryguard_controller::config::Config;
use retryguard_controller::config::actuator::linkerd::{LinkerdSettings, LinkerdTarget};
use retryguard_controller::domain::state::{Observed, RetryState};
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::actuator::Actuator as _;
use serde_json::{Value, json};

use super::cluster::{Cluster, RAMP, apply, found};
use super::gateway;

const CONTROLLER: &str = include_str!("../../../../../deploy/test/linkerd.yaml");

#[test]
fn the_configuration_of_the_guide_is_right() {
    let config = Config::parse(CONTROLLER, std::path::Path::new(".")).unwrap();
    let target = config.targets[0].linkerd.as_ref().unwrap();
    assert_eq!(target.service, "reviews.bookinfo");
    let host = CONTROLLER.replace("reviews.bookinfo", "reviews.bookinfo.svc.cluster.local");
    let wrong = Config::parse(&host, std::path::Path::new(".")).unwrap_err();
    assert!(wrong.to_string().contains("reviews.prod"), "{wrong}");
}

fn actuator(cluster: &Cluster) -> Linkerd {
    let settings = LinkerdSettings {
        namespaces: vec![cluster.namespace.clone()],
        namespace: cluster.namespace.clone(),
    };
    let target = LinkerdTarget {
        service: "reviews".to_owned(),
    };
    let targets = [(TargetName::new("reviews"), target)];
    Linkerd::new(cluster.client.clone(), settings, &targets, "test")
}

fn services(cluster: &Cluster) -> Api<Service> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

async fn create(cluster: &Cluster, annotations: Value) {
    let service = json!({
        "metadata": {"name": "reviews", "annotations": annotations},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "reviews"}},
    });
    let service = serde_json::from_value(service).unwrap();
    services(cluster)
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
}

async fn annotations(cluster: &Cluster) -> BTreeMap<String, String> {
    let service = services(cluster).get("reviews").await.unwrap();
    service.metadata.annotations.unwrap_or_default()
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn retries_of_a_service_and_of_its_routes_go_off_and_come_back() {
    let cluster = gateway::start().await;
    let user = json!({"retry.linkerd.io/http": "5xx", "retry.linkerd.io/limit": "4", "team": "shop"});
    create(&cluster, user.clone()).await;
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "reviews", "annotations": {"retry.linkerd.io/http": "503"}},
        "spec": {
            "parentRefs": [{"group": "", "kind": "Service", "name": "reviews"}],
            "rules": [{"backendRefs": [{"name": "reviews", "port": 80}]}],
        },
    });
    let routes = gateway::objects(&cluster);
    let route = serde_json::from_value(route).unwrap();
    routes.create(&PostParams::default(), &route).await.unwrap();
    let linkerd = actuator(&cluster);
    assert_eq!(found(&linkerd).await, []);

    assert_eq!(apply(&linkerd, "reviews", RetryState::Off).await, []);
    let now = annotations(&cluster).await;
    assert_eq!(
        (now.get("retry.linkerd.io/http"), now["team"].as_str()),
        (None, "shop")
    );
    let of_route = routes.get("reviews").await.unwrap().metadata.annotations.unwrap();
    assert_eq!(of_route.get("retry.linkerd.io/http"), None);
    assert_eq!(
        found(&linkerd).await,
        [("reviews".to_owned(), Observed::Managed(RetryState::Off))]
    );

    let losses = apply(&linkerd, "reviews", RAMP[2]).await;
    assert_eq!(annotations(&cluster).await["retry.linkerd.io/limit"], "2");
    assert!(losses[0].0.contains("Linkerd counts whole retries"), "{losses:?}");

    // Another controller, which knows only what is in the cluster.
    apply(&actuator(&cluster), "reviews", RetryState::Original).await;
    assert_eq!(json!(annotations(&cluster).await), user);
    let of_route = routes.get("reviews").await.unwrap().metadata.annotations.unwrap();
    assert_eq!(json!(of_route), json!({"retry.linkerd.io/http": "503"}));
    assert_eq!(found(&linkerd).await, []);
    let list = routes.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 1, "nothing is made");
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn an_edit_stands_a_new_route_is_switched_too_and_losses_are_told() {
    let cluster = gateway::start().await;
    create(&cluster, json!({})).await;
    let linkerd = actuator(&cluster);
    let losses = apply(&linkerd, "reviews", RetryState::Off).await;
    assert!(losses[0].0.contains("Linkerd does not retry there"), "{losses:?}");

    let edit =
        |value: Value| Patch::Merge(json!({"metadata": {"annotations": {"retry.linkerd.io/http": value}}}));
    let all = services(&cluster);
    let write = PatchParams::default();
    all.patch("reviews", &write, &edit(json!("5xx"))).await.unwrap();
    apply(&linkerd, "reviews", RetryState::Off).await;
    all.patch("reviews", &write, &edit(json!("502"))).await.unwrap();
    let [(_, Observed::Overridden(_))] = &found(&linkerd).await[..] else {
        panic!("the edit is not seen")
    };
    apply(&linkerd, "reviews", RetryState::Original).await;
    assert_eq!(
        json!(annotations(&cluster).await),
        json!({"retry.linkerd.io/http": "502"})
    );

    apply(&linkerd, "reviews", RetryState::Off).await;
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "new", "annotations": {"retry.linkerd.io/http": "503"}},
        "spec": {"parentRefs": [{"group": "", "kind": "Service", "name": "reviews"}]},
    });
    let routes = gateway::objects(&cluster);
    let route = serde_json::from_value(route).unwrap();
    routes.create(&PostParams::default(), &route).await.unwrap();
    let [(_, Observed::Managed(RetryState::Part { .. }))] = &found(&linkerd).await[..] else {
        panic!("the new route is not seen")
    };
    apply(&linkerd, "reviews", RetryState::Off).await;
    assert_eq!(
        found(&linkerd).await,
        [("reviews".to_owned(), Observed::Managed(RetryState::Off))]
    );
    assert_eq!(linkerd.name(), "linkerd");
}
