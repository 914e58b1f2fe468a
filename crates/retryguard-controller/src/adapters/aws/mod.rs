//! What the source `cloudwatch` and the actuator `aws` share: the client of Amazon's services, its limits and its
//! errors.

mod retry;

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

use crate::adapters::causes::chain;
use crate::adapters::start_error::StartError;
use crate::config::aws::AwsAccess;
use crate::reconcile::actuator::ActuatorError;
use crate::reconcile::source::SourceError;

pub(crate) use retry::with_retries;

/// The longest excerpt of an error that is repeated.
const LONGEST_REASON: usize = 300;

/// The settings of every client. Amazon is asked for nothing but the region, and that only where it is
/// written nowhere; credentials are looked for with the first question.
///
/// # Errors
/// When no region is known.
pub async fn configuration(what: &'static str, reach: &AwsAccess) -> Result<SdkConfig, StartError> {
    let client = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let limits = TimeoutConfig::builder()
        .connect_timeout(reach.request_timeout)
        .operation_timeout(reach.request_timeout)
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(client)
        // We have retries of our own, and layers of retries multiply.
        .retry_config(RetryConfig::disabled())
        .timeout_config(limits);
    if let Some(region) = &reach.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(endpoint) = &reach.endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    if let Some(path) = &reach.credentials_file {
        use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
        let files = EnvConfigFiles::builder()
            .include_default_config_file(true)
            .with_file(EnvConfigFileKind::Credentials, path)
            .build();
        loader = loader.profile_files(files);
    }
    if let Some(profile) = &reach.profile {
        loader = loader.profile_name(profile);
    }
    let config = loader.load().await;
    if config.region().is_none() {
        return Err(StartError::Settings {
            what,
            reason: "no region: write `region:` in its block, or set AWS_REGION".to_owned(),
        });
    }
    Ok(config)
}

/// What can go wrong with one question, by what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// The object is not what was read: read it again.
    Stale(String),
    /// There is no such object.
    Missing(String),
    /// Too many questions, an object that is being changed, or a server in trouble: come back later.
    Later(String),
    /// No answer, or none that can be read.
    Silent(String),
    /// It was changed outside this controller; what was written stands.
    Taken(String),
    /// A final no.
    Refused(String),
}

/// Answers in which Amazon's services ask for retry; those with a status of 429 or 5xx are known by it.
const PATIENCE: [&str; 12] = [
    "ConflictException",
    "InternalServerError",
    "InternalServerException",
    "InternalServiceFault",
    "LimitExceededException",
    "RequestLimitExceeded",
    "ResourceConflictException",
    "ServiceException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "TooManyUpdates",
];

const MISSING: [&str; 2] = ["ParameterNotFound", "ResourceNotFoundException"];

impl RequestError {
    /// From an SDK's error.
    pub(crate) fn from_sdk<E, R>(error: SdkError<E, R>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: Status + std::fmt::Debug,
    {
        Self::sorted(error, true)
    }

    /// As [`RequestError::from_sdk`], without the server's own sentence: it may quote what was sent, and what was sent is
    /// secret.
    pub(crate) fn from_secret<E, R>(error: SdkError<E, R>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: Status + std::fmt::Debug,
    {
        Self::sorted(error, false)
    }

    fn sorted<E, R>(error: SdkError<E, R>, quote: bool) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: Status + std::fmt::Debug,
    {
        let SdkError::ServiceError(answer) = &error else {
            return Self::Silent(match &error {
                SdkError::TimeoutError(_) => "no answer within `requestTimeout`".to_owned(),
                // What is behind an answer that cannot be read may quote it.
                SdkError::ResponseError(_) => "its answer cannot be read".to_owned(),
                _ => excerpt(&chain(&error)),
            });
        };
        let status = answer.raw().status();
        let code = answer.err().code().unwrap_or("an error without a code");
        let said = match answer.err().message() {
            Some(message) if quote => excerpt(&format!("{code}: {message}")),
            _ => format!("{code} (status {status})"),
        };
        match code {
            "PreconditionFailedException" => Self::Stale(said),
            code if MISSING.contains(&code) => Self::Missing(said),
            code if PATIENCE.contains(&code) => Self::Later(said),
            _ if status == 429 || status >= 500 => Self::Later(said),
            _ => Self::Refused(said),
        }
    }

    /// For the loop: `what` is the object, `address` the service.
    pub(crate) fn into_error(self, address: &str, what: &str) -> ActuatorError {
        let (address, what) = (address.to_owned(), what.to_owned());
        match self {
            // Not what the loop calls a conflict: no other decision was made, the object only changes faster
            // than we can. It is tried again.
            Self::Stale(reason) => ActuatorError::Busy {
                address,
                reason: format!("{what} keeps changing: {reason}"),
            },
            Self::Later(reason) => ActuatorError::Busy { address, reason },
            Self::Silent(reason) => ActuatorError::Unreachable { address, reason },
            Self::Taken(reason) => ActuatorError::Conflict { what, reason },
            Self::Missing(reason) | Self::Refused(reason) => ActuatorError::Refused { what, reason },
        }
    }

    /// For the loop, from a source.
    pub(crate) fn into_source_error(self, address: &str) -> SourceError {
        let address = address.to_owned();
        match self {
            Self::Silent(reason) => SourceError::Unreachable { address, reason },
            Self::Stale(reason)
            | Self::Missing(reason)
            | Self::Later(reason)
            | Self::Taken(reason)
            | Self::Refused(reason) => SourceError::Refused { address, reason },
        }
    }
}

/// The status of an answer over HTTP, whichever type it has.
pub(crate) trait Status {
    /// The number.
    fn status(&self) -> u16;
}

impl Status for aws_sdk_lambda::config::http::HttpResponse {
    fn status(&self) -> u16 {
        Self::status(self).as_u16()
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(LONGEST_REASON).collect()
}
