//! The actuator `envoy-admin`: the admin layer of single Envoys, over their admin endpoints.
//!
//! The admin layer lives in the Envoy's memory. It outlives a controller that is killed, which finds its own values
//! again by their mark; it does not outlive the Envoy, which is found without them at the next look and is told
//! again.

mod endpoint;
mod layer;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use endpoint::Endpoint;
use layer::Layer;

use crate::adapters::actuator::envoy::Clusters;
use crate::adapters::actuator::instances::{Mark, agreed, each};
use crate::adapters::start_error::StartError;
use crate::config::actuator::envoy as settings;
use crate::domain::state::{Change, Found, Loss, Observed, RetryState};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, ActuatorError, Answer};

const NAME: &str = "envoy-admin";

/// Envoys that are told through their admin endpoints.
#[derive(Debug)]
pub struct Admin {
    endpoints: Vec<Endpoint>,
    clusters: Clusters,
    /// What was last wanted of each target: an Envoy that holds something else is the one to report.
    wanted: Mutex<BTreeMap<TargetName, RetryState>>,
}

impl Admin {
    /// Makes the clients; no request is sent yet.
    ///
    /// # Errors
    /// When a cluster has two targets, or an address is none.
    pub fn start(
        settings: &settings::Admin,
        targets: Vec<(TargetName, settings::Target)>,
    ) -> Result<Self, StartError> {
        Ok(Self {
            endpoints: endpoint::all(&settings.addresses, &settings.layer)
                .map_err(|reason| StartError::Settings { what: NAME, reason })?,
            clusters: Clusters::new(NAME, targets)?,
            wanted: Mutex::default(),
        })
    }

    async fn held(&self) -> Result<Vec<Found>, ActuatorError> {
        let mut layers = Vec::new();
        let mut silent = None;
        for answer in each(&self.endpoints, |endpoint| async move { endpoint.read().await }).await {
            match answer {
                Ok(layer) => layers.push(layer),
                Err(error) => {
                    tracing::warn!(%error, "an Envoy does not say what it holds");
                    silent = Some(error);
                }
            }
        }
        if let (true, Some(error)) = (layers.is_empty(), silent) {
            return Err(error);
        }
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        for target in self.names(&layers) {
            let (clusters, _) = self.clusters.of(&target);
            let marks: Vec<Mark> = layers
                .iter()
                .flat_map(|layer| clusters.iter().map(|cluster| layer.mark(cluster)))
                .collect();
            let held = agreed(&marks, wanted.get(&target).copied());
            if let Some(held) = held {
                if let Observed::Managed(desired) = held {
                    wanted.entry(target.clone()).or_insert(desired);
                }
                found.push(Found { target, held });
            }
        }
        Ok(found)
    }

    /// The targets of the configuration, and the clusters that bear our mark and belong to none of them.
    fn names(&self, layers: &[Layer]) -> Vec<TargetName> {
        let mut names: Vec<TargetName> = self.clusters.targets.keys().cloned().collect();
        let mut strays: Vec<&str> = layers
            .iter()
            .flat_map(Layer::marked)
            .filter(|cluster| {
                let known = |target: &settings::Target| target.clusters.iter().any(|name| name == cluster);
                !self.clusters.targets.values().any(known)
            })
            .collect();
        strays.sort_unstable();
        strays.dedup();
        names.extend(strays.into_iter().map(TargetName::new));
        names
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
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.insert(change.target.clone(), desired);
        drop(wanted);
        let mut losses = self.clusters.losses(change);
        let reached = answers.iter().filter(|answer| answer.is_ok()).count();
        for answer in answers {
            match answer {
                Ok(()) => {}
                // One dead sidecar must not keep the others from being told.
                Err(error @ ActuatorError::Unreachable { .. }) if reached > 0 => {
                    losses.push(Loss(format!("{error}; it is told when it answers again")));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(losses)
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
