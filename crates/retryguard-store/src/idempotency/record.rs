//! What is stored: a key, a request's fingerprint and a response.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response, StatusCode, header};
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

    /// The key of these parts, which belongs to a caller: it begins with the caller's own hash, so that a store can tell
    /// whose keys fill it. 192 bits are left for the parts.
    #[must_use]
    pub fn of_caller(caller: &[u8], parts: &[&[u8]]) -> Self {
        let mut id = hash(parts);
        id[..CALLER].copy_from_slice(&hash(&[caller])[..CALLER]);
        Self(id)
    }

    /// Whose key it is. Keys that were not made for a caller each have their own.
    pub(super) fn caller(&self) -> [u8; CALLER] {
        let mut caller = [0; CALLER];
        caller.copy_from_slice(&self.0[..CALLER]);
        caller
    }
}

/// How many bytes of a key name its caller.
pub(super) const CALLER: usize = 8;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(KeyId::of(&[b"ab", b"c"]), KeyId::of(&[b"a", b"bc"]));
        assert_ne!(KeyId::of(&[b"a", b""]), KeyId::of(&[b"a"]));
        assert_eq!(KeyId::of(&[b"a"]).to_string().len(), 64);
    }
}
