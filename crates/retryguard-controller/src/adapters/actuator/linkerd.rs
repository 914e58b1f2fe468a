//! Linkerd as a data plane: the annotations `retry.linkerd.io/…` of Services and of the routes whose parent is a Service.
//!
//! Off removes the annotations that say what to retry, because a limit of zero reads as unset. On the way back the limit rises in
//! whole retries, and at the end the user's own annotations come back from the one in which they were kept. Annotations
//! of a route override those of its Service, so both are changed. A ServiceProfile overrides all of them, and is a loss.

mod plan;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use retryguard_core::ratio::Ratio;
use serde_json::{Value, json};

use crate::adapters::actuator::linkerd::plan::{Annotations, Record, plan};
use crate::adapters::kubernetes::event::{Kind, Reporter};
use crate::adapters::kubernetes::{RequestError, with_retries, within};
use crate::config::actuator::linkerd::{LinkerdSettings, LinkerdTarget};
use crate::domain::state::{Change, Found, Loss, Observed, RetryState, stricter};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, ActuatorError, Answer};

/// The field manager under which our writes appear in an object.
const MANAGER: &str = "retryguard";

/// How many objects one answer of a list holds.
const PAGE: u32 = 500;

/// The most objects of one kind that are looked at. A cluster with more is split by namespaces.
const MOST_OBJECTS: usize = 20_000;

/// The kinds of objects that can have the annotations: group, version, kind, plural. Kinds of routes that a cluster does not
/// have are skipped.
const KINDS: [(&str, &str, &str, &str); 4] = [
    ("", "v1", "Service", "services"),
    ("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"),
    ("gateway.networking.k8s.io", "v1", "GRPCRoute", "grpcroutes"),
    ("policy.linkerd.io", "v1beta3", "HTTPRoute", "httproutes"),
];

/// What a target counts as of which some objects do not carry the desired state out. It differs from every desired state of a
/// guard, so the loop says again what it wants.
const LOOSE: RetryState = RetryState::Part {
    step: 0,
    share: Ratio::ONE,
};

/// A Service of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ServiceName {
    name: String,
    namespace: String,
}

/// The actuator `linkerd`.
pub struct Linkerd {
    client: Client,
    namespaces: Vec<String>,
    services: BTreeMap<TargetName, ServiceName>,
    reporter: Reporter,
}

/// One object, with what is needed to find it again.
struct Object {
    resource: ApiResource,
    object: DynamicObject,
}

impl Linkerd {
    /// One that asks through `client`. `instance` is this controller's name among its kind, for events.
    #[must_use]
    pub fn new(
        client: Client,
        settings: LinkerdSettings,
        targets: &[(TargetName, LinkerdTarget)],
        instance: &str,
    ) -> Self {
        let services = targets.iter().map(|(name, target)| {
            let (service, namespace) = match target.service.split_once('.') {
                Some((service, namespace)) => (service, namespace),
                None => (target.service.as_str(), settings.namespace.as_str()),
            };
            let service = ServiceName {
                name: service.to_owned(),
                namespace: namespace.to_owned(),
            };
            (name.clone(), service)
        });
        Self {
            services: services.collect(),
            namespaces: settings.namespaces,
            reporter: Reporter::new(client.clone(), instance.to_owned()),
            client,
        }
    }

    async fn list(&self) -> Result<Vec<Object>, ActuatorError> {
        let mut all = Vec::new();
        for (group, version, kind, plural) in KINDS {
            let resource =
                ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            match with_retries(|| self.objects_of(&resource)).await {
                Ok(objects) => all.extend(objects.into_iter().map(|object| Object {
                    resource: resource.clone(),
                    object,
                })),
                // This cluster does not have this kind of route.
                Err(RequestError::Missing(_)) if !group.is_empty() => {}
                Err(trouble) => return Err(trouble.into_error(&format!("the list of {plural}"))),
            }
        }
        Ok(all)
    }

    async fn objects_of(&self, resource: &ApiResource) -> Result<Vec<DynamicObject>, RequestError> {
        let apis: Vec<Api<DynamicObject>> = if self.namespaces.is_empty() {
            vec![Api::all_with(self.client.clone(), resource)]
        } else {
            let one = |namespace: &String| Api::namespaced_with(self.client.clone(), namespace, resource);
            self.namespaces.iter().map(one).collect()
        };
        let mut all = Vec::new();
        for api in apis {
            let mut page = ListParams::default().limit(PAGE);
            loop {
                let list = within(api.list(&page)).await?;
                all.extend(list.items);
                if all.len() > MOST_OBJECTS {
                    return Err(RequestError::Refused(format!(
                        "more than {MOST_OBJECTS} of them: name the `namespaces` that matter"
                    )));
                }
                match list.metadata.continue_ {
                    Some(token) if !token.is_empty() => page = page.continue_token(&token),
                    _ => break,
                }
            }
        }
        Ok(all)
    }

