//! The actuator `envoy-rtds`: a runtime discovery server for a fleet of Envoys.
//!
//! An Envoy keeps the layer that it was sent last, also when the controller dies. What that means:
//!
//! - Killed and restarted: Envoys reconnect and present what they hold (`version` says how). The server tells
//!   no Envoy anything for [`settings::Rtds::learn_for`], so that they can, and goes on from there.
//! - A cluster that is off and that no target names any more gets its retries back with the first answer, because an
//!   answer is the whole layer.
//! - Killed and never restarted: what is off stays off in the Envoys that run, until they restart. The operator's
//!   cure is the admin layer above ours; docs/guides/envoy.md has the command.

mod dialect;
mod fleet;
#[doc(hidden)]
pub mod fuzzing;
mod server;
mod shared_fleet;
mod version;

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use fleet::{Fleet, MOST_CLUSTERS, Phase, Reach};
use shared_fleet::SharedFleet;

use crate::adapters::actuator::envoy::Clusters;
use crate::adapters::start_error::StartError;
use crate::clock;
use crate::config::actuator::envoy as settings;
use crate::domain::state::{Change, Found, Loss, Observed, RetryState, stricter};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, ActuatorError, Answer};

const NAME: &str = "envoy-rtds";

/// A runtime discovery server, listening.
#[derive(Debug)]
pub struct Rtds {
    settings: settings::Rtds,
    clusters: Arc<Clusters>,
    shared: Arc<SharedFleet>,
    /// Held for its end, which ends the server.
    _server: oneshot::Sender<()>,
    /// The newest term that a change came from.
    term: Mutex<u64>,
}

impl Rtds {
    /// Listens. Streams are refused until [`Actuator::find`] is asked for the first time, because before that it
    /// is not known that this controller acts.
    ///
    /// # Errors
    /// When the port, the certificate or the token cannot be had, or a cluster has two targets.
    pub async fn start(
        settings: &settings::Rtds,
        targets: Vec<(TargetName, settings::Target)>,
    ) -> Result<Self, StartError> {
        let clusters = Arc::new(Clusters::new(NAME, targets)?);
        let budgets = clusters
            .targets
            .values()
            .flat_map(|target| {
                target
                    .clusters
                    .iter()
                    .map(|cluster| (cluster.clone(), target.budget))
            })
            .collect();
        let shared = Arc::new(SharedFleet::new(settings.layer.clone(), Fleet::new(budgets)));
        let _server = server::start(&settings.listen, &shared).await?;
        Ok(Self {
            settings: settings.clone(),
            clusters,
            shared,
            _server,
            term: Mutex::new(0),
        })
    }

