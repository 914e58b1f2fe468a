//! After `use retryguard::*` the names of the crates beside it still mean these crates. That this compiles is the test.

use retryguard::*;

use core::time::Duration;
use http::{Method, Request};
use tonic::Code;

#[test]
fn a_glob_import_hides_no_crate() {
    let request = Request::builder().method(Method::PUT).body(()).unwrap();
    assert_eq!(request.method(), http::Method::PUT);
    assert_eq!(core::mem::size_of::<Duration>(), 16);
    assert_eq!(Code::from_i32(14), tonic::Code::Unavailable);
    assert!(reqwest::Url::parse("http://payments/").is_ok());
    assert_eq!(bytes::Bytes::new().len(), 0);
    assert!(for_reqwest::Client::new(&Policy::default(), "it").is_ok());
    assert_eq!(for_http::tags::Received::default().attempt, 1);
    assert_eq!(machines::Ratio::percent(100), machines::Ratio::ONE);
}
