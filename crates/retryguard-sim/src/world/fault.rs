//! What goes wrong.

use std::time::Duration;

use retryguard_core::Instant;

use crate::distribution::Distribution;

/// Something that goes wrong with a service for a while.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The service.
    pub service: usize,
    /// What happens to it.
    pub effect: Effect,
    /// When it begins.
    pub from: Instant,
    /// When it ends.
    pub until: Instant,
    /// Comes back in this rhythm for as long as `until` allows: on for the second, from the beginning of
    /// every first.
    pub rhythm: Option<(Duration, Duration)>,
}

/// What happens to a service.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Nothing gets through.
    Outage,
    /// This share of requests fails.
    Errors(f64),
    /// The work takes so many times as long.
    Slow(f64),
    /// Every request takes so much longer.
    Delay(Distribution),
    /// Only this share of its workers or capacity is left.
    Capacity(f64),
    /// So many of its replicas answer with an error at once; the balancer does not know.
    BrokenReplicas(u32),
}
