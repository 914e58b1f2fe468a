//! The answers of the layer's own: problem documents (RFC 9457).

use std::{fmt::Write as _, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::key::MalformedKey;
use crate::StoreError;

/// Why a request got no response of the handler's.
#[derive(Debug)]
pub(super) enum Problem {
    /// No key where one is required.
    Missing,
    /// A key that cannot be read.
    Malformed(MalformedKey),
    /// The key belongs to another request; the status as chosen.
    OtherRequest(StatusCode),
    /// The first request with this key is still worked on.
    InFlight,
    /// The body is too large to be compared.
    BodyTooLarge(usize),
    /// The body broke off.
    BodyUnreadable,
    /// The first response was too large to be kept.
    NotKept(StatusCode),
    /// The store did not do its part.
    Store(StoreError),
    /// No caller waits for the answer any more.
    TooLate,
}

/// When to come back, where waiting helps. Whole seconds; the first request is usually answered sooner.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Problem {
    /// A word for metrics.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed(_) => "malformed",
            Self::OtherRequest(_) => "other-request",
            Self::InFlight => "in-flight",
            Self::BodyTooLarge(_) => "body-too-large",
            Self::BodyUnreadable => "body-unreadable",
            Self::NotKept(_) => "not-kept",
            Self::Store(_) => "store-failed",
            Self::TooLate => "deadline",
        }
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::Missing | Self::Malformed(_) | Self::BodyUnreadable => StatusCode::BAD_REQUEST,
            Self::OtherRequest(status) => *status,
            Self::InFlight | Self::NotKept(_) => StatusCode::CONFLICT,
            Self::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLate => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    const fn title(&self) -> &'static str {
        match self {
            Self::Missing => "Idempotency-Key is missing",
            Self::Malformed(_) => "Idempotency-Key is malformed",
            Self::OtherRequest(_) => "Idempotency-Key is already used",
            Self::InFlight => "A request is outstanding for this Idempotency-Key",
            Self::BodyTooLarge(_) => "The request is too large for an Idempotency-Key",
            Self::BodyUnreadable => "The request broke off",
            Self::NotKept(_) => "The response is no longer there",
            Self::Store(_) => "The store of idempotency keys does not answer",
            Self::TooLate => "The deadline of this request has passed",
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Missing => {
                "this operation needs a key: send a header such as Idempotency-Key: \"8e03978e-40d5\", new for \
                 each operation and the same for its retries"
                    .to_owned()
            }
            Self::Malformed(why) => why.to_string(),
            Self::OtherRequest(_) => {
                "the key was used for a request with another body or query; nothing was done; send a new key for \
                 a new operation"
                    .to_owned()
            }
            Self::InFlight => {
                "the first request with this key is still worked on; send it again later with the same key to \
                 get its response"
                    .to_owned()
            }
            Self::BodyTooLarge(limit) => {
                format!("the body of a request with a key may have {limit} bytes; nothing was done")
            }
            Self::BodyUnreadable => {
                "the body could not be read to its end; nothing was done; send it again".to_owned()
            }
            Self::NotKept(status) => format!(
                "the request was done and answered with {status}, but its response was too large to be kept; \
                 nothing was done again"
            ),
            // What the driver says is for the log: it may name hosts.
            Self::Store(StoreError::Slow { .. }) => "it did not answer in time; nothing was done".to_owned(),
            Self::Store(StoreError::Full { .. }) => "it is full; nothing was done".to_owned(),
            Self::Store(_) => "it cannot be reached or refuses; nothing was done".to_owned(),
            Self::TooLate => "there was no time left to start; nothing was done".to_owned(),
        }
    }

    const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::InFlight | Self::Store(_) => Some(RETRY_AFTER),
            _ => None,
        }
    }

    pub(super) fn response(&self, documentation: Option<&str>) -> Response<Bytes> {
        let kind = documentation.unwrap_or("about:blank");
        let body = format!(
            "{{\"type\":{},\"title\":{},\"status\":{},\"detail\":{}}}\n",
            json(kind),
            json(self.title()),
            self.status().as_u16(),
            json(&self.detail()),
        );
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(after) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs()));
        }
        if let Some(documentation) = documentation
            && let Ok(link) = HeaderValue::from_str(&format!("<{documentation}>; rel=\"describedby\""))
        {
            headers.insert(header::LINK, link);
        }
        response
    }
}

/// A JSON string. The texts are ours but for the documentation's address.
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_json_and_links_to_its_page() {
        let page = "https://example.org/keys";
        let response = Problem::Missing.response(Some(page));
        assert_eq!(response.status(), 400);
        assert_eq!(
            response.headers()["link"],
            "<https://example.org/keys>; rel=\"describedby\""
        );
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["type"], page);
        assert_eq!(body["status"], 400);
        assert!(body["detail"].as_str().unwrap().contains("Idempotency-Key: \"8e"));
        assert!(response.headers().get("retry-after").is_none());
    }

    #[test]
    fn control_characters_do_not_break_the_document() {
        assert_eq!(json("a\"\\\n"), "\"a\\\"\\\\\\u000a\"");
    }
}
