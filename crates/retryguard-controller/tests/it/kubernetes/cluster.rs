use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use retryguard_controller::adapters::actuator::routes::Routes;
use retryguard_controller::config::actuator::istio::{IstioSettings, IstioTarget};
use retryguard_controller::domain::state::{Change, Loss, Observed, RetryState};
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::actuator::Actuator;
use retryguard_core::ratio::Ratio;
use retryguard_parts::Kubernetes;
use serde_json::{Value, json};

/// The steps of the usual ramp.
pub(crate) const RAMP: [RetryState; 3] = [step(0, 8), step(1, 4), step(2, 2)];

const fn step(step: u8, of: u64) -> RetryState {
    RetryState::Part {
        step,
        share: Ratio::from_parts(Ratio::PARTS / of),
    }
}

/// A namespace of one test in the server that all share.
pub(crate) struct Cluster {
    pub(crate) server: Arc<Kubernetes>,
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let server = tokio::task::spawn_blocking(Kubernetes::shared).await.unwrap();
        let client = client(&server.kubeconfig()).await;
        install(&client).await;
        let namespace = format!("test-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let object = Namespace {
            metadata: ObjectMeta {
                name: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let api: Api<Namespace> = Api::all(client.clone());
        api.create(&PostParams::default(), &object).await.unwrap();
        Self {
            server,
            client,
            namespace,
        }
    }

    pub(crate) fn settings(&self) -> IstioSettings {
        IstioSettings {
            namespaces: vec![self.namespace.clone()],
            namespace: self.namespace.clone(),
            ..IstioSettings::default()
        }
    }

    /// An actuator for targets whose hosts are their names.
    pub(crate) fn istio(&self, targets: &[&str]) -> Routes {
        self.istio_as(self.client.clone(), targets)
    }

    pub(crate) fn istio_as(&self, client: Client, targets: &[&str]) -> Routes {
        let targets: Vec<(TargetName, IstioTarget)> = targets
            .iter()
            .map(|name| {
                let host = (*name).to_owned();
                (TargetName::new(name), IstioTarget { host })
            })
            .collect();
        Routes::istio(client, self.settings(), &targets, "test")
    }

    pub(crate) fn objects(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource())
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) {
        self.create_with(json!({"name": name}), spec).await;
    }

    pub(crate) async fn create_with(&self, metadata: Value, spec: Value) {
        let object = serde_json::from_value(json!({
            "apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": metadata, "spec": spec,
        }))
        .unwrap();
        self.objects()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub(crate) async fn spec(&self, name: &str) -> Value {
        self.objects().get(name).await.unwrap().data["spec"].take()
    }

    pub(crate) async fn annotations(&self, name: &str) -> usize {
        let object = self.objects().get(name).await.unwrap();
        object.metadata.annotations.unwrap_or_default().len()
    }

    /// The bytes of the spec and of the metadata that users write, as the server sends them.
    pub(crate) async fn text(&self, name: &str) -> String {
        let path = format!(
            "/apis/networking.istio.io/v1/namespaces/{}/virtualservices/{name}",
            self.namespace
        );
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let text = self.client.request_text(request).await.unwrap();
        // The spec comes last in the server's answer.
        let (_, spec) = text.split_once(",\"spec\":").unwrap();
        let object: Value = serde_json::from_str(&text).unwrap();
        let metadata = &object["metadata"];
        format!("{}{}{spec}", metadata["annotations"], metadata["labels"])
    }

    pub(crate) async fn patch(&self, name: &str, operations: Value) {
        let patch: Patch<()> = Patch::Json(serde_json::from_value(operations).unwrap());
        self.objects()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.objects()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        let list = self.objects().list(&ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .filter_map(|object| object.metadata.name)
            .collect()
    }

    /// The reasons and notes of the events about an object, oldest first.
    pub(crate) async fn events(&self, name: &str) -> Vec<(String, String)> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut list = api.list(&ListParams::default()).await.unwrap().items;
        list.retain(|event| event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(name));
        list.sort_by_key(|event| {
            event
                .metadata
                .resource_version
                .clone()
                .and_then(|version| version.parse::<u64>().ok())
        });
        list.into_iter()
            .map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default()))
            .collect()
    }
}

/// Changes, and must succeed.
pub(crate) async fn apply(plane: &impl Actuator, target: &str, desired: RetryState) -> Vec<Loss> {
    let why = format!("{target}: rejections 40.0 % above 20.0 % of 100 calls");
    let change = Change {
        target: TargetName::new(target),
        desired,
        why,
        term: 1,
    };
    plane.apply(&change).await.unwrap()
}

/// What is held, by target.
pub(crate) async fn found(plane: &impl Actuator) -> Vec<(String, Observed)> {
    let found = plane.find().await.unwrap();
    found
        .into_iter()
        .map(|found| (found.target.to_string(), found.held))
        .collect()
}

pub(crate) fn to(host: &str) -> Value {
    json!([{"destination": {"host": host}}])
}

pub(crate) fn off() -> Value {
    json!({"attempts": 0})
}

pub(crate) fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("networking.istio.io", "v1", "VirtualService");
    ApiResource::from_gvk_with_plural(&kind, "virtualservices")
}

pub(crate) async fn client(kubeconfig: &Path) -> Client {
    retryguard_controller::adapters::kubernetes::client(Some(kubeconfig))
        .await
        .unwrap()
}

/// Sends a document as it is written; true when the server took it, false when it has it already.
pub(crate) async fn post(client: &Client, path: &str, yaml: &str) -> bool {
    let request = http::Request::post(path)
        .header("content-type", "application/yaml")
        .body(yaml.as_bytes().to_vec())
        .unwrap();
    match client.request_text(request).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 409 => false,
        Err(error) => panic!("{path}: {error}"),
    }
}

/// Installs the definition of VirtualServices, and waits until the server serves them.
pub(crate) async fn install(client: &Client) {
    let definition = include_str!("../../../../../deploy/test/virtualservices.yaml");
    post(
        client,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    )
    .await;
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource());
    for _ in 0..600 {
        if objects.list(&ListParams::default()).await.is_ok() {
            return;
        }
        retryguard_controller::clock::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the server does not serve VirtualServices");
}
