//! The VirtualService that we make for a target that has none, and what becomes of it.

use serde_json::{Value, json};

use crate::adapters::actuator::routes::dialect::Dialect;
use crate::adapters::actuator::routes::host::Host;
use crate::adapters::actuator::routes::object::RouteObject;
use crate::adapters::actuator::routes::plan::View;
use crate::adapters::actuator::routes::record::{ANNOTATION, Kept, Record};
use crate::adapters::actuator::routes::route::routes;
use crate::adapters::actuator::routes::{Routes, block};
use crate::adapters::actuator::stored_state::StoredState;
use crate::adapters::kubernetes::RequestError;
use crate::adapters::kubernetes::event::Kind;
use crate::domain::state::{Change, Loss, RetryState};
use crate::reconcile::actuator::ActuatorError;

/// The label that says whose it is.
pub(super) const LABEL: &str = "app.kubernetes.io/managed-by";
pub(super) const OWNER: &str = "retryguard";

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// What we make: everything to the one host, as without a VirtualService.
fn spec(host: &Host) -> Value {
    json!({
        "hosts": [host.as_str()],
        "http": [{"name": "retryguard", "route": [{"destination": {"host": host.as_str()}}]}],
    })
}

/// Whether an object of ours is still what we made, its retries apart. One that the user has changed is the
/// user's from then on, and is not removed.
pub(super) fn is_as_made(view: &View<'_>) -> bool {
    let mut now = view.spec.clone();
    if let Some(route) = now.pointer_mut("/http/0").and_then(Value::as_object_mut) {
        route.remove("retries");
    }
    let Some(host) = now.pointer("/hosts/0").and_then(Value::as_str) else {
        return false;
    };
    now == spec(&Host::new(host, "", ""))
}

impl Routes {
    /// Makes a VirtualService where the calls inside of the mesh have none, and removes ours where the user has
    /// made one meanwhile: two for one host would be a riddle which of them Istio follows.
    pub(super) async fn provide(
        &self,
        objects: &[RouteObject],
        host: &Host,
        change: &Change,
        matched: usize,
    ) -> Result<Vec<Loss>, ActuatorError> {
        if change.desired == RetryState::Original {
            return Ok(Vec::new());
        }
        if self.scope.dialect == Dialect::HttpRoute {
            // One that is made would need a parent, and whose traffic that is, only the user knows.
            return Ok(if matched == 0 {
                vec![Loss(format!(
                    "no rule of an HTTPRoute sends to {host}; its retries stay as the data plane has them"
                ))]
            } else {
                Vec::new()
            });
        }
        let domain = &self.scope.domain;
        let (ours, theirs): (Vec<_>, Vec<_>) = objects
            .iter()
            .filter(|object| object.takes(host, domain))
            .partition(|object| is_ours(object));
        if !theirs.is_empty() {
            for object in ours {
                self.withdraw(object).await?;
            }
            return Ok(if matched == 0 {
                vec![Loss(format!(
                    "{} takes the calls to {host} and sends none of them there; nothing was changed",
                    theirs[0].title()
                ))]
            } else {
                Vec::new()
            });
        }
        if !ours.is_empty() {
            return Ok(vec![gateways(host)]);
        }
        let Some((service, namespace)) = host.service(domain) else {
            return Ok(vec![Loss(format!(
                "no VirtualService takes the calls to {host}, and none is made for a host outside of the cluster"
            ))]);
        };
        if !self.scope.create || !self.objects.may_change(namespace) {
            return Ok(vec![Loss(format!(
                "no VirtualService takes the calls to {host} inside of the mesh, and none may be made in {namespace}; its \
                 retries stay as the mesh has them"
            ))]);
        }
        self.make(service, namespace, host, change).await
    }

