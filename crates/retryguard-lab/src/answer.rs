//! What the services read and answer: JSON in, JSON out, and a sentence for everything that goes wrong.

use axum::{
    Json,
    extract::{FromRequest, Request, rejection::JsonRejection},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use retryguard::{BoxedError, Error};
use serde::de::DeserializeOwned;
use serde_json::json;

/// The largest body that a service reads.
pub const LARGEST_BODY: usize = 16 * 1024;

/// An answer that is not a success, with its reason.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    reason: String,
    retry_after: Option<u64>,
}

impl Problem {
    /// A status and a sentence.
    pub fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            retry_after: None,
        }
    }

    /// The request is wrong.
    pub fn bad(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, reason)
    }

    /// The service cannot do it now.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    }

    /// A call to another service came to nothing.
    #[must_use]
    pub fn downstream(target: &str, error: &Error<BoxedError>) -> Self {
        let status = match error {
            Error::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
            Error::Failed { .. } => StatusCode::BAD_GATEWAY,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self {
            status,
            reason: format!("{target}: {error}"),
            retry_after: error
                .retry_after()
                .map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0)),
        }
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The sentence.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({"error": self.reason}))).into_response();
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A failure of the database: the caller's request was fine, and another attempt may succeed.
impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        tracing::warn!(%error, "database");
        Self::unavailable("the database did not answer; try again")
    }
}

impl From<crate::database::DatabaseError> for Problem {
    fn from(error: crate::database::DatabaseError) -> Self {
        tracing::warn!(%error, "database");
        Self::unavailable("the database did not answer; try again")
    }
}

/// A JSON body, or a sentence that says what is wrong with it.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(rejected(&rejection)),
        }
    }
}

fn rejected(rejection: &JsonRejection) -> Problem {
    let status = rejection.status();
    let text = rejection.body_text();
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        return Problem::new(status, format!("the body is larger than {LARGEST_BODY} bytes"));
    }
    Problem::new(status, text)
}

/// Nothing is served here.
pub async fn unknown_path(uri: http::Uri) -> Problem {
    let path: String = uri.path().chars().take(100).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("nothing is served at {path}: see /openapi.json"),
    )
}

/// Something is served here, by another method.
pub async fn wrong_method(method: http::Method) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{method} is not served here: see /openapi.json"),
    )
}
