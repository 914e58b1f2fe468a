//! Whatever the text, reading and linting a policy ends with a policy or with mistakes that can be shown. What was read has a digest.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retryguard_policy::{Policy, lint};

fuzz_target!(|text: &str| {
    match Policy::parse(text) {
        Ok(policy) => assert_eq!(policy.digest().to_string().len(), 32),
        Err(mistakes) => assert!(!mistakes.to_string().is_empty()),
    }
    if let Err(mistakes) = lint(text) {
        assert!(!mistakes.to_string().is_empty());
    }
});
