//! The system: five services over loopback HTTP on our own library.

mod folder;
mod host;
mod keys;
mod node;
mod snapshot;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use retryguard::Policy;
use tokio::sync::Semaphore;

pub use crate::site::{
    Site,
    client::{Downstream, WireError},
    life::Life,
    line::ConnectionCutter,
};
pub use snapshot::{EdgeView, ServiceView, Snapshot};

use crate::{
    counts::Counts,
    database::{Database, Effects},
    faults::Faults,
    name::Name,
    recorder,
    settings::Settings,
};
use folder::Folder;
pub(crate) use host::Port;
#[cfg(feature = "real")]
pub(crate) use node::token;
use node::{Node, NodeTemplate};

/// A running system, or the part of it that runs in this process.
pub struct System {
    settings: Arc<Settings>,
    policy: Arc<Policy>,
    counts: Arc<Counts>,
    faults: Faults,
    token: Arc<str>,
    addresses: Arc<BTreeMap<Name, SocketAddr>>,
    nodes: Vec<Node>,
    /// The last field: it is dropped after what uses it.
    folder: Folder,
}

impl System {
    /// Starts all five services in this process.
    ///
    /// # Errors
    /// Where the policy is wrong, a port is taken or the databases cannot be written.
    pub async fn start(settings: Settings) -> anyhow::Result<Self> {
        Self::start_some(settings, &Name::ALL).await
    }

    /// Starts some of them; the others are where the settings say.
    ///
    /// # Errors
    /// As [`System::start`].
    pub async fn start_some(settings: Settings, names: &[Name]) -> anyhow::Result<Self> {
        recorder::install();
        let text = settings.scale.policy(&settings.policy);
        let policy =
            Policy::parse(&text).map_err(|mistakes| anyhow::anyhow!("the policy is wrong:\n{mistakes}"))?;
        let folder = Folder::new(settings.folder.clone());
        let mut ports = Vec::new();
        let mut addresses = BTreeMap::new();
        for (name, wanted) in Name::ALL.into_iter().zip(settings.addresses.0) {
            addresses.insert(name, wanted);
            if names.contains(&name) {
                let port = Port::open(wanted).await?;
                addresses.insert(name, port.address);
                ports.push((name, port));
            }
        }
        let token = settings.token.as_deref().map_or_else(node::token, Arc::from);
        let mut system = Self {
            faults: Faults::none(settings.scale, settings.seed),
            settings: Arc::new(settings),
            policy: Arc::new(policy),
            counts: Arc::new(Counts::new()),
            token,
            addresses: Arc::new(addresses),
            nodes: Vec::new(),
            folder,
        };
        for (name, port) in ports {
            let database = Database::open(&system.settings.backing, || system.folder.path(), name).await?;
            let site = system.site(name, database);
            let ground = NodeTemplate {
                address: port.address,
                site,
            };
            system.nodes.push(Node::start(ground, port).await?);
        }
        Ok(system)
    }

    fn site(&self, name: Name, database: Database) -> Site {
        Site {
            name,
            settings: self.settings.clone(),
            policy: self.policy.clone(),
            counts: self.counts.clone(),
            faults: self.faults.clone(),
            life: Life::begin(),
            dice: node::dice_of(self.settings.seed, name),
            database,
            peers: self.addresses.clone(),
            token: self.token.clone(),
            connections: Arc::new(Semaphore::new(self.settings.connections)),
        }
    }

    /// Where a service listens.
    ///
    /// # Panics
    /// Never: every service has an address.
    #[must_use]
    pub fn address(&self, name: Name) -> SocketAddr {
        self.addresses[&name]
    }

    /// What it was started with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What has been counted.
    #[must_use]
    pub const fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// What is broken, and the hand that breaks it.
    #[must_use]
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The token of the admin interface.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// What the databases hold.
    ///
    /// # Errors
    /// Where a database does not answer.
    pub async fn effects(&self) -> anyhow::Result<Effects> {
        let mut effects = Effects::default();
        for node in &self.nodes {
            effects = effects.and(
                Effects::of(&node.database)
                    .await
                    .context("cannot count the effects")?,
            );
            // Each service writes its own tables; those of the others are empty in its file, but not in a schema that all
            // share.
            if !matches!(node.database, Database::Sqlite(_)) {
                break;
            }
        }
        Ok(effects)
    }

    /// Ends everything: ports are closed, tasks dropped, temporary files removed.
    pub async fn stop(mut self) {
        for node in self.nodes.drain(..) {
            node.stop().await;
        }
    }
}
