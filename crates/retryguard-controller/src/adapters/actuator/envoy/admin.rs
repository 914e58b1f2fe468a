//! The actuator `envoy-admin`: the admin layer of single Envoys, over their admin endpoints.
//!
//! The admin layer lives in the Envoy's memory. It outlives a controller that is killed, which finds its own values
//! again by their mark; it does not outlive the Envoy, which is found without them at the next look and is told
//! again.

mod endpoint;
mod layer;

use endpoint::Endpoint;
use layer::Layer;

use crate::adapters::actuator::envoy::Clusters;
use crate::adapters::actuator::instances::{LastDesired, each, read, with_strays};
use crate::adapters::start_error::StartError;
use crate::config::actuator::envoy as settings;
use crate::domain::state::{Change, Found, Loss};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, ActuatorError, Answer};

const NAME: &str = "envoy-admin";

/// Envoys that are changed through their admin endpoints.
#[derive(Debug)]
pub struct Admin {
    endpoints: Vec<Endpoint>,
    clusters: Clusters,
    wanted: LastDesired,
}

impl Admin {
    /// Makes the clients; no request is sent yet.
    ///
    /// # Errors
    /// When a cluster has two targets, or an address is none.
    pub fn start(
        settings: &settings::Admin,
        targets: Vec<(TargetName, settings::EnvoyTarget)>,
    ) -> Result<Self, StartError> {
        Ok(Self {
            endpoints: endpoint::all(&settings.addresses, &settings.layer)
                .map_err(|reason| StartError::Settings { what: NAME, reason })?,
            clusters: Clusters::new(NAME, targets)?,
            wanted: LastDesired::default(),
        })
    }

    async fn held(&self) -> Result<Vec<Found>, ActuatorError> {
        let layers = read(
            NAME,
            &self.endpoints,
            |endpoint| async move { endpoint.read().await },
        )
        .await?;
        Ok(self.wanted.found(self.names(&layers), |target| {
            let (clusters, _) = self.clusters.of(target);
            let marks = |layer: &Layer| {
                clusters
                    .iter()
                    .map(|cluster| layer.mark(cluster))
                    .collect::<Vec<_>>()
            };
            layers.iter().flat_map(marks).collect()
        }))
    }

    fn names(&self, layers: &[Layer]) -> Vec<TargetName> {
        let strays = layers.iter().flat_map(Layer::marked).filter(|cluster| {
            let known = |target: &settings::EnvoyTarget| target.clusters.iter().any(|name| name == cluster);
            !self.clusters.targets.values().any(known)
        });
        with_strays(self.clusters.targets.keys(), strays)
    }

    async fn change(&self, change: &Change) -> Result<Vec<Loss>, ActuatorError> {
        let (clusters, budget) = self.clusters.of(&change.target);
        let desired = change.desired;
        let answers = each(&self.endpoints, |endpoint| {
            let clusters = clusters.clone();
            async move {
                for cluster in &clusters {
                    endpoint.tell(cluster, budget, desired).await?;
                }
                Ok(())
            }
        })
        .await;
        self.wanted.told(change, self.clusters.losses(change), answers)
    }
}

impl Actuator for Admin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        Box::pin(self.held())
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        Box::pin(self.change(change))
    }

    fn describe(&self, change: &Change) -> String {
        self.clusters.describe(change)
    }
}
