//! What the actuators `istio` and `gateway-api` and the Lease share: the client of the API server, its limits and its errors.

pub mod event;
mod retry;

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::adapters::causes::chain;
use crate::adapters::start_error::StartError;
use crate::reconcile::actuator::ActuatorError;

pub(crate) use retry::with_retries;

/// How long one question to the API server may take: less than the loop gives to a whole change.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(3);

/// A client: from this file if one is named, else as every tool of the field finds its way (`KUBECONFIG`, the
/// file in the home folder, or the account of the pod). No request is sent yet.
///
/// # Errors
/// When there is no such configuration, or it is not one.
pub async fn client(kubeconfig: Option<&Path>) -> Result<Client, StartError> {
    // Fails where the program has chosen one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = match kubeconfig {
        Some(path) => {
            let refuse = |error: kube::config::KubeconfigError| StartError::File {
                what: "kubernetes",
                path: path.display().to_string(),
                reason: error.to_string(),
            };
            let file = Kubeconfig::read_from(path).map_err(refuse)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(refuse)?
        }
        None => Config::infer().await.map_err(|error| settings(&error))?,
    };
    client_from(config)
}

/// This controller's name among its kind: the pod's, which Kubernetes makes the host's name.
#[must_use]
pub fn instance() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "retryguard".to_owned())
}

fn client_from(mut config: Config) -> Result<Client, StartError> {
    // We have retries of our own, and layers of retries multiply.
    config.default_retry = false;
    config.connect_timeout = Some(REQUEST_LIMIT);
    Client::try_from(config).map_err(|error| settings(&error))
}

fn settings(error: &dyn std::error::Error) -> StartError {
    StartError::Settings {
        what: "kubernetes",
        reason: format!("{error}; name a kubeconfig, or run in a pod whose service account token is mounted"),
    }
}

/// Waits for one answer, and no longer than [`REQUEST_LIMIT`].
pub(crate) async fn within<T>(answer: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
    match tokio::time::timeout(REQUEST_LIMIT, answer).await {
        Ok(answer) => answer.map_err(RequestError::from),
        Err(_) => Err(RequestError::Silent(format!(
            "no answer within {} s",
            REQUEST_LIMIT.as_secs()
        ))),
    }
}

/// What can go wrong with one question, by what to do about it.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The object is not what was read: read it again.
    Stale(String),
    /// There is no such object, or no such kind of object.
    Missing(String),
    /// Come back later, not before this time.
    Later(Duration, String),
    /// No answer, or none that can be read.
    Silent(String),
    /// A final no.
    Refused(String),
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Silent(chain(&error));
        };
        let said = if status.message.is_empty() {
            status.reason.clone()
        } else {
            status.message.clone()
        };
        match status.code {
            // A patch whose `test` fails is "unprocessable", in words that do not say so.
            409 | 422 => Self::Stale(said),
            404 => Self::Missing(said),
            429 | 500..=599 => {
                let after = status
                    .details
                    .as_ref()
                    .map_or(0, |details| details.retry_after_seconds);
                Self::Later(Duration::from_secs(u64::from(after)), said)
            }
            _ => Self::Refused(said),
        }
    }
}

impl RequestError {
    /// For the loop: `what` is the object, `address` the API server.
    pub(crate) fn into_error(self, what: &str) -> ActuatorError {
        let (address, what) = (ADDRESS.to_owned(), what.to_owned());
        match self {
            // Not what the loop calls a conflict: no other decision was made, the object only changes faster
            // than we can. It is tried again.
            Self::Stale(reason) => ActuatorError::Busy {
                address,
                reason: format!("{what} keeps changing: {reason}"),
            },
            Self::Later(_, reason) => ActuatorError::Busy { address, reason },
            Self::Silent(reason) => ActuatorError::Unreachable { address, reason },
            Self::Missing(reason) | Self::Refused(reason) => ActuatorError::Refused { what, reason },
        }
    }

    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Stale(reason)
            | Self::Missing(reason)
            | Self::Later(_, reason)
            | Self::Silent(reason)
            | Self::Refused(reason) => reason,
        }
    }
}

/// How the API server is called in errors: its address may say more than a log should.
const ADDRESS: &str = "the Kubernetes API server";
