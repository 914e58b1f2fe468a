//! What carries a decision to a data plane.

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "envoy")]
pub mod envoy;
#[cfg(feature = "kubernetes")]
pub mod istio;
#[cfg(any(feature = "aws", feature = "kubernetes"))]
mod kept;
pub mod policy_server;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use retryguard_core::ratio::Ratio;

use crate::{config::actuator as settings, start::StartError, target::TargetName};

/// An actuator's answer, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ActuatorError>> + Send + 'a>>;

/// What shall be true of one target's retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// As the user configured them, with no trace of us.
    Original,
    /// None.
    Off,
    /// On the way back: a share of what the user configured.
    Part {
        /// The step of the ramp, from zero.
        step: u8,
        /// The share of retries that may be sent.
        share: Ratio,
    },
}

/// One change that the plan wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Whose retries.
    pub target: TargetName,
    /// What they shall be.
    pub wish: Wish,
    /// The sentence for logs, events and the status: what was decided and the numbers that caused it.
    pub why: String,
    /// The number of the term of lead under which it was decided; it grows with every new leader. A data plane
    /// that can compare refuses a change of an older term than the one it has seen.
    pub term: u64,
}

/// What a data plane holds that is not the user's own configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Whose retries.
    pub target: TargetName,
    /// What of ours is there.
    pub held: Held,
}

/// Who has the last word on a target at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// We: this is what stands there.
    Ours(Wish),
    /// Somebody changed what we had set. What they wrote stands until the guard has let retries back on; the
    /// sentence says what was found. `apply` is then called with `Wish::Original`: it leaves what they wrote and
    /// forgets that there was a dispute.
    Theirs(String),
}

/// What a translation onto a data plane cannot say, in a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss(pub String);

/// A data plane's configuration of retries.
///
/// Every method can be called again at any time with the same arguments: a change that is already there is a
/// success. An actuator keeps what it needs to restore the user's own configuration *in the data plane*, so
/// that a controller that was killed finds it again.
pub trait Actuator: Send + Sync {
    /// The word used in the configuration, in logs and in the status.
    fn name(&self) -> &'static str;

    /// What this data plane holds of ours at present. Asked at the start, whenever a change fails, and once in
    /// a while, so that a proxy that has restarted and forgotten is told again. A target that is not named is
    /// as the user configured it. Targets of a former configuration are named too, by the name that they had.
    fn find(&self) -> Answer<'_, Vec<Found>>;

    /// Makes one change; says what of it this data plane cannot express. `Wish::Original` must also work for
    /// a target that only [`Actuator::find`] knows.
    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>>;

    /// What [`Actuator::apply`] would do, in a sentence, without doing it.
    fn describe(&self, change: &Change) -> String;

    /// What the status shows of this data plane beyond its targets; null for nothing.
    fn details(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Calls `changed` whenever the data plane may hold something else than it did, for as long as it is polled: what it
    /// holds is then asked for at once and not only at the next look. One that cannot tell never calls, and one that has
    /// lost sight of its data plane goes on trying; looks go on all the while.
    fn notice<'a>(
        &'a self,
        changed: &'a (dyn Fn() + Send + Sync),
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        let _ = changed;
        Box::pin(std::future::pending())
    }

    /// We do not lead any more. One that listens for its data plane stops answering it, so that the data plane
    /// finds the new leader; it begins again with the next [`Actuator::find`].
    fn stand_down(&self) {}
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActuatorError {
    /// Nobody answered, or not in time.
    #[error("{address} does not answer: {reason}")]
    Unreachable {
        /// Who was asked.
        address: String,
        /// What went wrong, without secrets.
        reason: String,
    },
    /// The data plane wants to be asked again later.
    #[error("{address} asks to come back later: {reason}")]
    Busy {
        /// Who was asked.
        address: String,
        /// What it said.
        reason: String,
    },
    /// Somebody else changed the same thing meanwhile; what they wrote stands.
    #[error("{what} was changed by somebody else: {reason}")]
    Conflict {
        /// The object.
        what: String,
        /// What was found.
        reason: String,
    },
    /// The data plane refused it for good.
    #[error("{what} cannot be changed: {reason}")]
    Refused {
        /// The object.
        what: String,
        /// What it said.
        reason: String,
    },
}

type Started = Result<Arc<dyn Actuator>, StartError>;

/// Starts the actuator `envoy-rtds`.
#[cfg(feature = "envoy")]
pub(crate) async fn envoy_rtds(
    settings: &settings::envoy::Rtds,
    targets: Vec<(TargetName, settings::envoy::Target)>,
) -> Started {
    Ok(Arc::new(envoy::Rtds::start(settings, targets).await?))
}

#[cfg(not(feature = "envoy"))]
pub(crate) async fn envoy_rtds(
    _settings: &settings::envoy::Rtds,
    _targets: Vec<(TargetName, settings::envoy::Target)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "envoy-rtds",
        feature: "controller",
    })
}

/// Starts the actuator `envoy-admin`.
#[cfg(feature = "envoy")]
pub(crate) async fn envoy_admin(
    settings: &settings::envoy::Admin,
    targets: Vec<(TargetName, settings::envoy::Target)>,
) -> Started {
    Ok(Arc::new(envoy::Admin::start(settings, targets)?))
}

#[cfg(not(feature = "envoy"))]
pub(crate) async fn envoy_admin(
    _settings: &settings::envoy::Admin,
    _targets: Vec<(TargetName, settings::envoy::Target)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "envoy-admin",
        feature: "controller",
    })
}

/// Starts the actuator `istio`.
#[cfg(feature = "kubernetes")]
pub(crate) async fn istio(
    settings: &settings::istio::Settings,
    targets: Vec<(TargetName, settings::istio::Target)>,
) -> Started {
    let client = crate::kubernetes::client(None).await?;
    let instance = crate::kubernetes::instance();
    Ok(Arc::new(istio::Istio::new(
        client,
        settings.clone(),
        &targets,
        &instance,
    )))
}

#[cfg(not(feature = "kubernetes"))]
pub(crate) async fn istio(
    _settings: &settings::istio::Settings,
    _targets: Vec<(TargetName, settings::istio::Target)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "istio",
        feature: "kubernetes",
    })
}

/// Starts the actuator `aws`.
#[cfg(feature = "aws")]
pub(crate) async fn aws(
    settings: &settings::aws::Settings,
    targets: Vec<(TargetName, settings::aws::Target)>,
) -> Started {
    Ok(Arc::new(aws::Aws::start(settings, targets).await?))
}

#[cfg(not(feature = "aws"))]
pub(crate) async fn aws(
    _settings: &settings::aws::Settings,
    _targets: Vec<(TargetName, settings::aws::Target)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "aws",
        feature: "aws",
    })
}

/// Starts the actuator `policy-server`.
pub(crate) async fn policy_server(
    settings: &settings::policy_server::Settings,
    targets: Vec<(TargetName, settings::policy_server::Target)>,
) -> Started {
    let server = policy_server::PolicyServer::start(&settings.folder, &settings.listen, targets).await?;
    Ok(Arc::new(server))
}
