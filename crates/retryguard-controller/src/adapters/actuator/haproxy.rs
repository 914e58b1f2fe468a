//! The actuator `haproxy`: a map that HAProxy looks retries up in, changed through admin sockets.
//!
//! A backend takes the share of its retries, in percent, from the map, and switches layer-7 retries off for the requests that
//! are beyond it. The map lives in HAProxy's memory: it outlives a controller that is killed, which finds its own entries again
//! by their mark. A HAProxy that is reloaded forgets it; it is found without it at the next look and is sent the setting again.

mod map;
mod socket;

use std::collections::BTreeMap;

use map::Map;
use socket::Socket;

use crate::adapters::actuator::instances::{LastDesired, each, read, with_strays};
use crate::adapters::start_error::StartError;
use crate::config::actuator::haproxy::{HaproxySettings, HaproxyTarget};
use crate::domain::state::{Change, Found, Loss, RetryState};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::{Actuator, ActuatorError, Answer};

const NAME: &str = "haproxy";

/// HAProxys that are changed through their admin sockets.
#[derive(Debug)]
pub struct Haproxy {
    sockets: Vec<Socket>,
    targets: BTreeMap<TargetName, HaproxyTarget>,
    wanted: LastDesired,
}

impl Haproxy {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// When a backend has two targets.
    pub fn start(
        settings: &HaproxySettings,
        targets: Vec<(TargetName, HaproxyTarget)>,
    ) -> Result<Self, StartError> {
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
            wanted: LastDesired::default(),
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
        let maps = read(NAME, &self.sockets, |socket| async move { socket.read().await }).await?;
        Ok(self.wanted.found(self.names(&maps), |target| {
            let backends = self.backends(target);
            let marks = |map: &Map| {
                backends
                    .iter()
                    .map(|backend| map.mark(backend))
                    .collect::<Vec<_>>()
            };
            maps.iter().flat_map(marks).collect()
        }))
    }

    fn names(&self, maps: &[Map]) -> Vec<TargetName> {
        let strays = maps.iter().flat_map(Map::marked).filter(|backend| {
            let known = |target: &HaproxyTarget| target.backends.iter().any(|name| name == backend);
            !self.targets.values().any(known)
        });
        with_strays(self.targets.keys(), strays)
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
        self.wanted.told(change, losses(&backends, desired), answers)
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
