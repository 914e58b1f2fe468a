//! Envoy as a data plane: its runtime, told to a fleet by discovery or to one sidecar by its admin endpoint.
//!
//! Both set the same keys (`keys`), and report the same losses.

mod admin;
mod keys;
#[doc(hidden)]
pub mod rtds;

use std::collections::BTreeMap;

use retryguard_core::ratio::Ratio;

use crate::adapters::start_error::StartError;
use crate::config::actuator::envoy::EnvoyTarget;
use crate::domain::state::{Change, Loss, RetryState};
use crate::domain::target::TargetName;

pub use admin::Admin;
pub use rtds::Rtds;

/// Which clusters the targets are.
#[derive(Debug)]
struct Clusters {
    targets: BTreeMap<TargetName, EnvoyTarget>,
}

impl Clusters {
    fn new(what: &'static str, targets: Vec<(TargetName, EnvoyTarget)>) -> Result<Self, StartError> {
        let mut owners: BTreeMap<&str, &TargetName> = BTreeMap::new();
        for (name, target) in &targets {
            for cluster in &target.clusters {
                if let Some(other) = owners.insert(cluster, name) {
                    return Err(StartError::Settings {
                        what,
                        reason: format!(
                            "the cluster `{cluster}` belongs to both `{other}` and `{name}`; \
                             two guards cannot switch one cluster: leave it to one of them"
                        ),
                    });
                }
            }
        }
        Ok(Self {
            targets: targets.into_iter().collect(),
        })
    }

    /// The clusters of a target, and the retry budget they have of their own. One that is not in the configuration
    /// was found in the data plane, under the name of its cluster.
    fn of(&self, target: &TargetName) -> (Vec<String>, Ratio) {
        match self.targets.get(target) {
            Some(target) => (target.clusters.clone(), target.budget),
            None => (vec![target.as_str().to_owned()], Ratio::ONE),
        }
    }

    fn losses(&self, change: &Change) -> Vec<Loss> {
        let (clusters, budget) = self.of(&change.target);
        clusters
            .iter()
            .flat_map(|cluster| keys::losses(cluster, budget, change.desired))
            .collect()
    }

    fn describe(&self, change: &Change) -> String {
        let (clusters, budget) = self.of(&change.target);
        let names = clusters.join(", ");
        if change.desired == RetryState::Original {
            return format!("remove our runtime keys of {names}");
        }
        let keys: Vec<String> = clusters
            .iter()
            .flat_map(|cluster| keys::entries(cluster, budget, change.desired))
            .map(|(key, value)| format!("{key}={}", keys::number(value)))
            .collect();
        format!("set the runtime of {names}: {}", keys.join(" "))
    }
}
