//! Whatever the headers of a request or a response say, reading Retry-After, deadlines, attempts and criticality ends.
#![no_main]

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use retryguard::for_http::tags::{Received, read_hints};

const NAMES: [&str; 8] = [
    "retry-after",
    "grpc-timeout",
    "retryguard-attempt",
    "retryguard-criticality",
    "retryguard-deadline-ms",
    "retryguard-do-not-retry",
    "retryguard-retried",
    "retryguard-retry-after-ms",
];

fuzz_target!(|values: Vec<(u8, Vec<u8>)>| {
    let mut headers = HeaderMap::new();
    for (name, value) in values.iter().take(16) {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(NAMES[usize::from(*name) % NAMES.len()], value);
        }
    }
    assert!(Received::read(&headers).attempt >= 1);
    let _ = read_hints(&headers);
});
