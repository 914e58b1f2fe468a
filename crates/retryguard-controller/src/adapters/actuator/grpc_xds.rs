//! The actuator `grpc-xds`: a discovery server for gRPC clients that open channels to `xds:///service`.
//!
//! Such a client asks for four kinds of resources. Listeners and clusters say where a service is, and never change here; a cluster
//! names a host that the client resolves itself, so that there are no endpoints to serve. Routes say how a call is retried, and are
//! what decisions change: a route without a retry policy sends nothing again.

mod dialect;
mod resources;
mod services;

use std::collections::BTreeMap;

use serde_json::Value;

use dialect::Services;

use crate::adapters::actuator::discovery::{self, Discovery};
use crate::adapters::start_error::StartError;
use crate::config::actuator::grpc_xds::{GrpcXdsSettings, GrpcXdsTarget};
use crate::domain::state::{Change, Found, Loss, RetryState};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, Answer};

const NAME: &str = "grpc-xds";

/// A discovery server for gRPC clients, listening.
#[derive(Debug)]
pub struct GrpcXds {
    targets: BTreeMap<TargetName, String>,
    discovery: Discovery<Services>,
}

impl GrpcXds {
    /// Listens. Streams are refused until [`Actuator::find`] is asked for the first time, because before that it
    /// is not known that this controller acts.
    ///
    /// # Errors
    /// When the port, the certificate or the token cannot be had, or a service has two targets.
    pub async fn start(
        settings: &GrpcXdsSettings,
        targets: Vec<(TargetName, GrpcXdsTarget)>,
    ) -> Result<Self, StartError> {
        let mut owners: BTreeMap<&str, &TargetName> = BTreeMap::new();
        for (name, target) in &targets {
            if let Some(other) = owners.insert(&target.service, name) {
                return Err(StartError::Settings {
                    what: NAME,
                    reason: format!(
                        "the service `{}` belongs to both `{other}` and `{name}`; \
                         two guards cannot switch one service: leave it to one of them",
                        target.service
                    ),
                });
            }
        }
        let names: BTreeMap<TargetName, String> = targets
            .iter()
            .map(|(name, target)| (name.clone(), target.service.clone()))
            .collect();
        let discovery = Discovery::start(
            discovery::DiscoverySettings {
                what: NAME,
                nodes: ("gRPC client", "gRPC clients"),
                listen: &settings.listen,
                learn_for: settings.learn_for,
                confirm_within: settings.confirm_within,
                targets: names
                    .iter()
                    .map(|(name, service)| (name.clone(), vec![service.clone()]))
                    .collect(),
                served: Services::new(targets.into_iter().map(|(_, target)| target)),
            },
            services::add,
        )
        .await?;
        Ok(Self {
            targets: names,
            discovery,
        })
    }

    /// The service of a target. One that is not in the configuration was found under the name of its service.
    fn service<'a>(&'a self, target: &'a TargetName) -> &'a str {
        self.targets.get(target).map_or(target.as_str(), String::as_str)
    }
}

impl Actuator for GrpcXds {
    fn name(&self) -> &'static str {
        NAME
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        Box::pin(async { Ok(self.discovery.found().await) })
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        Box::pin(async {
            let names = [self.service(&change.target).to_owned()];
            let mut losses = losses(change.desired);
            losses.extend(self.discovery.change(change, &names).await?);
            Ok(losses)
        })
    }

    fn describe(&self, change: &Change) -> String {
        let service = self.service(&change.target);
        match change.desired {
            RetryState::Original => format!("serve the route of {service} with its retry policy"),
            RetryState::Off => format!("serve the route of {service} without a retry policy"),
            RetryState::Part { share, .. } => {
                format!("serve the route of {service} with its retry policy for {share} of the calls")
            }
        }
    }

    fn details(&self) -> Value {
        self.discovery.details()
    }

    fn stand_down(&self) {
        self.discovery.stop();
    }
}

/// What gRPC does otherwise than it is told.
fn losses(desired: RetryState) -> Vec<Loss> {
    if desired == RetryState::Original {
        return Vec::new();
    }
    vec![Loss(
        "gRPC clients send a call again that no server has seen, and calls in progress keep the retries that they began with"
            .to_owned(),
    )]
}