    async fn make(
        &self,
        service: &str,
        namespace: &str,
        host: &Host,
        change: &Change,
    ) -> Result<Vec<Loss>, ActuatorError> {
        let Some(whole) = whole(
            self.objects.api_version(),
            service,
            namespace,
            host,
            change,
            self.scope.default_attempts,
        ) else {
            return Ok(Vec::new());
        };
        let title = format!("VirtualService {namespace}/{}", name(service));
        match self.objects.create(namespace, whole).await {
            Ok(object) => {
                self.wrote(object.uid(), object.resource_version());
                let record = Record::read(object.annotations()).ok().flatten();
                self.remember(&object, record);
                let note = format!("made to switch the retries of {host}: {}", change.why);
                self.reporter
                    .tell(object.reference(), Kind::Normal, "VirtualServiceMade", &note)
                    .await;
                Ok(vec![gateways(host)])
            }
            Err(RequestError::Stale(reason)) => Err(ActuatorError::Refused {
                what: title,
                reason: format!("{reason}; another object has the name that ours would have"),
            }),
            Err(RequestError::Missing(reason)) => Err(ActuatorError::Refused {
                what: title,
                reason: format!("{reason}; is the namespace of {host} right?"),
            }),
            Err(trouble) => Err(trouble.into_error(&title)),
        }
    }
}

/// The whole object; `None` where there would be nothing to switch off.
fn whole(
    api_version: &str,
    service: &str,
    namespace: &str,
    host: &Host,
    change: &Change,
    default_attempts: u32,
) -> Option<Value> {
    let desired = StoredState::new(change.desired)?;
    if default_attempts == 0 {
        return None;
    }
    let mut spec = spec(host);
    let print = routes(&spec, Dialect::VirtualService).first()?.print();
    let ours = block::wanted(&None, change.desired, Dialect::VirtualService, default_attempts);
    let kept = Kept {
        name: Some("retryguard".to_owned()),
        index: 0,
        print,
        original: None,
        ours: ours.clone(),
        yielded: false,
        desired_states: [(change.target.as_str().to_owned(), desired)].into(),
    };
    spec["http"][0]["retries"] = ours?;
    let record = Record::new(true, vec![kept]).write().ok()?;
    Some(json!({
        "apiVersion": api_version,
        "kind": "VirtualService",
        "metadata": {
            "name": name(service),
            "namespace": namespace,
            "labels": {LABEL: OWNER},
            "annotations": {ANNOTATION: record},
        },
        "spec": spec,
    }))
}

fn name(service: &str) -> String {
    let mut name = format!("retryguard-{service}");
    name.truncate(name.floor_char_boundary(LONGEST_NAME));
    name
}

/// Whether we made it and it was not taken over. The annotation alone is not enough: a copy of our object
/// under another name carries it too, but people do not copy what is marked as managed.
pub(super) fn is_ours(object: &RouteObject) -> bool {
    object.label(LABEL) == Some(OWNER)
        && Record::read(object.annotations()).is_ok_and(|record| record.is_some_and(|record| record.created))
}

fn gateways(host: &Host) -> Loss {
    Loss(format!(
        "{host} has no VirtualService of its own, so one was made for calls inside of the mesh; calls through a gateway are \
         not covered by it"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::domain::target::TargetName;

    fn made() -> Value {
        let host = Host::new("reviews", "prod", "cluster.local");
        let change = Change {
            target: TargetName::new("reviews"),
            desired: RetryState::Off,
            why: String::new(),
            term: 1,
        };
        whole("networking.istio.io/v1", "reviews", "prod", &host, &change, 2).unwrap()
    }

    fn as_made(spec: &Value) -> bool {
        is_as_made(&View {
            dialect: Dialect::VirtualService,
            namespace: "prod",
            resource_version: "1",
            annotations: &BTreeMap::new(),
            spec,
            remembered: None,
        })
    }

    #[test]
    fn what_is_made_is_off_and_known_as_ours() {
        let made = made();
        assert_eq!(made["spec"]["http"][0]["retries"], json!({"attempts": 0}));
        assert!(as_made(&made["spec"]));
    }

    #[test]
    fn another_number_is_ours_still_and_anything_else_is_the_users() {
        let mut spec = made()["spec"].take();
        spec["http"][0]["retries"] = json!({"attempts": 1});
        assert!(as_made(&spec));
        spec["http"][0]["timeout"] = json!("3s");
        assert!(!as_made(&spec));
        for strange in [
            json!(null),
            json!({"http": []}),
            json!({"hosts": "x", "http": [3]}),
        ] {
            assert!(!as_made(&strange));
        }
    }
}
