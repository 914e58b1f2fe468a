//! What the tests share: time, scripted services, servers on loopback.

pub(crate) mod bytes;
pub(crate) mod loopback;
pub(crate) mod scripted;
pub(crate) mod time;

use retryguard::Policy;

/// A policy that must be right.
pub(crate) fn policy(text: &str) -> Policy {
    Policy::parse(text).unwrap_or_else(|mistakes| panic!("{mistakes}\nin:\n{text}"))
}

/// The policy of one service called `it`, with everything off that a test does not ask for, and with waits
/// that can be computed.
pub(crate) fn only(keys: &str) -> Policy {
    policy(&format!(
        "defaults: {{ budget: off, guard: off, breaker: off, bulkhead: off, initialDelay: 100ms, jitter: none }}\n\
         services: {{ it: {{ {keys} }} }}"
    ))
}