    async fn change(&self, change: &Change) -> Result<Vec<Loss>, ActuatorError> {
        let service = self.services.get(&change.target);
        let mut losses = Vec::new();
        let mut trouble = None;
        let mut matched = 0;
        for listed in self.list().await? {
            let concerns = service.is_some_and(|service| listed.is_about(service));
            let holds = listed.holds(&change.target);
            if !concerns && !holds {
                continue;
            }
            // What we hold of an object that no longer leads to the target can only be given back.
            let desired = if concerns {
                change.desired
            } else {
                RetryState::Original
            };
            match self.settle(&listed, change, desired).await {
                Ok((attempts, more)) => {
                    matched += usize::from(attempts > 0);
                    losses.extend(more);
                }
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        if let Some(error) = trouble {
            return Err(error);
        }
        if change.desired != RetryState::Original
            && let Some(ServiceName { name, namespace }) = service
        {
            if matched == 0 {
                losses.push(Loss(format!(
                    "neither the Service {namespace}/{name} nor a route to it has `{}` or `{}`: Linkerd does not retry \
                     there, and there is nothing to switch",
                    plan::HTTP,
                    plan::GRPC
                )));
            }
            if self.has_profile(name, namespace).await {
                losses.push(Loss(format!(
                    "{namespace}/{name} has a ServiceProfile; Linkerd follows its retries and not the annotations"
                )));
            }
        }
        Ok(losses)
    }

    /// Reads the object again after each conflict; one that is gone is as wanted.
    async fn settle(
        &self,
        listed: &Object,
        change: &Change,
        desired: RetryState,
    ) -> Result<(u32, Vec<Loss>), ActuatorError> {
        let (namespace, name) = (listed.namespace(), listed.name());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &listed.resource);
        let api = &api;
        let mut fresh = false;
        let answer = with_retries(|| {
            let again = std::mem::replace(&mut fresh, true);
            async move {
                let object = if again {
                    within(api.get(name)).await?
                } else {
                    listed.object.clone()
                };
                let annotations = annotations(&object);
                let plan =
                    plan(&annotations, change.target.as_str(), desired).map_err(RequestError::Refused)?;
                if !plan.changes.is_empty() {
                    let patch = json!({"metadata": {
                        // A stale version is a clean conflict.
                        "resourceVersion": object.metadata.resource_version,
                        "annotations": plan.changes,
                    }});
                    let parameters = PatchParams {
                        field_manager: Some(MANAGER.to_owned()),
                        ..PatchParams::default()
                    };
                    within(api.patch(name, &parameters, &Patch::Merge(patch))).await?;
                }
                Ok(plan)
            }
        })
        .await;
        let plan = match answer {
            Ok(plan) => plan,
            Err(RequestError::Missing(_)) => return Ok((0, Vec::new())),
            Err(trouble) => return Err(trouble.into_error(&listed.title())),
        };
        if !plan.changes.is_empty() {
            let reason = match change.desired {
                RetryState::Original => "RetriesRestored",
                RetryState::Off => "RetriesOff",
                RetryState::Part { .. } => "RetriesRamping",
            };
            let about = listed.reference();
            self.reporter.tell(about, Kind::Normal, reason, &change.why).await;
        }
        let mut losses = Vec::new();
        if plan.yielded {
            losses.push(Loss(format!(
                "{}: its retries were changed outside this controller; they are left alone until the target is back to normal",
                listed.title()
            )));
        } else if let RetryState::Part { share, .. } = desired
            && plan.attempts > 0
        {
            losses.push(Loss(format!(
                "{}: Linkerd counts whole retries, so {} of {} stands for {:.1} %",
                listed.title(),
                crate::adapters::actuator::routes::block::part(plan.attempts, share),
                plan.attempts,
                share.as_f64() * 100.0
            )));
        }
        Ok((plan.attempts, losses))
    }

    /// Whether a target of which we hold something has more that we should hold, such as a route that is new.
    fn is_loose(&self, target: &TargetName, objects: &[Object]) -> bool {
        self.services.get(target).is_some_and(|service| {
            objects.iter().any(|object| {
                object.is_about(service)
                    && !object.holds(target)
                    && plan::attempts(&annotations(&object.object)) > 0
            })
        })
    }

    /// Whether there is a ServiceProfile. An account without the right to look reports no loss.
    async fn has_profile(&self, name: &str, namespace: &str) -> bool {
        let kind = GroupVersionKind::gvk("linkerd.io", "v1alpha2", "ServiceProfile");
        let resource = ApiResource::from_gvk_with_plural(&kind, "serviceprofiles");
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let name = format!("{name}.{namespace}.svc.cluster.local");
        within(api.get(&name)).await.is_ok()
    }
}

impl Object {
    fn namespace(&self) -> &str {
        self.object.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// How logs and errors call it.
    fn title(&self) -> String {
        format!("{} {}/{}", self.resource.kind, self.namespace(), self.name())
    }

    /// Whether it is the Service, or a route whose parent it is.
    fn is_about(&self, service: &ServiceName) -> bool {
        if self.resource.group.is_empty() {
            return self.name() == service.name && self.namespace() == service.namespace;
        }
        let parents = self.object.data.pointer("/spec/parentRefs");
        let parents = parents.and_then(Value::as_array).into_iter().flatten();
        parents.into_iter().any(|parent| {
            let text = |key: &str| parent.get(key).and_then(Value::as_str);
            text("kind") == Some("Service")
                && matches!(text("group"), Some("" | "core"))
                && text("name") == Some(&service.name)
                && text("namespace").unwrap_or(self.namespace()) == service.namespace
        })
    }

    fn holds(&self, target: &TargetName) -> bool {
        let record = Record::read(&annotations(&self.object)).ok().flatten();
        record.is_some_and(|record| record.wishes.contains_key(target.as_str()))
    }

    /// For events about it.
    fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.resource.api_version.clone()),
            kind: Some(self.resource.kind.clone()),
            namespace: self.object.metadata.namespace.clone(),
            name: self.object.metadata.name.clone(),
            uid: self.object.metadata.uid.clone(),
            resource_version: self.object.metadata.resource_version.clone(),
            field_path: None,
        }
    }
}

