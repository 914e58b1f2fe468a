//! What a policy says about endpoints.

use std::time::Duration;

use crate::ratio::Ratio;

/// When an endpoint is left out, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Failures in a row after which an endpoint is left out while its peers succeed.
    pub in_a_row: u32,
    /// How many times the failure share of its peers an endpoint's own must be.
    pub factor: Ratio,
    /// The attempts after which an endpoint's failure share is used.
    pub attempts: u32,
    /// How long an endpoint is left out the first time.
    pub out_for: Duration,
    /// The longest time; each further time doubles the one before, up to this.
    pub out_for_at_most: Duration,
    /// The share of the endpoints that may be out at once, below one.
    pub most_out: Ratio,
}

impl Default for Settings {
    /// Five in a row (the value of Envoy and Finagle), or three times the share of the peers over ten attempts; out for
    /// three seconds, at most thirty; at most half.
    fn default() -> Self {
        Self {
            in_a_row: 5,
            factor: Ratio::from_parts(3 * Ratio::PARTS),
            attempts: 10,
            out_for: Duration::from_secs(3),
            out_for_at_most: Duration::from_secs(30),
            most_out: Ratio::percent(50),
        }
    }
}
