//! Objects with routes in the API server.

use std::collections::BTreeMap;
use std::pin::Pin;

use futures_core::Stream;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::api::{PostParams, Preconditions};
use kube::core::{DynamicResourceScope, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde_json::Value;

use crate::adapters::actuator::routes::Scope;
use crate::adapters::actuator::routes::dialect::Dialect;
use crate::adapters::actuator::routes::host::Host;
use crate::adapters::kubernetes::{RequestError, with_retries, within};
use crate::reconcile::actuator::ActuatorError;

/// The field manager under which our writes appear in an object.
const MANAGER: &str = "retryguard";

/// How many objects one answer of a list holds.
const PAGE: u32 = 500;

/// The most objects that are looked at. A cluster with more is split by namespaces.
const MOST_OBJECTS: usize = 20_000;

/// What changes, as the API server says it.
pub(super) type Changes = Pin<Box<dyn Stream<Item = Result<Event<Metadata>, watcher::Error>> + Send>>;

pub(super) type Metadata = PartialObjectMeta<DynamicObject>;

/// One of them, as it was read. Fields that we do not know stay in it, because only patches are written.
#[derive(Debug, Clone)]
pub(super) struct RouteObject {
    dialect: Dialect,
    object: DynamicObject,
    annotations: BTreeMap<String, String>,
}

impl RouteObject {
    fn new(dialect: Dialect, mut object: DynamicObject) -> Self {
        Self {
            dialect,
            annotations: object.metadata.annotations.take().unwrap_or_default(),
            object,
        }
    }

    pub(super) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(super) fn namespace(&self) -> &str {
        self.object.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn resource_version(&self) -> &str {
        self.object
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    pub(super) fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.object.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    pub(super) fn spec(&self) -> &Value {
        self.object.data.get("spec").unwrap_or(&Value::Null)
    }

    /// How logs and errors call it.
    pub(super) fn title(&self) -> String {
        format!("{} {}/{}", self.dialect.kind(), self.namespace(), self.name())
    }

    /// Whether it is a VirtualService that takes the calls that services inside of the mesh make to `host`: a gateway's are
    /// another matter.
    pub(super) fn takes(&self, host: &Host, domain: &str) -> bool {
        let texts = |key: &str| match self.spec().get(key) {
            Some(Value::Array(entries)) => entries.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let gateways: Vec<&str> = texts("gateways");
        let inside = gateways.is_empty() || gateways.contains(&"mesh");
        self.dialect == Dialect::VirtualService
            && inside
            && texts("hosts")
                .iter()
                .any(|pattern| host.is_covered_by(&Host::new(pattern, self.namespace(), domain)))
    }

    /// For events about it.
    pub(super) fn reference(&self) -> ObjectReference {
        let types = self.object.types.clone().unwrap_or_default();
        ObjectReference {
            api_version: Some(types.api_version),
            kind: Some(types.kind),
            namespace: self.object.metadata.namespace.clone(),
            name: self.object.metadata.name.clone(),
            uid: self.object.metadata.uid.clone(),
            resource_version: self.object.metadata.resource_version.clone(),
            field_path: None,
        }
    }
}

/// The objects that may be changed.
#[derive(Clone)]
pub(super) struct Objects {
    dialect: Dialect,
    client: Client,
    resource: ApiResource,
    namespaces: Vec<String>,
}

impl Objects {
    pub(super) fn new(client: Client, scope: &Scope) -> Self {
        let dialect = scope.dialect;
        let kind = GroupVersionKind::gvk(dialect.group(), scope.version, dialect.kind());
        Self {
            dialect,
            client,
            resource: ApiResource::from_gvk_with_plural(&kind, dialect.plural()),
            namespaces: scope.namespaces.clone(),
        }
    }

    /// Whether objects of this namespace may be changed.
    pub(super) fn may_change(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|known| known == namespace)
    }

    /// All of them.
    pub(super) async fn list(&self) -> Result<Vec<RouteObject>, ActuatorError> {
        let mut all = Vec::new();
        for api in self.apis() {
            with_retries(|| self.pages(&api, &all))
                .await
                .map(|more| all.extend(more))
                .map_err(|trouble| match trouble {
                    RequestError::Missing(reason) => ActuatorError::Refused {
                        what: self.resource.api_version.clone(),
                        reason: format!(
                            "{reason}; is {} installed, and `apiVersion` one that it serves?",
                            self.dialect.system()
                        ),
                    },
                    trouble => trouble.into_error(&format!("the list of {}", self.dialect.plural())),
                })?;
        }
        Ok(all)
    }

    async fn pages(
        &self,
        api: &Api<DynamicObject>,
        before: &[RouteObject],
    ) -> Result<Vec<RouteObject>, RequestError> {
        let mut all = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = within(api.list(&page)).await?;
            let types = list.types.clone();
            all.extend(list.items.into_iter().map(|mut object| {
                // Entries of a list do not say what they are.
                object.types = object.types.or_else(|| {
                    Some(kube::core::TypeMeta {
                        api_version: types.api_version.clone(),
                        kind: self.resource.kind.clone(),
                    })
                });
                RouteObject::new(self.dialect, object)
            }));
            if before.len() + all.len() > MOST_OBJECTS {
                return Err(RequestError::Refused(format!(
                    "more than {MOST_OBJECTS} of them: name the `namespaces` that matter"
                )));
            }
            match list.metadata.continue_ {
                Some(token) if !token.is_empty() => page = page.continue_token(&token),
                _ => return Ok(all),
            }
        }
    }

    /// One of them as it is now.
    pub(super) async fn get(&self, object: &RouteObject) -> Result<RouteObject, RequestError> {
        within(self.api(object.namespace()).get(object.name()))
            .await
            .map(|object| RouteObject::new(self.dialect, object))
    }

    /// Applies a JSON patch; gives the version that it made.
    pub(super) async fn patch(
        &self,
        object: &RouteObject,
        operations: Vec<Value>,
    ) -> Result<String, RequestError> {
        let patch: Patch<()> = match serde_json::from_value(Value::Array(operations)) {
            Ok(patch) => Patch::Json(patch),
            Err(error) => return Err(RequestError::Refused(format!("the patch is none: {error}"))),
        };
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        within(
            self.api(object.namespace())
                .patch(object.name(), &parameters, &patch),
        )
        .await
        .map(|object| object.metadata.resource_version.unwrap_or_default())
    }

    /// Makes a new one from its whole text.
    pub(super) async fn create(&self, namespace: &str, whole: Value) -> Result<RouteObject, RequestError> {
        let object: DynamicObject =
            serde_json::from_value(whole).map_err(|error| RequestError::Refused(error.to_string()))?;
        let parameters = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        within(self.api(namespace).create(&parameters, &object))
            .await
            .map(|object| RouteObject::new(self.dialect, object))
    }

    /// Removes exactly the object that was read, and no later one.
    pub(super) async fn delete(&self, object: &RouteObject) -> Result<(), RequestError> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(object.uid().to_owned()),
                resource_version: Some(object.resource_version().to_owned()),
            }),
            ..DeleteParams::default()
        };
        within(self.api(object.namespace()).delete(object.name(), &parameters))
            .await
            .map(drop)
    }

    /// What of them changes, one stream for each place where they may be changed. Their metadata is enough to know that
    /// one was changed, and costs a fraction of the whole.
    pub(super) fn changes(&self) -> Vec<Changes> {
        let config = || watcher::Config::default().page_size(PAGE);
        let watch = |api| Box::pin(watcher(api, config()).default_backoff()) as Changes;
        self.apis().into_iter().map(watch).collect()
    }

    /// Where they are read, whole or in part.
    fn apis<K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>>(&self) -> Vec<Api<K>> {
        if self.namespaces.is_empty() {
            return vec![Api::all_with(self.client.clone(), &self.resource)];
        }
        let one = |namespace: &String| Api::namespaced_with(self.client.clone(), namespace, &self.resource);
        self.namespaces.iter().map(one).collect()
    }

    pub(super) fn api_version(&self) -> &str {
        &self.resource.api_version
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.resource)
    }
}
