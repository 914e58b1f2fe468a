//! Why a part of the controller does not start.

/// Why the controller does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// This program was built without it.
    #[error("this program was built without `{what}`; build it with `--features {feature}`")]
    NotBuilt {
        /// The source, the actuator or the backend of leader election.
        what: &'static str,
        /// The feature that brings it.
        feature: &'static str,
    },
    /// A port cannot be listened on.
    #[error(
        "{what} cannot listen on {address}: {reason}; choose another port, or stop the process that uses it"
    )]
    Listen {
        /// What listens.
        what: &'static str,
        /// Where.
        address: String,
        /// What the operating system said.
        reason: String,
    },
    /// A file cannot be read or is not what it should be.
    #[error("{what} cannot use {path}: {reason}")]
    File {
        /// What needs it.
        what: &'static str,
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A client cannot be made from its settings.
    #[error("{what}: {reason}")]
    Settings {
        /// Whose.
        what: &'static str,
        /// What is wrong with them.
        reason: String,
    },
}
