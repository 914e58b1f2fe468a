//! Whatever the text, reading properties ends with properties or with an error that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retryguard_model::Properties;

fuzz_target!(|text: &str| {
    if let Err(error) = Properties::parse(text) {
        assert!(!error.render("model", "", text).is_empty());
    }
});
