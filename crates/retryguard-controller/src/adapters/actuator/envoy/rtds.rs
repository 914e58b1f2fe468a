//! The actuator `envoy-rtds`: a runtime discovery server for a fleet of Envoys.
//!
//! `discovery` says what remains when a controller ends unexpectedly. The operator's remedy for Envoys whose controller never comes
//! back is the admin layer above ours; docs/guides/envoy.md has the command.

pub(in crate::adapters::actuator) mod dialect;
#[doc(hidden)]
pub mod fuzzing;
mod services;

use serde_json::Value;

use dialect::RuntimeLayer;

use crate::adapters::actuator::discovery::{Discovery, DiscoverySettings};
use crate::adapters::actuator::envoy::Clusters;
use crate::adapters::start_error::StartError;
use crate::config::actuator::envoy as settings;
use crate::domain::state::{Change, Found, Loss};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, Answer};

const NAME: &str = "envoy-rtds";

/// A runtime discovery server, listening.
#[derive(Debug)]
pub struct Rtds {
    clusters: Clusters,
    discovery: Discovery<RuntimeLayer>,
}

impl Rtds {
    /// Listens. Streams are refused until [`Actuator::find`] is asked for the first time, because before that it
    /// is not known that this controller acts.
    ///
    /// # Errors
    /// When the port, the certificate or the token cannot be had, or a cluster has two targets.
    pub async fn start(
        settings: &settings::Rtds,
        targets: Vec<(TargetName, settings::EnvoyTarget)>,
    ) -> Result<Self, StartError> {
        let clusters = Clusters::new(NAME, targets)?;
        let mut served = RuntimeLayer::new(&settings.layer);
        for target in clusters.targets.values() {
            let budgets = target
                .clusters
                .iter()
                .map(|cluster| (cluster.clone(), target.budget));
            served.budgets.extend(budgets);
        }
        let names = clusters
            .targets
            .iter()
            .map(|(name, target)| (name.clone(), target.clusters.clone()));
        let discovery = Discovery::start(
            DiscoverySettings {
                what: NAME,
                nodes: ("Envoy", "Envoys"),
                listen: &settings.listen,
                learn_for: settings.learn_for,
                confirm_within: settings.confirm_within,
                targets: names.collect(),
                served,
            },
            services::add,
        )
        .await?;
        Ok(Self { clusters, discovery })
    }
}

impl Actuator for Rtds {
    fn name(&self) -> &'static str {
        NAME
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        Box::pin(async { Ok(self.discovery.found().await) })
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        Box::pin(async {
            let (clusters, _) = self.clusters.of(&change.target);
            let doubts = self.discovery.change(change, &clusters).await?;
            let mut losses = self.clusters.losses(change);
            losses.extend(doubts);
            Ok(losses)
        })
    }

    fn describe(&self, change: &Change) -> String {
        self.clusters.describe(change)
    }

    fn details(&self) -> Value {
        self.discovery.details()
    }

    fn stand_down(&self) {
        self.discovery.stop();
    }
}
