//! Routes in a Kubernetes cluster as a data plane: the `retries` of Istio's VirtualServices, and the `retry` of the Gateway
//! API's HTTPRoutes.
//!
//! **What is written.** JSON patches on single routes, under the version that was read. Server-side apply and
//! merge patches would replace the whole list of routes, which is one value to Kubernetes. Off is
//! `attempts: 0`; a DestinationRule cannot say it, because its `maxRetries: 0` reads as unset. On
//! the way back the number rises in whole attempts, and at the end the user's own block comes back from the
//! annotation in which it was kept, or no block where there was none: that is the data plane's default, not no retries.
//!
//! **Where there is no VirtualService** of Istio for the calls inside of the mesh, one is made, and removed again.
//!
//! **Precedence** between the user's edits and ours is described in `plan`.

pub(super) mod block;
mod created;
mod dialect;
mod find;
mod host;
mod notice;
mod object;
mod plan;
mod record;
mod route;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use kube::Client;

use crate::adapters::actuator::routes::dialect::Dialect;
use crate::adapters::actuator::routes::host::Host;
use crate::adapters::actuator::routes::object::{Objects, RouteObject};
use crate::adapters::actuator::routes::record::Record;
use crate::adapters::kubernetes::event::Reporter;
use crate::config::actuator::{gateway_api, istio};
use crate::domain::state::{Change, Found, Loss, RetryState};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, ActuatorError, Answer};

/// The actuators `istio` and `gateway-api`.
pub struct Routes {
    objects: Objects,
    scope: Scope,
    hosts: BTreeMap<TargetName, Host>,
    reporter: Reporter,
    /// What we hold of each object, by its uid: for one that loses the annotation while we run.
    memory: Mutex<BTreeMap<String, Record>>,
    /// The version that our last write of each object made, by its uid.
    written: Mutex<BTreeMap<String, String>>,
    /// Whether anything in the cluster is ours.
    holds: AtomicBool,
}

/// The Gateway API names Services, whose domain is only a way to compare them here.
const DOMAIN: &str = "cluster.local";

/// Which objects are looked at, and what is not written in them.
#[derive(Debug, Clone)]
struct Scope {
    dialect: Dialect,
    /// The namespaces whose objects may be changed; all of the cluster where there is none.
    namespaces: Vec<String>,
    domain: String,
    version: &'static str,
    /// How many retries a route without a block has.
    default_attempts: u32,
    /// Whether an object is made for a target that has none.
    create: bool,
}

impl Routes {
    /// The actuator `istio`, which asks through `client`. `instance` is this controller's name among its kind, for events.
    #[must_use]
    pub fn istio(
        client: Client,
        settings: istio::IstioSettings,
        targets: &[(TargetName, istio::IstioTarget)],
        instance: &str,
    ) -> Self {
        let hosts = targets.iter().map(|(name, target)| {
            let host = Host::new(&target.host, &settings.namespace, &settings.domain);
            (name.clone(), host)
        });
        let hosts = hosts.collect();
        let scope = Scope {
            dialect: Dialect::VirtualService,
            namespaces: settings.namespaces,
            domain: settings.domain,
            version: settings.version.as_str(),
            default_attempts: settings.default_attempts,
            create: settings.create,
        };
        Self::new(client, scope, hosts, instance)
    }

    /// As [`Routes::istio`], for the actuator `gateway-api`.
    #[must_use]
    pub fn gateway_api(
        client: Client,
        settings: gateway_api::GatewayApiSettings,
        targets: &[(TargetName, gateway_api::GatewayApiTarget)],
        instance: &str,
    ) -> Self {
        let hosts = targets.iter().map(|(name, target)| {
            let host = Host::new(&target.service, &settings.namespace, DOMAIN);
            (name.clone(), host)
        });
        let hosts = hosts.collect();
        let scope = Scope {
            dialect: Dialect::HttpRoute,
            namespaces: settings.namespaces,
            domain: DOMAIN.to_owned(),
            version: settings.version.as_str(),
            default_attempts: settings.default_attempts,
            create: false,
        };
        Self::new(client, scope, hosts, instance)
    }

    fn new(client: Client, scope: Scope, hosts: BTreeMap<TargetName, Host>, instance: &str) -> Self {
        Self {
            objects: Objects::new(client.clone(), &scope),
            reporter: Reporter::new(client, instance.to_owned()),
            scope,
            hosts,
            memory: Mutex::default(),
            written: Mutex::default(),
            holds: AtomicBool::new(false),
        }
    }

    fn remembered(&self, object: &RouteObject) -> Option<Record> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.get(object.uid()).cloned()
    }

    fn remember(&self, object: &RouteObject, record: Option<Record>) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match record {
            Some(record) => {
                self.holds.store(true, Ordering::Relaxed);
                memory.insert(object.uid().to_owned(), record)
            }
            None => memory.remove(object.uid()),
        };
    }

    /// Forgets objects that are gone.
    fn forget_all_but(&self, objects: &[RouteObject]) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let uids: BTreeSet<&str> = objects.iter().map(RouteObject::uid).collect();
        memory.retain(|uid, _| uids.contains(uid.as_str()));
        written.retain(|uid, _| uids.contains(uid.as_str()));
    }

    /// Changes every object that concerns the target. One that cannot be changed does not keep the
    /// others from it; the first error is reported at the end.
    async fn change(&self, change: &Change) -> Result<Vec<Loss>, ActuatorError> {
        let host = self.hosts.get(&change.target);
        if host.is_none() && change.desired != RetryState::Original {
            return Err(ActuatorError::Refused {
                what: change.target.to_string(),
                reason: "no host is configured for it".to_owned(),
            });
        }
        let objects = self.objects.list().await?;
        self.forget_all_but(&objects);
        let mut losses = Vec::new();
        let mut trouble = None;
        let mut matched = 0;
        for object in &objects {
            match self.settle(object, host, change).await {
                Ok(settled) => {
                    matched += settled.matched;
                    losses.extend(settled.losses);
                }
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        if let Some(host) = host {
            match self.provide(&objects, host, change, matched).await {
                Ok(more) => losses.extend(more),
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        trouble.map_or(Ok(losses), Err)
    }
}

impl Actuator for Routes {
    fn name(&self) -> &'static str {
        self.scope.dialect.actuator()
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        Box::pin(async move {
            let found = self.found(&self.objects.list().await?);
            self.holds.store(!found.is_empty(), Ordering::Relaxed);
            Ok(found)
        })
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        Box::pin(self.change(change))
    }

    fn describe(&self, change: &Change) -> String {
        let Some(host) = self.hosts.get(&change.target) else {
            return format!(
                "give back the retries of every route that was changed for {}",
                change.target
            );
        };
        let scope = if self.scope.namespaces.is_empty() {
            "of every namespace".to_owned()
        } else {
            format!("of {}", self.scope.namespaces.join(", "))
        };
        let what = match change.desired {
            RetryState::Original => "back to the user's own block".to_owned(),
            RetryState::Off => "to {attempts: 0}".to_owned(),
            RetryState::Part { share, .. } => format!(
                "to {:.1} % of the user's attempts, in whole attempts",
                share.as_f64() * 100.0
            ),
        };
        let kind = self.scope.dialect.kind();
        format!("set the retries of every route to {host} in the {kind}s {scope} {what}")
    }

    fn notice<'a>(
        &'a self,
        changed: &'a (dyn Fn() + Send + Sync),
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.watch(changed))
    }

    fn stand_down(&self) {
        // The leader meanwhile changes what this would remember wrongly; the objects are read again.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
