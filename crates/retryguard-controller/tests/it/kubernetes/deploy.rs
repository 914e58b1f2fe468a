use std::path::Path;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SelfSubjectRulesReview,
    SelfSubjectRulesReviewSpec,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, Client};
use retryguard_controller::adapters::actuator::routes::Routes;
use retryguard_controller::adapters::election::kubernetes::Lease;
use retryguard_controller::config::Config;
use retryguard_controller::domain::state::RetryState;
use retryguard_controller::reconcile::actuator::Actuator as _;
use retryguard_controller::reconcile::election::{LeaderElection as _, Leadership};
use serde_json::json;

use super::cluster::{Cluster, apply, client, found, off, post, resource, to};

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes")
}

/// Every document of every file that the kustomization names, with where the server wants it.
fn documents() -> Vec<(String, String)> {
    let list = std::fs::read_to_string(folder().join("kustomization.yaml")).unwrap();
    let files = list.lines().filter_map(|line| line.strip_prefix("  - "));
    files
        .flat_map(|file| {
            let text = std::fs::read_to_string(folder().join(file)).unwrap();
            text.split("\n---\n").map(str::to_owned).collect::<Vec<_>>()
        })
        .map(|document| (place(&document), document))
        .collect()
}

fn place(document: &str) -> String {
    let value = |key: &str| {
        let line = document.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default().trim().to_owned()
    };
    let version = value("apiVersion:");
    let root = if version.contains('/') {
        format!("/apis/{version}")
    } else {
        format!("/api/{version}")
    };
    match value("kind:").as_str() {
        "Namespace" => format!("{root}/namespaces"),
        kind @ ("ClusterRole" | "ClusterRoleBinding") => format!("{root}/{}s", kind.to_lowercase()),
        kind => {
            let namespace = value("  namespace:");
            assert_eq!(namespace, "retryguard", "{kind}");
            format!("{root}/namespaces/{namespace}/{}s", kind.to_lowercase())
        }
    }
}

/// As the account that the manifests make, by a token that the server itself has signed.
async fn as_account(cluster: &Cluster) -> Client {
    for (path, document) in documents() {
        post(&cluster.client, &path, &document).await;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), "retryguard");
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec!["https://kubernetes.default.svc".to_owned()],
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request("retryguard-controller", &PostParams::default(), &request)
        .await
        .unwrap();
    let token = answer.status.unwrap().token;
    let account = client(
        &cluster
            .server
            .kubeconfig_for(&format!("account-{}", cluster.namespace), &token),
    )
    .await;
    // The server applies new roles a moment after it has accepted them.
    for (group, resource, verb) in [
        ("networking.istio.io", "virtualservices", "patch"),
        ("networking.istio.io", "virtualservices", "watch"),
        ("coordination.k8s.io", "leases", "update"),
        ("events.k8s.io", "events", "create"),
    ] {
        granted(&account, group, resource, verb).await;
    }
    account
}

async fn granted(account: &Client, group: &str, resource: &str, verb: &str) {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(account.clone());
    let name = (resource == "leases").then(|| "retryguard-controller".to_owned());
    let question = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                name,
                namespace: Some("retryguard".to_owned()),
                resource: Some(resource.to_owned()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    for _ in 0..600 {
        let answer = reviews.create(&PostParams::default(), &question).await;
        if answer.is_ok_and(|answer| answer.status.is_some_and(|status| status.allowed)) {
            return;
        }
        retryguard_controller::clock::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{verb} of {resource} is never granted");
}

/// The API server's own list of what the account may do, without the questions about itself that every account may ask.
async fn rules(account: &Client) -> Vec<String> {
    let reviews: Api<SelfSubjectRulesReview> = Api::all(account.clone());
    let question = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some("retryguard".to_owned()),
        },
        ..SelfSubjectRulesReview::default()
    };
    let answer = reviews.create(&PostParams::default(), &question).await.unwrap();
    let mut all: Vec<String> = answer
        .status
        .unwrap()
        .resource_rules
        .into_iter()
        .map(|rule| {
            format!(
                "{} {} [{}] {}",
                rule.api_groups.unwrap_or_default().join(" "),
                rule.resources.unwrap_or_default().join(" "),
                rule.resource_names.unwrap_or_default().join(" "),
                rule.verbs.join(" ")
            )
        })
        .filter(|rule| !rule.starts_with("authorization.k8s.io "))
        .collect();
    all.sort_unstable();
    all
}