fn annotations(object: &DynamicObject) -> Annotations {
    object.metadata.annotations.clone().unwrap_or_default()
}

impl Actuator for Linkerd {
    fn name(&self) -> &'static str {
        "linkerd"
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        Box::pin(async move {
            let mut all: BTreeMap<TargetName, Observed> = BTreeMap::new();
            let objects = self.list().await?;
            for listed in &objects {
                let record = match Record::read(&annotations(&listed.object)) {
                    Ok(Some(record)) => record,
                    Ok(None) => continue,
                    Err(reason) => {
                        tracing::warn!(object = listed.title(), reason, "left alone");
                        continue;
                    }
                };
                for (target, wish) in &record.wishes {
                    let now = if record.yielded {
                        Observed::Overridden(format!(
                            "the retries of {} were changed outside this controller while they were held",
                            listed.title()
                        ))
                    } else {
                        Observed::Managed(wish.desired())
                    };
                    let known = all.remove(&TargetName::new(target));
                    all.insert(
                        TargetName::new(target),
                        known.map_or(now.clone(), |known| both(known, now)),
                    );
                }
            }
            let found = all.into_iter().map(|(target, held)| {
                let loose = matches!(held, Observed::Managed(_)) && self.is_loose(&target, &objects);
                let held = if loose { Observed::Managed(LOOSE) } else { held };
                Found { target, held }
            });
            Ok(found.collect())
        })
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        Box::pin(self.change(change))
    }

    fn describe(&self, change: &Change) -> String {
        let Some(ServiceName { name, namespace }) = self.services.get(&change.target) else {
            return format!(
                "give back the retries of every object that was changed for {}",
                change.target
            );
        };
        let what = match change.desired {
            RetryState::Original => "give back the user's own annotations".to_owned(),
            RetryState::Off => format!("remove `{}` and `{}`", plan::HTTP, plan::GRPC),
            RetryState::Part { share, .. } => {
                format!(
                    "set `{}` to {:.1} % of the user's",
                    plan::LIMIT,
                    share.as_f64() * 100.0
                )
            }
        };
        format!("{what} on the Service {namespace}/{name} and on the routes to it")
    }
}

/// What a target counts as that two objects say something of. What we hold counts over what the user has taken back, and
/// the looser of two states over the stricter, so that the loop says again what it wants.
fn both(one: Observed, other: Observed) -> Observed {
    match (one, other) {
        (Observed::Managed(one), Observed::Managed(other)) => {
            Observed::Managed(if stricter(one, other) == one { other } else { one })
        }
        (Observed::Managed(held), _) | (_, Observed::Managed(held)) => Observed::Managed(held),
        (one, _) => one,
    }
}
