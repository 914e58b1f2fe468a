//! The keys of the actuator `policy-server`.

use std::path::PathBuf;

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;
use crate::config::listen::Listen;

/// Where policies are served by default: to this machine only.
pub const ADDRESS: &str = "127.0.0.1:9465";

/// Which policies are served, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyServerSettings {
    /// Where to listen, and who may ask.
    pub listen: Listen,
    /// The folder with the policies.
    pub folder: PathBuf,
}

/// Which service of the policies a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyServerTarget {
    /// Its name there.
    pub service: String,
}

impl PolicyServerSettings {
    pub(super) fn read(mut block: Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let listen = Listen::of(&mut block, ADDRESS, place, mistakes);
        let wanted = "the path of a folder with policies";
        let folder = block
            .need_text("folder", wanted, mistakes)
            .map(|(text, _)| place.path(text));
        block.close(mistakes);
        Some(Self {
            listen: listen?,
            folder: folder?,
        })
    }
}

impl PolicyServerTarget {
    pub(in crate::config) fn read(
        name: &str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let service = block
            .text("service", "the name of a service in the policies", mistakes)
            .unwrap_or(name);
        Some(Self {
            service: service.to_owned(),
        })
    }
}
