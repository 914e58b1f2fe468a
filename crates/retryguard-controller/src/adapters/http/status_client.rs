//! QuerySender a running controller from the outside.

use std::path::Path;

use reqwest::Url;
use serde_json::Value;

use crate::adapters::http::{Access, Fetch};
use crate::reconcile::source::SourceError;

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// The address is none.
    #[error("`{0}` is not an address; write http://127.0.0.1:9464 or the like")]
    Address(String),
    /// The token cannot be read.
    #[error(transparent)]
    Token(#[from] crate::adapters::start_error::StartError),
    /// There is no answer, or it is not that of a controller.
    #[error("{0}; check that the controller runs and listens there")]
    Answer(#[from] SourceError),
    /// An answer that is not a status.
    #[error("{address} answered {status} and no status")]
    Other {
        /// Who.
        address: String,
        /// With which status code.
        status: u16,
    },
}

/// The status of the controller at an address such as `http://127.0.0.1:9464`.
pub async fn status(
    address: &str,
    token_file: Option<&Path>,
    ca_file: Option<&Path>,
) -> Result<Value, StatusError> {
    let access = Access { token_file, ca_file };
    let url = format!("{}/status", address.trim_end_matches('/'));
    let url = Url::parse(&url).map_err(|_| StatusError::Address(address.to_owned()))?;
    let (status, text) = Fetch::new("status", access)?.get(url).await?;
    match serde_json::from_str::<Value>(&text) {
        Ok(found) if status.is_success() && found["targets"].is_array() => Ok(found),
        _ => Err(StatusError::Other {
            address: address.to_owned(),
            status: status.as_u16(),
        }),
    }
}
