//! What grows and shrinks a service.

use std::time::Duration;

/// An autoscaler.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaler {
    /// Target tracking of provisioned capacity, as DynamoDB does it.
    TargetTracking(TargetTracking),
    /// The horizontal pod autoscaler.
    Hpa(Hpa),
}

/// Target tracking of provisioned capacity.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetTracking {
    /// The share of the capacity that should be used.
    pub target: f64,
    /// How long one reading of the consumption covers.
    pub period: Duration,
    /// Readings above the target that raise the capacity.
    pub up_after: u32,
    /// Readings below the target that lower it.
    pub down_after: u32,
    /// The readings must lie this far below the target, as a share of it, to count as below.
    pub down_margin: f64,
    /// How long an update takes; until then the old capacity holds.
    pub lag: Duration,
    /// Whether what was served from saved-up capacity enters the readings.
    pub burst_counts: bool,
    /// Decreases allowed in the first hour; after that one an hour.
    pub early_decreases: u32,
    /// The bounds of the capacity.
    pub limits: Limits,
}

/// The horizontal pod autoscaler.
#[derive(Debug, Clone, PartialEq)]
pub struct Hpa {
    /// What is read.
    pub metric: Metric,
    /// What the reading should be, on average over the replicas.
    pub target: f64,
    /// How often it decides.
    pub period: Duration,
    /// Nothing is done while the reading is within this share of the target.
    pub tolerance: f64,
    /// Pods that may be added in a period.
    pub up_pods: u32,
    /// The share of the present pods that may be added in a period; the larger of the two holds.
    pub up_share: f64,
    /// The smallest recommendation of this time is followed upwards.
    pub up_window: Duration,
    /// The share of the present pods that may be taken away in a period.
    pub down_share: f64,
    /// The largest recommendation of this time is followed downwards.
    pub down_window: Duration,
    /// How long a new pod takes to be ready.
    pub ready_after: Duration,
    /// The bounds of the number of pods.
    pub limits: Limits,
}

/// What a pod autoscaler reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// The share of the workers that are busy.
    Utilisation,
    /// Requests a second for each replica.
    RequestsPerReplica,
    /// Requests inside (worked on or waiting) for each replica.
    InFlight,
}

/// Bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Default for TargetTracking {
    fn default() -> Self {
        Self {
            target: 0.7,
            period: Duration::from_secs(60),
            up_after: 2,
            down_after: 15,
            down_margin: 0.2,
            lag: Duration::from_secs(30),
            burst_counts: false,
            early_decreases: 4,
            limits: Limits {
                least: 1.0,
                most: 40_000.0,
            },
        }
    }
}

impl Default for Hpa {
    fn default() -> Self {
        Self {
            metric: Metric::Utilisation,
            target: 0.5,
            period: Duration::from_secs(15),
            tolerance: 0.1,
            up_pods: 4,
            up_share: 1.0,
            up_window: Duration::ZERO,
            down_share: 1.0,
            down_window: Duration::from_secs(300),
            ready_after: Duration::from_secs(30),
            limits: Limits {
                least: 1.0,
                most: 1000.0,
            },
        }
    }
}
