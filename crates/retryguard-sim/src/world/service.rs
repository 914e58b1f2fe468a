//! Services and how they work.

use std::time::Duration;

use retryguard_core::{FailureKind, shed};

use super::Scaler;
use crate::distribution::Distribution;

/// A service.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its name, which policies know it by.
    pub name: String,
    /// How requests are worked on.
    pub station: Station,
    /// Which of the waiting requests is next.
    pub queue_order: QueueOrder,
    /// how long it takes to reject a request.
    pub rejection_time: Duration,
    /// How much of a worker's time turning a request away costs, taken from the work on others.
    pub rejection_work: Duration,
    /// The share of requests that fail at random, whatever the load.
    pub errors: f64,
    /// What such a failure is.
    pub error_kind: FailureKind,
    /// Failures that come from load.
    pub load_errors: Option<LoadErrors>,
    /// What doing a request twice does.
    pub effects: Effects,
    /// Whether it sheds load before it works on it.
    pub shedding: Shedding,
    /// What it calls to serve a request, after its own work, step by step.
    pub steps: Vec<Step>,
    /// Whether all steps go out at once instead of one after the other.
    pub parallel: bool,
    /// Whether a request keeps its worker while it waits for what it calls.
    pub blocking: bool,
    /// Connections for what it calls, if they are limited.
    pub pool: Option<Pool>,
    /// Whether a request that no caller waits for any more is dropped before it is worked on.
    pub notices_cancel: bool,
    /// Whether a request is dropped before it is worked on when the deadline that it carries has passed. A server
    /// without our layer does not read that deadline.
    pub drops_expired: bool,
    /// How far the clock of each of its replicas is off the true time, ahead or behind with equal chance.
    pub clock_skew: Distribution,
    /// What grows and shrinks it.
    pub scaler: Option<Scaler>,
    /// What it costs.
    pub price: Price,
}

/// How requests are worked on.
#[derive(Debug, Clone, PartialEq)]
pub enum Station {
    /// Replicas with workers and one queue before them.
    Workers {
        /// Replicas at the start.
        replicas: u32,
        /// Requests that each works on at once.
        workers: u32,
        /// Requests that may wait; `None` for any number.
        queue: Option<u32>,
        /// How long the work takes.
        time: Distribution,
    },
    /// So many requests a second, and what was not used is saved up (a table of provisioned capacity).
    Capacity {
        /// Requests a second.
        per_second: f64,
        /// How many seconds of unused capacity are kept.
        burst: Duration,
        /// How long the work takes.
        time: Distribution,
    },
    /// An instance for every request (functions as a service).
    Instances {
        /// Instances that may run at once.
        most: u32,
        /// Instances that may be started in ten seconds.
        new_per_ten_seconds: u32,
        /// How long a new instance takes to start.
        start: Distribution,
        /// How long the work takes, without what is called.
        time: Distribution,
        /// A request is killed after this time.
        timeout: Option<Duration>,
    },
}

/// Which of the waiting requests is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueOrder {
    /// The one that came first.
    #[default]
    OldestFirst,
    /// The one that came last. A full queue turns its oldest request away.
    NewestFirst,
    /// The one that came first, and requests are dropped while waits stay above a target (CoDel).
    Codel {
        /// The wait that is accepted.
        target: Duration,
        /// How long waits may be longer.
        interval: Duration,
    },
}

/// Whether a service sheds load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shedding {
    /// It does not.
    Off,
    /// By the rule that the policy on the way to it gives its servers, if it gives one.
    ByPolicy,
    /// By the rule of the server layer, for every caller: the one that the policy gives, and the default policy's
    /// where the policy is not a file of ours.
    Layer,
    /// By this rule, whatever the policy.
    By(shed::Settings),
}

/// Errors whose probability rises with load, from nothing at `from` to `most` at `to`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadErrors {
    /// The utilisation at which they begin.
    pub from: f64,
    /// The utilisation at which they are worst.
    pub to: f64,
    /// Their probability there.
    pub most: f64,
}

impl LoadErrors {
    /// Their probability at a utilisation.
    #[must_use]
    pub fn at(self, utilisation: f64) -> f64 {
        self.most * ((utilisation - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// What doing a request twice does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effects {
    /// Nothing: reads.
    None,
    /// Each time it is done counts, so that doubles can be counted.
    Counted,
    /// Idempotency keys are honoured: the second time gives the answer of the first.
    Keyed,
    /// As `Keyed` where the policy on the way to it adds keys, and as `Counted` otherwise.
    ByPolicy,
}

/// Something that a service calls to serve a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The ways that a request may take, with their weights; `None` for a share that calls no service.
    pub choices: Vec<(f64, Option<usize>)>,
    /// How many such calls are made, all at once.
    pub times: u32,
    /// Whether the request can be served without it.
    pub optional: bool,
    /// The call may be made later, by the worker that empties the service's outbox.
    pub outbox: Option<Outbox>,
}

/// A call that is written down together with the effect of a request, and made afterwards: it neither slows nor
/// fails the request, and is made at least once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outbox {
    /// Under every policy; otherwise only under one that has an outbox.
    pub always: bool,
    /// How often the outbox is looked into.
    pub poll: Duration,
    /// How many calls are begun at each look.
    pub batch: u32,
    /// The share of deliveries that are made again because it was not recorded that they had been made.
    pub redelivered: f64,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            always: false,
            poll: Duration::from_millis(200),
            batch: 100,
            redelivered: 0.0,
        }
    }
}

/// Connections for what a service calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// How many.
    pub size: u32,
    /// Whether each called service has as many of its own; otherwise all share them.
    pub per_target: bool,
}

/// What a service costs, in any one currency.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Price {
    /// For a million requests that were worked on.
    pub per_million_requests: f64,
    /// For a second of an instance at work, rounded up to the millisecond for each request.
    pub per_instance_second: f64,
    /// For an hour of one unit of capacity.
    pub per_capacity_hour: f64,
    /// For an hour of a replica.
    pub per_replica_hour: f64,
}

impl Station {
    /// How long the work takes.
    #[inline]
    #[must_use]
    pub const fn time(&self) -> &Distribution {
        let (Self::Workers { time, .. } | Self::Capacity { time, .. } | Self::Instances { time, .. }) = self;
        time
    }

    /// What the station can do in a second, on average, and `None` where it has no limit of its own.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        match self {
            Self::Workers {
                replicas,
                workers,
                time,
                ..
            } => Some(f64::from(*replicas) * f64::from(*workers) / time.mean()),
            Self::Capacity { per_second, .. } => Some(*per_second),
            Self::Instances { .. } => None,
        }
    }
}