    /// Begins to learn if that has not begun, and waits until it has ended. A caller may stop waiting; learning
    /// goes on.
    async fn ready(&self) {
        let mut responses = self.shared.responses();
        if self.shared.fleet().phase() == Phase::Idle {
            self.shared.change(Fleet::learn);
            let (shared, clusters) = (Arc::clone(&self.shared), Arc::clone(&self.clusters));
            let learn_for = self.settings.learn_for;
            tokio::spawn(async move {
                clock::sleep(learn_for).await;
                let targets = clusters.targets.values().map(|target| target.clusters.as_slice());
                shared.change(|fleet| fleet.serve(targets));
            });
        }
        while self.shared.fleet().phase() == Phase::Learning {
            if responses.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits for the word of every Envoy that is expected to answer, for a bounded time. With none connected it waits
    /// for one: a fleet that is on its way back must not miss the last word of a controller that stops.
    async fn confirmed(&self) -> Reach {
        let mut responses = self.shared.responses();
        let done = |reach: Reach| reach.streams > 0 && reach.complete();
        let all = async {
            while !done(self.shared.fleet().reach()) {
                if responses.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = all => {}
            () = clock::sleep(self.settings.confirm_within) => self.shared.fleet().mark_late(),
        }
        self.shared.fleet().reach()
    }

    async fn change(&self, change: &Change) -> Result<Vec<Loss>, ActuatorError> {
        self.newest(change)?;
        self.ready().await;
        let (clusters, _) = self.clusters.of(&change.target);
        self.shared
            .change(|fleet| fleet.set(&clusters, change.desired))
            .map_err(|_| ActuatorError::Refused {
                what: change.target.to_string(),
                reason: format!("{MOST_CLUSTERS} clusters are switched already"),
            })?;
        let reach = self.confirmed().await;
        let mut losses = self.clusters.losses(change);
        losses.extend(doubts(reach));
        Ok(losses)
    }

    fn newest(&self, change: &Change) -> Result<(), ActuatorError> {
        let mut term = self.term.lock().unwrap_or_else(PoisonError::into_inner);
        if change.term < *term {
            return Err(ActuatorError::Conflict {
                what: change.target.to_string(),
                reason: format!("a change of term {} came after one of term {term}", change.term),
            });
        }
        *term = change.term;
        Ok(())
    }

    fn held(&self) -> Vec<Found> {
        let fleet = self.shared.fleet();
        let wish_of = |clusters: &[String]| {
            clusters
                .iter()
                .filter_map(|cluster| fleet.desired_states().get(cluster))
                .copied()
                .fold(RetryState::Original, stricter)
        };
        self.clusters
            .targets
            .iter()
            .map(|(name, target)| (name, wish_of(&target.clusters)))
            .filter(|(_, desired)| *desired != RetryState::Original)
            .map(|(name, desired)| Found {
                target: name.clone(),
                held: Observed::Managed(desired),
            })
            .collect()
    }
}

impl Actuator for Rtds {
    fn name(&self) -> &'static str {
        NAME
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        Box::pin(async {
            self.ready().await;
            Ok(self.held())
        })
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        Box::pin(self.change(change))
    }

    fn describe(&self, change: &Change) -> String {
        self.clusters.describe(change)
    }

    fn details(&self) -> Value {
        details(&self.shared.fleet())
    }

    fn stand_down(&self) {
        self.shared.change(Fleet::stop);
    }
}

impl Drop for Rtds {
    fn drop(&mut self) {
        self.shared.change(Fleet::stop);
    }
}

/// What is not known to have arrived.
fn doubts(reach: Reach) -> Vec<Loss> {
    let mut doubts = Vec::new();
    if reach.streams == 0 {
        doubts.push(Loss(
            "no Envoy is connected: each one gets it when it connects".to_owned(),
        ));
    }
    if reach.refused > 0 {
        let (refused, streams) = (reach.refused, reach.streams);
        doubts.push(Loss(format!(
            "{refused} of {streams} Envoys refused it; the status says which, and what they said"
        )));
    }
    if reach.late > 0 {
        let (late, streams) = (reach.late, reach.streams);
        doubts.push(Loss(format!(
            "{late} of {streams} Envoys have not confirmed it in time"
        )));
    }
    doubts
}

/// The Envoys, for the status.
fn details(fleet: &Fleet) -> Value {
    let describe = |node: &fleet::Node, connected: bool| {
        json!({
            "id": node.identity.id,
            "service": node.identity.service,
            "address": node.address,
            "connected": connected,
            "upToDate": node.holds(fleet.layer()),
            "version": node.accepted.as_ref().map(|layer| &layer.version),
            "refused": node.refused.as_ref().map(|(version, message)| json!({
                "version": version,
                "message": message,
            })),
            "asksFor": node.foreign,
        })
    };
    let (here, gone) = fleet.nodes();
    let nodes: Vec<Value> = here
        .map(|node| describe(node, true))
        .chain(gone.map(|node| describe(node, false)))
        .collect();
    let reach = fleet.reach();
    json!({
        "phase": match fleet.phase() {
            Phase::Idle => "idle",
            Phase::Learning => "learning",
            Phase::Serving => "serving",
        },
        "version": fleet.layer().version,
        "streams": reach.streams,
        "accepted": reach.accepted,
        "refused": reach.refused,
        "late": reach.late,
        "nodes": nodes,
    })
}
