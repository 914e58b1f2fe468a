//! Whatever the text, reading a scenario or a file of fleets ends with one or with mistakes that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retryguard_sim::scenario::{Fleets, Scenario};

fuzz_target!(|text: &str| {
    // A scenario may name other files: there is none.
    let mut load = |path: &str| Err(format!("{path} is not there"));
    if let Err(mistakes) = Scenario::parse(text, "fuzz", &mut load) {
        assert!(!mistakes.to_string().is_empty());
    }
    if let Err(mistakes) = Fleets::parse(text, "fuzz") {
        assert!(!mistakes.to_string().is_empty());
    }
});
