//! A discovery server: what Envoys that ask for their runtime and gRPC clients that ask for their routes have in common.
//!
//! A node keeps what it was sent last, also when the controller ends. What that means:
//!
//! - Killed and restarted: nodes reconnect and present what they hold (`version` says how). The server tells
//!   no node anything for a while, so that they can, and goes on from there.
//! - What is off and what no target names any more gets its retries back with the first answer, because an
//!   answer says everything.
//! - Killed and never restarted: what is off stays off in the nodes that run, until they restart.

pub(in crate::adapters::actuator) mod fleet;
pub(in crate::adapters::actuator) mod server;
mod shared_fleet;
pub(in crate::adapters::actuator) mod version;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use fleet::{Fleet, LayerStatus, MOST_CLUSTERS, Phase};
use server::{Check, Service};
use shared_fleet::SharedFleet;
use tonic::transport::Server;
use tonic::transport::server::Router;

use crate::adapters::start_error::StartError;
use crate::clock;
use crate::config::listen::Listen;
use crate::domain::state::{Change, Found, Loss, Observed, RetryState, stricter};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::ActuatorError;

/// What a discovery server is made of.
pub(in crate::adapters::actuator) struct DiscoverySettings<'a, S> {
    /// The word of the actuator.
    pub(in crate::adapters::actuator) what: &'static str,
    /// How its nodes are called, one of them and several.
    pub(in crate::adapters::actuator) nodes: (&'static str, &'static str),
    /// Its port.
    pub(in crate::adapters::actuator) listen: &'a Listen,
    /// How long nodes may say what they hold, after a start, before anything is sent to them.
    pub(in crate::adapters::actuator) learn_for: Duration,
    /// How long a change waits for the nodes' word that they have it.
    pub(in crate::adapters::actuator) confirm_within: Duration,
    /// The names of each target in the data plane.
    pub(in crate::adapters::actuator) targets: BTreeMap<TargetName, Vec<String>>,
    /// What is served besides the decisions.
    pub(in crate::adapters::actuator) served: S,
}

/// A discovery server, listening.
#[derive(Debug)]
pub(in crate::adapters::actuator) struct Discovery<S> {
    nodes: (&'static str, &'static str),
    learn_for: Duration,
    confirm_within: Duration,
    targets: Arc<BTreeMap<TargetName, Vec<String>>>,
    shared: Arc<SharedFleet<S>>,
    /// Held for its end, which ends the server.
    _server: oneshot::Sender<()>,
    /// The newest term that a change came from.
    term: Mutex<u64>,
}

impl<S: Send + Sync + 'static> Discovery<S> {
    /// Listens. Streams are refused until it is asked for what nodes hold for the first time, because before that it
    /// is not known that this controller acts. `services` adds the gRPC services.
    pub(in crate::adapters::actuator) async fn start(
        settings: DiscoverySettings<'_, S>,
        services: impl FnOnce(Server, Service<S>, Check) -> Router,
    ) -> Result<Self, StartError> {
        let shared = Arc::new(SharedFleet::new(settings.served));
        let _server = server::start(settings.what, settings.listen, &shared, services).await?;
        Ok(Self {
            nodes: settings.nodes,
            learn_for: settings.learn_for,
            confirm_within: settings.confirm_within,
            targets: Arc::new(settings.targets),
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
            let (shared, targets) = (Arc::clone(&self.shared), Arc::clone(&self.targets));
            let learn_for = self.learn_for;
            tokio::spawn(async move {
                clock::sleep(learn_for).await;
                let targets = targets.values().map(Vec::as_slice);
                shared.change(|fleet| fleet.serve(targets));
            });
        }
        while self.shared.fleet().phase() == Phase::Learning {
            if responses.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits for the word of every node that is expected to answer, for a bounded time. With none connected it waits
    /// for one: a fleet that is on its way back must not miss the last word of a controller that stops.
    async fn confirmed(&self) -> LayerStatus {
        let mut responses = self.shared.responses();
        let done = |reach: LayerStatus| reach.streams > 0 && reach.complete();
        let all = async {
            while !done(self.shared.fleet().reach()) {
                if responses.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = all => {}
            () = clock::sleep(self.confirm_within) => self.shared.fleet().mark_late(),
        }
        self.shared.fleet().reach()
    }

    /// Carries a change out for the names of its target. The answer is what is not known to have arrived.
    pub(in crate::adapters::actuator) async fn change(
        &self,
        change: &Change,
        names: &[String],
    ) -> Result<Vec<Loss>, ActuatorError> {
        self.newest(change)?;
        self.ready().await;
        self.shared
            .change(|fleet| fleet.set(names, change.desired))
            .map_err(|_| ActuatorError::Refused {
                what: change.target.to_string(),
                reason: format!("{MOST_CLUSTERS} clusters are switched already"),
            })?;
        let reach = self.confirmed().await;
        Ok(doubts(reach, self.nodes))
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

    /// What nodes hold.
    pub(in crate::adapters::actuator) async fn found(&self) -> Vec<Found> {
        self.ready().await;
        let fleet = self.shared.fleet();
        let wish_of = |names: &[String]| {
            names
                .iter()
                .filter_map(|name| fleet.desired_states().get(name))
                .copied()
                .fold(RetryState::Original, stricter)
        };
        self.targets
            .iter()
            .map(|(target, names)| (target, wish_of(names)))
            .filter(|(_, desired)| *desired != RetryState::Original)
            .map(|(target, desired)| Found {
                target: target.clone(),
                held: Observed::Managed(desired),
            })
            .collect()
    }

    /// The nodes, for the status.
    pub(in crate::adapters::actuator) fn details(&self) -> Value {
        details(&self.shared.fleet())
    }

    /// Says nothing more.
    pub(in crate::adapters::actuator) fn stop(&self) {
        self.shared.change(Fleet::stop);
    }
}

impl<S> Drop for Discovery<S> {
    fn drop(&mut self) {
        self.shared.change(Fleet::stop);
    }
}

/// What is not known to have arrived.
fn doubts(reach: LayerStatus, (one, several): (&str, &str)) -> Vec<Loss> {
    let mut doubts = Vec::new();
    if reach.streams == 0 {
        doubts.push(Loss(format!(
            "no {one} is connected: each one gets it when it connects"
        )));
    }
    if reach.refused > 0 {
        let (refused, streams) = (reach.refused, reach.streams);
        doubts.push(Loss(format!(
            "{refused} of {streams} {several} refused it; the status says which, and what they said"
        )));
    }
    if reach.late > 0 {
        let (late, streams) = (reach.late, reach.streams);
        doubts.push(Loss(format!(
            "{late} of {streams} {several} have not confirmed it in time"
        )));
    }
    doubts
}

/// The nodes, for the status.
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
