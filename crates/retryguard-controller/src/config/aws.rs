//! How Amazon's services are reached: the same keys for the source `cloudwatch` and the actuator `aws`.

use std::path::PathBuf;
use std::time::Duration;

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;
use crate::config::address;

/// The region or endpoint, and the credentials. What is not written is found as every tool of the field finds it: the environment, the
/// files in the home folder, the web identity of a pod, the role of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsAccess {
    /// The region.
    pub region: Option<String>,
    /// Another address than Amazon's own: a private endpoint or an emulator.
    pub endpoint: Option<String>,
    /// A file of credentials in Amazon's own form, instead of the one in the home folder.
    pub credentials_file: Option<PathBuf>,
    /// Which profile of the files.
    pub profile: Option<String>,
    /// How long one question may take.
    pub request_timeout: Duration,
}

/// Less than `limits.timeout` gives to a whole change, which is more than one question.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

impl Default for AwsAccess {
    fn default() -> Self {
        Self {
            region: None,
            endpoint: None,
            credentials_file: None,
            profile: None,
            request_timeout: REQUEST_TIMEOUT,
        }
    }
}

impl AwsAccess {
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
        let timeout = block.duration(
            "requestTimeout",
            Duration::from_millis(100)..=Duration::from_secs(300),
            mistakes,
        );
        Self {
            region: region.map(str::to_owned),
            endpoint: endpoint.and_then(|text| address::checked(text, at, mistakes)),
            credentials_file: file.map(|path| place.path(path)),
            profile: profile.map(str::to_owned),
            request_timeout: timeout.unwrap_or(REQUEST_TIMEOUT),
        }
    }
}
