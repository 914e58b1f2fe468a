//! A response as the columns of a database.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::{Fingerprint, StoredResponse, machine::Record};

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

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl StoredResponse {
    /// Status, headers and body.
    pub(super) fn columns(&self) -> [crate::Value; 3] {
        [
            i64::from(self.status.as_u16()).into(),
            encode(&self.headers).into(),
            self.body.clone().into(),
        ]
    }
}

/// The record of a database that is not as we write it.
#[derive(Debug, thiserror::Error)]
#[error("the record's {0} cannot be read: it was not written by this crate")]
pub(super) struct Unreadable(pub(super) &'static str);

/// A response from the columns of a database.
fn restore(status: i64, headers: &[u8], body: Option<Vec<u8>>) -> Result<StoredResponse, Unreadable> {
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

/// The columns of a record, as a database gives them.
pub(super) struct Columns {
    pub(super) fingerprint: Vec<u8>,
    pub(super) token: i64,
    /// In microseconds; not positive where the lock has run out.
    pub(super) lock_left: i64,
    /// None where an earlier version of this crate wrote the record.
    pub(super) lock: Option<i64>,
    pub(super) expired: bool,
    /// Status, headers and body.
    pub(super) response: Option<(i64, Vec<u8>, Option<Vec<u8>>)>,
}

impl Columns {
    pub(super) fn record(self) -> Result<Record, Unreadable> {
        let micros = |span: i64| Duration::from_micros(u64::try_from(span).unwrap_or(0));
        Ok(Record {
            fingerprint: Fingerprint(
                self.fingerprint
                    .try_into()
                    .map_err(|_| Unreadable("fingerprint"))?,
            ),
            token: self.token,
            lock_left: micros(self.lock_left),
            lock: micros(self.lock.unwrap_or(self.lock_left)),
            expired: self.expired,
            response: self
                .response
                .map(|(status, headers, body)| restore(status, &headers, body))
                .transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
