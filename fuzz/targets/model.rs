//! Whatever the text, reading a model ends with a model or with an error that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retryguard_model::Model;

fuzz_target!(|text: &str| {
    if let Err(error) = Model::parse(text) {
        assert!(!error.render("model", text, "").is_empty());
    }
});
