//! What is stored: a key, a request's fingerprint and a response.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use sha2::{Digest as _, Sha256};

/// A key, scoped: the hash of namespace, principal, route and the client's key. Hashed, so that it has one size
/// and the database holds no credentials.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 32]);

/// The hash of a request: what must be the same when its key is used again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl KeyId {
    /// The key of these parts, in this order.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        Self(hash(parts))
    }
}

impl Fingerprint {
    /// The fingerprint of these parts, in this order.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        Self(hash(parts))
    }
}

/// Each part goes with its length: `("ab", "c")` and `("a", "bc")` differ.
fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// In hexadecimal digits: 64 characters, a unique key for whatever the effect writes elsewhere.
impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({})", KeyId(self.0))
    }
}

/// A response as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// Its status.
    pub status: StatusCode,
    /// Its headers, without those that belong to one connection or one moment.
    pub headers: HeaderMap,
    /// Its body; none where it was too large to be kept.
    pub body: Option<Bytes>,
}

/// What belongs to a connection, or is made anew with each response.
const NOT_KEPT: [HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

impl StoredResponse {
    /// Keeps what can be kept of a response.
    pub(super) fn of(head: &http::response::Parts, body: Option<Bytes>) -> Self {
        let mut headers = head.headers.clone();
        for name in &NOT_KEPT {
            headers.remove(name);
        }
        Self {
            status: head.status,
            headers,
            body,
        }
    }

    /// The response as it was, with the body that is kept.
    pub(super) fn into_response(self) -> Response<Bytes> {
        let mut response = Response::new(self.body.unwrap_or_default());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }

    /// How many bytes it takes.
    pub(super) fn size(&self) -> usize {
        let headers = self.headers.iter();
        headers
            .map(|(name, value)| name.as_str().len() + value.len() + 6)
            .sum::<usize>()
            + self.body.as_ref().map_or(0, Bytes::len)
    }
}

/// Headers as bytes: for each its name and its value, both after their length. JSON could not hold every value,
/// because a header's bytes need not be text.
pub(super) fn encode(headers: &HeaderMap) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |part: &[u8]| {
        // A header map holds no part of 4 GB.
        bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(part);
    };
    for (name, value) in headers {
        put(name.as_str().as_bytes());
        put(value.as_bytes());
    }
    bytes
}

/// The reverse of [`encode`]; none where the bytes are not ours.
pub(super) fn decode(mut bytes: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    while !bytes.is_empty() {
        let name = HeaderName::from_bytes(take(&mut bytes)?).ok()?;
        let value = HeaderValue::from_bytes(take(&mut bytes)?).ok()?;
        headers.append(name, value);
    }
    Some(headers)
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    let size = usize::try_from(u32::from_be_bytes(*size)).ok()?;
    let (part, rest) = rest.split_at_checked(size)?;
    *bytes = rest;
    Some(part)
}

/// The record of a database that is not as we write it.
#[derive(Debug, thiserror::Error)]
#[error("the record's {0} cannot be read: it was not written by this crate")]
pub(super) struct Unreadable(pub(super) &'static str);

/// A response from the columns of a database.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
pub(super) fn restore(
    status: i64,
    headers: &[u8],
    body: Option<Vec<u8>>,
) -> Result<StoredResponse, Unreadable> {
    let status = u16::try_from(status)
        .ok()
        .and_then(|status| StatusCode::from_u16(status).ok())
        .ok_or(Unreadable("status"))?;
    Ok(StoredResponse {
        status,
        headers: decode(headers).ok_or(Unreadable("headers"))?,
        body: body.map(Bytes::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(KeyId::of(&[b"ab", b"c"]), KeyId::of(&[b"a", b"bc"]));
        assert_ne!(KeyId::of(&[b"a", b""]), KeyId::of(&[b"a"]));
        assert_eq!(KeyId::of(&[b"a"]).to_string().len(), 64);
    }

    #[test]
    fn headers_survive_with_repetitions_and_bytes_that_are_no_text() {
        let mut headers = HeaderMap::new();
        headers.append("set-cookie", HeaderValue::from_static("a=1"));
        headers.append("set-cookie", HeaderValue::from_static("b=2"));
        headers.append("x-raw", HeaderValue::from_bytes(&[0xff, 0x20, 0xfe]).unwrap());
        headers.append("x-empty", HeaderValue::from_static(""));
        assert_eq!(decode(&encode(&headers)), Some(headers));
    }

    #[test]
    fn foreign_bytes_are_no_headers_and_no_panic() {
        assert_eq!(decode(&[1]), None);
        assert_eq!(decode(&[0, 0, 0, 9, b'a']), None);
        assert_eq!(decode(&[255; 64]), None);
    }
}
