//! Whatever stands in the header `Idempotency-Key`, reading it ends with a key within the limit or a reason.
#![no_main]

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use retryguard_store::idempotency::{IDEMPOTENCY_KEY, read_key};

const LIMIT: usize = 255;

fuzz_target!(|input: (bool, Vec<Vec<u8>>)| {
    let (bare, values) = input;
    let mut headers = HeaderMap::new();
    for value in values.iter().take(3) {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(IDEMPOTENCY_KEY, value);
        }
    }
    match read_key(&headers, LIMIT, bare) {
        Ok(None) => assert!(headers.is_empty()),
        Ok(Some(key)) => assert!((1..=LIMIT).contains(&key.len())),
        Err(malformed) => assert!(!malformed.to_string().is_empty()),
    }
});
