//! The keys of the actuators `envoy-rtds` and `envoy-admin`.

use std::time::Duration;

use retryguard_core::ratio::Ratio;
use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;
use crate::config::listen::Listen;

/// Where Envoys ask for their runtime by default: from this machine only.
pub const ADDRESS: &str = "127.0.0.1:18000";
/// The name of the layer that we serve, unless another is written.
pub const RTDS_LAYER: &str = "retryguard";
/// The name of the admin layer, unless another is written.
pub const ADMIN_LAYER: &str = "admin";
/// The longest name of a cluster or a layer.
pub const LONGEST_NAME: usize = 256;
/// The most Envoys that are changed through their admin endpoints; larger fleets use `envoy-rtds`.
pub const MOST_ADDRESSES: usize = 1_000;

/// The runtime discovery server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rtds {
    /// Where to listen, and who may ask.
    pub listen: Listen,
    /// The name of the layer in the Envoys' bootstrap: `rtds_layer.name`.
    pub layer: String,
    /// How long Envoys may say what they hold, after a start, before anything is sent to them.
    pub learn_for: Duration,
    /// How long a change waits for the Envoys' word that they have it.
    pub confirm_within: Duration,
}

/// The admin endpoints of Envoys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where they are, such as `http://127.0.0.1:9901`.
    pub addresses: Vec<String>,
    /// The name of the admin layer in the Envoys' bootstrap.
    pub layer: String,
}

/// Which clusters a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvoyTarget {
    /// Their names in Envoy; the target's own name where none is written.
    pub clusters: Vec<String>,
    /// The retry budget that these clusters have of their own, as a share; the ramp is a share of it. All, where
    /// they have none.
    pub budget: Ratio,
}

impl Rtds {
    pub(super) fn read(mut block: Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let listen = Listen::of(&mut block, ADDRESS, place, mistakes);
        let layer = layer(&mut block, RTDS_LAYER, mistakes);
        let span = Duration::from_millis(100)..=Duration::from_secs(60);
        let learn_for = block.duration("learnFor", span.clone(), mistakes);
        let confirm_within = block.duration("confirmWithin", span, mistakes);
        block.close(mistakes);
        Some(Self {
            listen: listen?,
            layer: layer?,
            // The bootstrap of deploy/envoy comes back within two seconds.
            learn_for: learn_for.unwrap_or(Duration::from_secs(3)),
            // An Envoy answers within milliseconds; one that does not is not waited for again.
            confirm_within: confirm_within.unwrap_or(Duration::from_secs(2)),
        })
    }
}

impl Rtds {
    /// The server of one shard: the next port for each, and a layer of its own. None where there is no such port.
    pub(in crate::config) fn of_shard(&self, number: usize) -> Option<Self> {
        let mut own = self.clone();
        let port = self.listen.address.port();
        if port == 0 {
            return None;
        }
        own.listen
            .address
            .set_port(port.checked_add(u16::try_from(number).ok()?)?);
        own.layer = format!("{}-{number}", self.layer);
        Some(own)
    }
}

impl Admin {
    pub(super) fn read(mut block: Block<'_>, _place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let wanted = "the addresses of admin endpoints, such as [http://127.0.0.1:9901]";
        let at = block.at();
        let addresses = block.texts("addresses", wanted, mistakes);
        if addresses.is_none() {
            let _ = block.need("addresses", wanted, mistakes);
        }
        let layer = layer(&mut block, ADMIN_LAYER, mistakes);
        block.close(mistakes);
        let addresses = addresses?;
        for address in &addresses {
            let rest = ["http://", "https://"]
                .iter()
                .find_map(|scheme| address.strip_prefix(scheme));
            if rest.is_none_or(|rest| rest.is_empty() || rest.contains([' ', '?', '#', '@'])) {
                mistakes.add(
                    at,
                    format!("`{address}` is not an address of an admin endpoint"),
                    "write it as http://127.0.0.1:9901",
                );
            }
        }
        if addresses.is_empty() || addresses.len() > MOST_ADDRESSES {
            mistakes.add(
                at,
                format!("{} admin endpoints", addresses.len()),
                format!("name 1 to {MOST_ADDRESSES}; for a larger fleet use `envoy-rtds`"),
            );
        }
        Some(Self {
            addresses: addresses.into_iter().map(str::to_owned).collect(),
            layer: layer?,
        })
    }
}

impl EnvoyTarget {
    pub(in crate::config) fn read(
        name: &str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let clusters = block
            .texts("clusters", "the names of clusters", mistakes)
            .unwrap_or_else(|| vec![name]);
        for cluster in &clusters {
            if cluster.is_empty() || cluster.len() > LONGEST_NAME {
                mistakes.add(
                    block.at(),
                    "a name that no cluster has",
                    format!("write 1 to {LONGEST_NAME} characters"),
                );
            }
        }
        let budget = block
            .share("retryBudget", Ratio::ZERO..=Ratio::ONE, mistakes)
            .unwrap_or(Ratio::ONE);
        Some(Self {
            clusters: clusters.into_iter().map(str::to_owned).collect(),
            budget,
        })
    }
}

fn layer(block: &mut Block<'_>, default: &str, mistakes: &mut Mistakes) -> Option<String> {
    let at = block.at();
    let found = block
        .text("layer", "the name of a runtime layer", mistakes)
        .unwrap_or(default);
    if found.is_empty() || found.len() > LONGEST_NAME {
        mistakes.add(
            at,
            "a name that no layer has",
            format!("write 1 to {LONGEST_NAME} characters"),
        );
        return None;
    }
    Some(found.to_owned())
}
