//! Whatever a page of metrics says, reading it ends with lines or with the first that is broken.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retryguard_controller::adapters::source::exposition::lines;

fuzz_target!(|page: &str| {
    let read = lines(page, |_| true, |line| {
        assert!(!line.name.is_empty() && line.series.starts_with(line.name));
    });
    if let Err(broken) = read {
        assert!(broken.line >= 1 && !broken.reason.is_empty());
    }
});