fn is_forbidden<T>(result: kube::Result<T>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 403)
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn the_account_of_the_manifests_can_do_everything_that_the_controller_does() {
    let cluster = Cluster::start().await;
    let account = as_account(&cluster).await;
    cluster
        .create(
            "a",
            json!({"hosts": ["a"], "http": [{"route": to("a"), "retries": {"attempts": 4}}]}),
        )
        .await;
    let before = cluster.text("a").await;
    let istio = cluster.istio_as(account.clone(), &["a", "b"]);
    apply(&istio, "a", RetryState::Off).await;
    apply(&istio, "b", RetryState::Off).await;
    assert_eq!(cluster.spec("a").await["http"][0]["retries"], off());
    assert_eq!(cluster.names().await, ["a", "retryguard-b"]);
    assert_eq!(found(&istio).await.len(), 2);
    hears_of_edits(&cluster, &istio).await;
    apply(&istio, "a", RetryState::Original).await;
    apply(&istio, "b", RetryState::Original).await;
    assert_eq!(cluster.text("a").await, before);
    assert_eq!(cluster.names().await, ["a"]);
    assert_eq!(cluster.events("a").await.len(), 2, "events were written");

    let term = std::time::Duration::from_secs(15);
    let mut lease = Lease::new(account, "retryguard", "retryguard-controller", "test", term);
    for _ in 0..2 {
        let standing = lease.campaign().await.unwrap();
        assert!(matches!(standing, Leadership::Leader { .. }), "{standing:?}");
    }
    lease.resign().await.unwrap();
}

/// The first notification comes with the first list; a second one needs the permission to `watch`.
async fn hears_of_edits(cluster: &Cluster, istio: &Routes) {
    let heard = tokio::sync::Notify::new();
    let changed = || heard.notify_one();
    let edit = async {
        heard.notified().await;
        let note = json!([{"op": "add", "path": "/metadata/labels", "value": {"edited": "yes"}}]);
        cluster.patch("a", note).await;
        heard.notified().await;
        let clean = json!([{"op": "remove", "path": "/metadata/labels"}]);
        cluster.patch("a", clean).await;
    };
    tokio::select! {
        () = istio.notice(&changed) => panic!("it never ends"),
        heard = tokio::time::timeout(std::time::Duration::from_secs(60), edit) => heard.unwrap(),
    }
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn the_account_can_do_nothing_else() {
    let cluster = Cluster::start().await;
    let account = as_account(&cluster).await;
    assert_eq!(
        rules(&account).await,
        [
            "coordination.k8s.io leases [] create",
            "coordination.k8s.io leases [retryguard-controller] get update",
            "events.k8s.io events [] create",
            "networking.istio.io virtualservices [] get list watch patch create delete",
        ]
    );
    cluster.create("a", json!({"hosts": ["a"]})).await;
    let objects: Api<DynamicObject> = Api::namespaced_with(account.clone(), &cluster.namespace, &resource());
    let object = objects.get("a").await.unwrap();
    assert!(is_forbidden(
        objects.replace("a", &PostParams::default(), &object).await
    ));
    assert!(is_forbidden(
        objects
            .delete_collection(&Default::default(), &ListParams::default())
            .await
    ));
    let secrets: Api<Secret> = Api::namespaced(account.clone(), "retryguard");
    assert!(is_forbidden(secrets.list(&ListParams::default()).await));
    let maps: Api<ConfigMap> = Api::namespaced(account.clone(), "retryguard");
    assert!(is_forbidden(maps.get("retryguard-controller").await));
    let mut lease = Lease::new(
        account,
        "retryguard",
        "another-lease",
        "test",
        std::time::Duration::from_secs(15),
    );
    let error = lease.campaign().await.unwrap_err();
    assert!(error.to_string().contains("forbidden"), "{error}");
}

#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn the_configuration_of_the_manifests_is_one() {
    let cluster = Cluster::start().await;
    as_account(&cluster).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "retryguard");
    let map = maps.get("retryguard-controller").await.unwrap();
    let text = &map.data.unwrap()["controller.yaml"];
    let config = Config::parse(text, Path::new(".")).unwrap();
    assert_eq!(config.targets.len(), 1);
    assert!(config.actuators.istio.is_some());
}

/// The files of the guide, as its reader sends them.
#[tokio::test]
#[ignore = "needs Kubernetes"]
async fn the_guides_service_and_configuration_fit_together() {
    let cluster = Cluster::start().await;
    let folder = folder().join("../test");
    let text = std::fs::read_to_string(folder.join("reviews.yaml")).unwrap();
    let (namespace, service) = text.split_once("\n---\n").unwrap();
    post(&cluster.client, "/api/v1/namespaces", namespace).await;
    let path = "/apis/networking.istio.io/v1/namespaces/bookinfo/virtualservices";
    post(&cluster.client, path, service).await;
    let config = Config::load(&folder.join("controller.yaml")).unwrap();
    let settings = config.actuators.istio.unwrap();
    let targets: Vec<_> = config
        .targets
        .iter()
        .map(|target| (target.name.clone(), target.istio.clone().unwrap()))
        .collect();
    let istio = Routes::istio(cluster.client.clone(), settings, &targets, "test");
    let objects: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), "bookinfo", &resource());
    apply(&istio, "reviews", RetryState::Off).await;
    let object = objects.get("reviews").await.unwrap();
    assert_eq!(object.data["spec"]["http"][0]["retries"], off());
    apply(&istio, "reviews", RetryState::Original).await;
    let object = objects.get("reviews").await.unwrap();
    assert_eq!(object.data["spec"]["http"][0]["retries"]["attempts"], 5);
}
