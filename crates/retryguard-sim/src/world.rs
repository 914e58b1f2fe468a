//! The world that a policy is judged in: a plain description, made by hand or from a scenario file.
//!
//! Everything is an index into one of the lists of [`World`], so that the engine looks nothing up by name.

mod client;
mod fault;
mod scaler;
mod service;

use std::time::Duration;

use retryguard_core::Instant;

pub use client::{Arrivals, Client, Profile};
pub use fault::{Effect, Fault};
pub use scaler::{Hpa, Limits, Metric, Scaler, TargetTracking};
pub use service::{Effects, LoadErrors, Outbox, Pool, Price, QueueOrder, Service, Shedding, Station, Step};

use crate::distribution::Distribution;

/// A whole world, without the policies that are compared in it.
#[derive(Debug, Clone)]
pub struct World {
    /// Its name.
    pub name: String,
    /// When arrivals end.
    pub duration: Duration,
    /// How long what is under way then may take to end.
    pub drain: Duration,
    /// What is counted.
    pub measure: Measure,
    /// The services.
    pub services: Vec<Service>,
    /// Who calls from outside.
    pub clients: Vec<Client>,
    /// Which service calls which.
    pub edges: Vec<Edge>,
    /// What goes wrong, and when.
    pub faults: Vec<Fault>,
    /// The service that the headline numbers are about.
    pub focus: usize,
    /// The width of a step of the time lines.
    pub step: Duration,
}

/// Which calls are counted: those that begin between the two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    /// The beginning.
    pub from: Instant,
    /// The end.
    pub until: Instant,
    /// Ends earlier, as soon as this service has this capacity: a measurement "until it has scaled".
    pub scaled: Option<(usize, f64)>,
}

/// A way that calls take.
#[derive(Debug, Clone)]
pub struct Edge {
    /// Who calls; the name that a table shows.
    pub from: String,
    /// The service that is called.
    pub to: usize,
    /// How long a message travels, each way.
    pub network: Distribution,
    /// How long the caller waits for one attempt, where the policy itself does not say.
    pub attempt_timeout: Option<Duration>,
    /// Whether its callers know the replicas of the service, and send each attempt to one of them.
    pub knows_endpoints: bool,
    /// The policy on it: the one that is compared, or always the same.
    pub policy: EdgePolicy,
}

/// Which policy stands on an edge.
#[derive(Debug, Clone, PartialEq)]
pub enum EdgePolicy {
    /// The policy that is compared.
    Compared,
    /// Always this one, by its name among the policies of the run.
    Fixed(String),
}
