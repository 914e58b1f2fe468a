//! One Envoy's admin endpoint.

use std::fmt::Write as _;
use std::time::Duration;

use retryguard_core::ratio::Ratio;
use serde_json::Value;

use crate::adapters::actuator::envoy::admin::layer::Layer;
use crate::adapters::actuator::envoy::keys;
use crate::adapters::actuator::instances::Mark;
use crate::domain::state::RetryState;
use crate::reconcile::actuator::ActuatorError;

/// How long one question may take. The endpoint is on this machine or near it.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest answer that is read; a runtime of 100,000 keys fits.
const LONGEST_ANSWER: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    client: reqwest::Client,
    address: String,
    layer: String,
}

/// One endpoint for each address, over one client.
pub(super) fn all(addresses: &[String], layer: &str) -> Result<Vec<Endpoint>, String> {
    // Fails where it is chosen already, and then it is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .connect_timeout(TIMEOUT)
        .retry(reqwest::retry::never())
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .map_err(|error| error.to_string())?;
    let endpoint = |address: &String| Endpoint {
        client: client.clone(),
        address: address.trim_end_matches('/').to_owned(),
        layer: layer.to_owned(),
    };
    Ok(addresses.iter().map(endpoint).collect())
}

impl Endpoint {
    /// What stands in the admin layer.
    pub(super) async fn read(&self) -> Result<Layer, ActuatorError> {
        let request = self.client.get(format!("{}/runtime", self.address));
        let answer = self.answer(request).await?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| self.odd(error.to_string()))?;
        Layer::read(&answer, &self.layer).map_err(|reason| self.odd(reason))
    }

    /// Makes `desired` true of `cluster`, and looks whether it is.
    pub(super) async fn tell(
        &self,
        cluster: &str,
        budget: Ratio,
        desired: RetryState,
    ) -> Result<(), ActuatorError> {
        let before = self.read().await?;
        match before.mark(cluster) {
            Mark::None if desired != RetryState::Original => {
                let theirs = before.unmarked(cluster);
                if !theirs.is_empty() {
                    return Err(self.conflict(cluster, format!("an operator has set {}", theirs.join(", "))));
                }
            }
            Mark::Changed(what) if desired != RetryState::Original => {
                return Err(self.conflict(cluster, what));
            }
            Mark::None | Mark::Foreign(_) | Mark::Changed(_) | Mark::Ours(_) => {}
        }
        let changes = before.towards(cluster, budget, desired);
        if changes.is_empty() {
            return Ok(());
        }
        let request = self
            .client
            .post(format!("{}/runtime_modify?{}", self.address, query(&changes)));
        self.answer(request).await?;
        let after = self.read().await?;
        let left = after.towards(cluster, budget, desired);
        if let Some((key, _)) = left.first() {
            return Err(self.odd(format!("it answers OK and has not changed {key}")));
        }
        let masked = after.masked(cluster, budget, desired);
        if masked.is_empty() {
            Ok(())
        } else {
            Err(self.conflict(
                cluster,
                format!(
                    "a runtime layer above `{}` says otherwise: {}",
                    self.layer,
                    masked.join(", ")
                ),
            ))
        }
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<String, ActuatorError> {
        let unreachable = |error: reqwest::Error| ActuatorError::Unreachable {
            address: self.address.clone(),
            reason: root(&error),
        };
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST_ANSWER {
                return Err(self.odd(format!("it answers with more than {LONGEST_ANSWER} bytes")));
            }
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        if status.is_success() {
            return Ok(body);
        }
        let said: String = body.trim().chars().take(200).collect();
        Err(self.odd(format!("it answers {status}: {said}")))
    }

    fn odd(&self, reason: String) -> ActuatorError {
        ActuatorError::Refused {
            what: self.address.clone(),
            reason,
        }
    }

    fn conflict(&self, cluster: &str, reason: String) -> ActuatorError {
        ActuatorError::Conflict {
            what: format!("`{cluster}` of {}", self.address),
            reason,
        }
    }
}

/// Names of clusters may hold anything, pipes above all. A value is a number or nothing: any other text would be
/// answered with OK and hide the layers below, which switches retries *on*.
fn query(changes: &[(String, Option<f64>)]) -> String {
    let mut text = String::new();
    for (key, value) in changes {
        if !text.is_empty() {
            text.push('&');
        }
        for byte in key.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
                text.push(char::from(byte));
            } else {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text.push('=');
        text.push_str(&value.map_or_else(String::new, keys::number));
    }
    text
}

/// The cause at the bottom says more than the layers of wrapping above it.
fn root(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_and_values_are_numbers_or_nothing() {
        let changes = [
            ("circuit_breakers.outbound|80||a b&c.x".to_owned(), Some(12.5)),
            ("k".to_owned(), None),
        ];
        assert_eq!(
            query(&changes),
            "circuit_breakers.outbound%7C80%7C%7Ca%20b%26c.x=12.5&k="
        );
    }
}
