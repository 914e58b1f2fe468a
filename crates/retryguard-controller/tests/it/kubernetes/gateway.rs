//! The `retry` of HTTPRoutes: the actuator `gateway-api` on a real API server.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use retryguard_controller::adapters::actuator::routes::Routes;
use retryguard_controller::config::Config;
use retryguard_controller::config::actuator::gateway_api::{GatewayApiSettings, GatewayApiTarget};
use retryguard_controller::domain::state::{Observed, RetryState};
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::actuator::Actuator as _;
use retryguard_parts::need;
use serde_json::{Value, json};

use super::cluster::{Cluster, RAMP, apply, found, post};

const DEFINITION: &str = include_str!("../../../../../deploy/test/httproutes.yaml");
const REVIEWS: &str = include_str!("../../../../../deploy/test/reviews-route.yaml");
const CONTROLLER: &str = include_str!("../../../../../deploy/test/gateway.yaml");

pub(super) fn objects(cluster: &Cluster) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute");
    let resource = ApiResource::from_gvk_with_plural(&kind, "httproutes");
    Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource)
}

/// The definition from the public schema of the Gateway API.
fn public_definition() -> String {
    std::fs::read_to_string(need("mesh-definitions").join("httproutes.json")).unwrap()
}

/// A server with the public definition: it drops fields that the Gateway API does not have.
pub(super) async fn start() -> Cluster {
    let cluster = Cluster::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&cluster.client, path, &public_definition()).await;
    let served = objects(&cluster);
    for _ in 0..600 {
        if served.list(&ListParams::default()).await.is_ok() {
            return cluster;
        }
        retryguard_controller::clock::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the server does not serve HTTPRoutes");
}

fn actuator(cluster: &Cluster, default_attempts: u32) -> Routes {
    let settings = GatewayApiSettings {
        namespaces: vec![cluster.namespace.clone()],
        namespace: cluster.namespace.clone(),
        default_attempts,
        ..GatewayApiSettings::default()
    };
    let target = GatewayApiTarget {
        service: "reviews".to_owned(),
    };
    let targets = [(TargetName::new("reviews"), target)];
    Routes::gateway_api(cluster.client.clone(), settings, &targets, "test")
}

async fn create(cluster: &Cluster, name: &str, rules: Value) {
    let object = serde_json::from_value(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": name},
        "spec": {"parentRefs": [{"name": "public"}], "rules": rules},
    }));
    let created = objects(cluster)
        .create(&PostParams::default(), &object.unwrap())
        .await;
    created.unwrap();
}

async fn rules(cluster: &Cluster, name: &str) -> Value {
    objects(cluster).get(name).await.unwrap().data["spec"]["rules"].take()
}

fn user_block() -> Value {
    json!({"codes": [503], "attempts": 5, "backoff": "100ms"})
}

