//! Policies that change while the program runs.

mod file;
mod http;
mod token;

use retryguard::remote::LivePolicy;

/// A policy that can be distinguished from others by its number of retries.
pub(super) fn text(retries: u8) -> String {
    format!(
        "remotePeriod: 1s\nservices: {{ it: {{ maxRetries: {retries}, initialDelay: 1ms, budget: off, guard: off, \
         breaker: {{ trip: consecutive, failures: 3, openFor: 1h }} }} }}\n"
    )
}

pub(super) const WRONG: &str = "services: { it: { maxRetires: 3, initialDelay: soon } }\n";

pub(super) fn retries(live: &LivePolicy) -> u8 {
    live.policy().service("it").target.call.retries
}
