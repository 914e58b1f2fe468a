//! How Amazon's services are reached: the same keys for the source `cloudwatch` and the actuator `aws`.

use std::path::PathBuf;

use retryguard_policy::reading::{Block, Mistakes};

use super::{Place, source::address};

/// Where, and as whom. What is not written is found as every tool of the field finds it: the environment, the
/// files in the home folder, the web identity of a pod, the role of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// The region.
    pub region: Option<String>,
    /// Another address than Amazon's own: a private endpoint or an emulator.
    pub endpoint: Option<String>,
    /// A file of credentials in Amazon's own form, instead of the one in the home folder.
    pub credentials_file: Option<PathBuf>,
    /// Which profile of the files.
    pub profile: Option<String>,
}

impl Reach {
    pub(super) fn read(block: &mut Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Self {
        let at = block.at();
        let region = block.text("region", "a region, such as eu-west-1", mistakes);
        let endpoint = block.text("endpoint", "an address, such as http://127.0.0.1:4566", mistakes);
        let file = block.text(
            "credentialsFile",
            "the path of a file with aws_access_key_id and aws_secret_access_key",
            mistakes,
        );
        let profile = block.text("profile", "the name of a profile", mistakes);
        Self {
            region: region.map(str::to_owned),
            endpoint: endpoint.and_then(|text| address::checked(text, at, mistakes)),
            credentials_file: file.map(|path| place.path(path)),
            profile: profile.map(str::to_owned),
        }
    }
}
