//! Whatever the text, reading the controller's configuration ends with one or with mistakes that can be shown.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use retryguard_controller::config::Config;

fuzz_target!(|text: &str| {
    // A folder that does not exist: files that the text names are not read.
    if let Err(mistakes) = Config::parse(text, Path::new("/nonexistent")) {
        assert!(!mistakes.to_string().is_empty());
    }
});
