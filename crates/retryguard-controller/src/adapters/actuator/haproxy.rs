//! The actuator `haproxy`: a map that HAProxy looks retries up in, changed through admin sockets.
//!
//! A backend takes the share of its retries, in percent, from the map, and switches layer-7 retries off for the requests that
//! are beyond it. The map lives in HAProxy's memory: it outlives a controller that is killed, which finds its own entries again
//! by their mark. A HAProxy that is reloaded forgets it; it is found without it at the next look and is told again.

mod map;
mod socket;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use map::Map;
use socket::Socket;

use crate::adapters::actuator::instances::{Mark, agreed, each};
use crate::adapters::start_error::StartError;
use crate::config::actuator::haproxy::{Settings, Target};
use crate::domain::state::{Change, Found, Loss, Observed, RetryState};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, ActuatorError, Answer};

const NAME: &str = "haproxy";

/// HAProxys that are told through their admin sockets.
#[derive(Debug)]
pub struct Haproxy {
    sockets: Vec<Socket>,
    targets: BTreeMap<TargetName, Target>,
    /// What was last wanted of each target: a HAProxy that holds something else is the one to report.
    wanted: Mutex<BTreeMap<TargetName, RetryState>>,
}

impl Haproxy {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// When a backend has two targets.
    pub fn start(settings: &Settings, targets: Vec<(TargetName, Target)>) -> Result<Self, StartError> {
        let mut owners: BTreeMap<&str, &TargetName> = BTreeMap::new();
        for (name, target) in &targets {
            for backend in &target.backends {
                if let Some(other) = owners.insert(backend, name) {
                    return Err(StartError::Settings {
                        what: NAME,
                        reason: format!(
                            "the backend `{backend}` belongs to both `{other}` and `{name}`; two guards cannot \
                             switch one backend: leave it to one of them"
                        ),
                    });
                }
            }
        }
        Ok(Self {
            sockets: settings
                .sockets
                .iter()
                .map(|address| Socket::new(address, &settings.map))
                .collect(),
            targets: targets.into_iter().collect(),
            wanted: Mutex::default(),
        })
    }

    /// The backends of a target. One that is not in the configuration was found in a map, under the name of its backend.
    fn backends(&self, target: &TargetName) -> Vec<String> {
        self.targets.get(target).map_or_else(
            || vec![target.as_str().to_owned()],
            |target| target.backends.clone(),
        )
    }

    async fn held(&self) -> Result<Vec<Found>, ActuatorError> {
        let mut maps = Vec::new();
        let mut silent = None;
        for answer in each(&self.sockets, |socket| async move { socket.read().await }).await {
            match answer {
                Ok(map) => maps.push(map),
                Err(error) => {
                    tracing::warn!(%error, "a HAProxy does not say what it holds");
                    silent = Some(error);
                }
            }
        }
        if let (true, Some(error)) = (maps.is_empty(), silent) {
            return Err(error);
        }
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        for target in self.names(&maps) {
            let backends = self.backends(&target);
            let marks: Vec<Mark> = maps
                .iter()
                .flat_map(|map| backends.iter().map(|backend| map.mark(backend)))
                .collect();
            if let Some(held) = agreed(&marks, wanted.get(&target).copied()) {
                if let Observed::Managed(desired) = held {
                    wanted.entry(target.clone()).or_insert(desired);
                }
                found.push(Found { target, held });
            }
        }
        Ok(found)
    }

    /// The targets of the configuration, and the backends that bear our mark and belong to none of them.
    fn names(&self, maps: &[Map]) -> Vec<TargetName> {
        let mut names: Vec<TargetName> = self.targets.keys().cloned().collect();
        let known = |backend: &str| {
            let has = |target: &Target| target.backends.iter().any(|name| name == backend);
            self.targets.values().any(has)
        };
        let mut strays: Vec<&str> = maps
            .iter()
            .flat_map(Map::marked)
            .filter(|backend| !known(backend))
            .collect();
        strays.sort_unstable();
        strays.dedup();
        names.extend(strays.into_iter().map(TargetName::new));
        names
    }

    async fn change(&self, change: &Change) -> Result<Vec<Loss>, ActuatorError> {
        let backends = self.backends(&change.target);
        let desired = change.desired;
        let answers = each(&self.sockets, |socket| {
            let backends = backends.clone();
            async move {
                for backend in &backends {
                    socket.tell(backend, desired).await?;
                }
                Ok(())
            }
        })
        .await;
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.insert(change.target.clone(), desired);
        drop(wanted);
        let mut losses = losses(&backends, desired);
        let reached = answers.iter().filter(|answer| answer.is_ok()).count();
        for answer in answers {
            match answer {
                Ok(()) => {}
                // One dead HAProxy must not keep the others from being told.
                Err(error @ ActuatorError::Unreachable { .. }) if reached > 0 => {
                    losses.push(Loss(format!("{error}; it is told when it answers again")));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(losses)
    }
}

/// What HAProxy cannot say of `desired`.
fn losses(backends: &[String], desired: RetryState) -> Vec<Loss> {
    if desired == RetryState::Original {
        return Vec::new();
    }
    backends
        .iter()
        .map(|backend| {
            Loss(format!(
                "{backend}: HAProxy switches layer-7 retries for new requests; a connection that fails is tried again \
                 as `retries` says"
            ))
        })
        .collect()
}

impl Actuator for Haproxy {
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
        let names = self.backends(&change.target).join(", ");
        match map::percent(change.desired) {
            None => format!("remove our entries of {names} from the map"),
            Some(percent) => format!("set the retries of {names} to {percent} % in the map"),
        }
    }
}