fn with_attempts(attempts: u32) -> Value {
    json!({"codes": [503], "attempts": attempts, "backoff": "100ms"})
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn retries_go_off_come_back_by_steps_and_are_the_users_again() {
    let cluster = start().await;
    let other = json!([{"name": "other", "port": 80}]);
    let before = json!([
        {"backendRefs": [{"name": "reviews", "port": 80}], "retry": user_block()},
        {"backendRefs": other, "retry": user_block()},
        {"backendRefs": [{"name": "reviews", "port": 80}]},
    ]);
    create(&cluster, "shop", before.clone()).await;
    let routes = actuator(&cluster, 0);
    assert_eq!(routes.name(), "gateway-api");
    assert_eq!(found(&routes).await, []);

    assert_eq!(apply(&routes, "reviews", RetryState::Off).await, []);
    let now = rules(&cluster, "shop").await;
    assert_eq!(
        [&now[0]["retry"], &now[1]["retry"], &now[2]["retry"]],
        [&with_attempts(0), &user_block(), &Value::Null],
        "what sends elsewhere, or has no retries, is left alone"
    );
    assert_eq!(
        found(&routes).await,
        [("reviews".to_owned(), Observed::Managed(RetryState::Off))]
    );

    let losses = apply(&routes, "reviews", RAMP[1]).await;
    assert_eq!(rules(&cluster, "shop").await[0]["retry"], with_attempts(2));
    assert!(
        losses[0].0.contains("the Gateway API counts whole retries"),
        "{losses:?}"
    );

    // Another controller, which knows only what is in the cluster.
    let next = actuator(&cluster, 0);
    apply(&next, "reviews", RetryState::Original).await;
    assert_eq!(rules(&cluster, "shop").await, before);
    assert_eq!(found(&next).await, []);
    let object = objects(&cluster).get("shop").await.unwrap();
    assert_eq!(object.metadata.annotations.unwrap_or_default().len(), 0);
    let told: Vec<String> = cluster
        .events("shop")
        .await
        .into_iter()
        .map(|event| event.0)
        .collect();
    assert_eq!(told, ["RetriesOff", "RetriesRamping", "RetriesRestored"]);
}

/// The Gateway API leaves it to the implementation how often a rule without a number retries; the operator can say it.
#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn a_rule_without_a_number_is_off_too() {
    let cluster = start().await;
    let before = json!([
        {"backendRefs": [{"name": "reviews", "port": 80}], "retry": {"codes": [503]}},
        {"backendRefs": [{"name": "reviews", "port": 80}]},
    ]);
    create(&cluster, "shop", before.clone()).await;
    let routes = actuator(&cluster, 2);
    apply(&routes, "reviews", RetryState::Off).await;
    let now = rules(&cluster, "shop").await;
    assert_eq!(
        [&now[0]["retry"], &now[1]["retry"]],
        [&json!({"codes": [503], "attempts": 0}), &json!({"attempts": 0})]
    );
    apply(&routes, "reviews", RetryState::Original).await;
    assert_eq!(rules(&cluster, "shop").await, before);
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn an_edit_of_the_user_stands_and_a_service_without_a_route_is_a_loss() {
    let cluster = start().await;
    let routes = actuator(&cluster, 0);
    let losses = apply(&routes, "reviews", RetryState::Off).await;
    assert!(
        losses[0].0.contains("no rule of an HTTPRoute sends to"),
        "{losses:?}"
    );

    let rule = json!([{"backendRefs": [{"name": "reviews", "port": 80}], "retry": user_block()}]);
    create(&cluster, "shop", rule).await;
    apply(&routes, "reviews", RetryState::Off).await;
    let mut object = objects(&cluster).get("shop").await.unwrap();
    object.data["spec"]["rules"][0]["retry"] = with_attempts(3);
    objects(&cluster)
        .replace("shop", &PostParams::default(), &object)
        .await
        .unwrap();
    let [(_, Observed::Overridden(_))] = &found(&routes).await[..] else {
        panic!("the edit is not seen")
    };
    apply(&routes, "reviews", RetryState::Original).await;
    assert_eq!(rules(&cluster, "shop").await[0]["retry"], with_attempts(3));
}

/// The definition that the guide installs has no field that the public one does not have, and the same types.
#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn the_definition_of_the_guide_is_a_part_of_the_public_one() {
    fn compare(ours: &Value, public: &Value, place: &str) -> usize {
        assert_eq!(ours["type"], public["type"], "{place}");
        assert_eq!(ours["required"], public["required"], "{place}: required");
        let fields = ours["properties"].as_object().into_iter().flatten();
        let inner: usize = fields
            .map(|(name, field)| {
                let known = &public["properties"][name];
                assert!(
                    known.is_object(),
                    "{place}.{name} is not a field of the Gateway API"
                );
                1 + compare(field, known, &format!("{place}.{name}"))
            })
            .sum();
        if ours["items"]["properties"].is_object() {
            return inner + compare(&ours["items"], &public["items"], &format!("{place}[]"));
        }
        inner
    }
    let cluster = Cluster::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
    let request = http::Request::post(path)
        .header("content-type", "application/yaml")
        .body(
            DEFINITION
                .replace("httproute", "guideroute")
                .replace("HTTPRoute", "GuideRoute")
                .into_bytes(),
        )
        .unwrap();
    let accepted = cluster.client.request_text(request).await.unwrap();
    let spec = |text: &str| {
        let mut whole: Value = serde_json::from_str(text).unwrap();
        whole["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].take()
    };
    let fields = compare(&spec(&accepted), &spec(&public_definition()), "spec");
    assert!(fields > 20, "{fields}");
}

/// The files of the guide, as they are.
#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn the_files_of_the_guide_fit_together() {
    let cluster = start().await;
    let config = Config::parse(CONTROLLER, std::path::Path::new(".")).unwrap();
    let (_, route) = REVIEWS.split_once("---\n").unwrap();
    let route = route.replace(
        "namespace: bookinfo",
        &format!("namespace: {}", cluster.namespace),
    );
    let path = format!(
        "/apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes",
        cluster.namespace
    );
    assert!(post(&cluster.client, &path, &route).await);
    let mut settings = config.actuators.gateway_api.clone().unwrap();
    settings.namespaces = vec![cluster.namespace.clone()];
    let target = config.targets[0].gateway_api.clone().unwrap();
    assert_eq!(target.service, "reviews.bookinfo");
    let service = target.service.replace("bookinfo", &cluster.namespace);
    let targets = [(TargetName::new("reviews"), GatewayApiTarget { service })];
    let routes = Routes::gateway_api(cluster.client.clone(), settings, &targets, "test");
    apply(&routes, "reviews", RetryState::Off).await;
    assert_eq!(
        rules(&cluster, "reviews").await[0]["retry"],
        json!({"codes": [502, 503, 504], "attempts": 0, "backoff": "100ms"})
    );
}
