//! The keys of the actuators `envoy-rtds` and `envoy-admin`.

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::{Place, listen::Listen};

/// Where Envoys ask for their runtime by default: from this machine only.
pub const ADDRESS: &str = "127.0.0.1:18000";

/// The runtime discovery server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rtds {
    /// Where to listen, and who may ask.
    pub listen: Listen,
}

/// The admin endpoints of Envoys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where they are, such as `http://127.0.0.1:9901`.
    pub addresses: Vec<String>,
}

/// Which clusters a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Their names in Envoy; the target's own name where none is written.
    pub clusters: Vec<String>,
}

impl Rtds {
    pub(super) fn read(block: Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let listen = Listen::read(block, ADDRESS, place, mistakes)?;
        Some(Self { listen })
    }
}

impl Admin {
    pub(super) fn read(mut block: Block<'_>, _place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let addresses = block.texts("addresses", "the addresses of admin endpoints", mistakes);
        block.close(mistakes);
        Some(Self {
            addresses: addresses?.into_iter().map(str::to_owned).collect(),
        })
    }
}

impl Target {
    pub(super) fn read(name: &str, block: &mut Block<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let clusters = block
            .texts("clusters", "the names of clusters", mistakes)
            .unwrap_or_else(|| vec![name]);
        Some(Self {
            clusters: clusters.into_iter().map(str::to_owned).collect(),
        })
    }
}
