//! One service, kept up: started, broken by what concerns it as a whole, and started again.

use std::{net::SocketAddr, sync::Arc};

use tokio::sync::Semaphore;

use super::{host::Port, keys};
use crate::{
    chance::SharedRandom,
    clock,
    database::Database,
    faults::Kind,
    name::Name,
    services,
    settings::Capacity,
    site::{Site, life::Life},
};

/// A service that runs.
pub(crate) struct Node {
    pub(crate) database: Database,
    life: Life,
}

/// What all incarnations of a service have in common.
pub(crate) struct NodeTemplate {
    /// As it is for the first incarnation; each has a life of its own.
    pub(crate) site: Site,
    pub(crate) address: SocketAddr,
}

impl Node {
    /// Starts a service on its port and watches over it.
    pub(crate) async fn start(ground: NodeTemplate, port: Port) -> anyhow::Result<Self> {
        let node = Self {
            database: ground.site.database.clone(),
            life: ground.site.life.clone(),
        };
        let first = incarnate(&ground, port).await?;
        let life = node.life.clone();
        life.spawn(watch_over(ground, first));
        Ok(node)
    }

    /// Ends it.
    pub(crate) async fn stop(self) {
        self.life.end();
        self.database.close().await;
    }
}

/// Begins a life on a port.
async fn incarnate(ground: &NodeTemplate, port: Port) -> anyhow::Result<Life> {
    let mut site = ground.site.clone();
    site.life = Life::begin();
    site.connections = Arc::new(Semaphore::new(site.settings.connections));
    let routes = keys::honour(&site, services::routes(&site).await?).await?;
    port.serve(site.surround(routes), &site.life);
    Ok(site.life)
}

/// Kills and revives, takes workers away and gives them back, as the faults say.
async fn watch_over(ground: NodeTemplate, first: Life) {
    let mut guarded = Guarded(Some(first));
    let mut changes = ground.site.faults.watch();
    loop {
        reconcile(&ground, &mut guarded).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// The present life, which ends with the watch over it.
struct Guarded(Option<Life>);

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(life) = self.0.take() {
            life.end();
        }
    }
}

async fn reconcile(ground: &NodeTemplate, guarded: &mut Guarded) {
    let (name, faults) = (ground.site.name, &ground.site.faults);
    match (faults.find(Kind::Kill, name), &guarded.0) {
        (Some(_), Some(life)) => {
            life.end();
            guarded.0 = None;
        }
        (None, None) => match Port::reopen(ground.address).await {
            Ok(port) => match incarnate(ground, port).await {
                Ok(life) => guarded.0 = Some(life),
                Err(error) => tracing::error!(service = name.as_str(), %error, "does not come back"),
            },
            Err(error) => tracing::error!(service = name.as_str(), %error, "does not come back"),
        },
        _ => {}
    }
    let full = match name {
        Name::Payments => ground.site.settings.payments,
        Name::Inventory => ground.site.settings.inventory,
        _ => return,
    };
    if let Some(station) = ground.site.counts.station(name) {
        let left = faults
            .find(Kind::CapacityLoss, name)
            .map_or(1.0, |fault| fault.share);
        let workers = share_of(full.workers, left);
        if station.load().capacity.workers != workers {
            station.resize(Capacity { workers, ..full });
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a small whole number"
)]
fn share_of(workers: usize, share: f64) -> usize {
    (workers as f64 * share).round() as usize
}

/// The chance of one service's work.
pub(crate) fn dice_of(seed: u64, name: Name) -> Arc<SharedRandom> {
    Arc::new(SharedRandom::new(seed, name.as_str()))
}

/// A random token, for systems that were given none.
pub(crate) fn token() -> Arc<str> {
    let dice = SharedRandom::new(clock::wall_nanos() ^ u64::from(std::process::id()), "token");
    format!("{:016x}{:016x}", dice.bits(), dice.bits()).into()
}
