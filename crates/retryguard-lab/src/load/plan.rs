//! What a driver is asked to do. All durations are as described; the system's scale shortens them.

use std::time::Duration;

use crate::faults::Fault;

/// What a driver is asked to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Who sends.
    pub shape: Shape,
    /// For how long.
    pub duration: Duration,
    /// What breaks, and when.
    pub faults: Vec<Window>,
    /// The share of orders that are sent a second time with the same key.
    pub replays: f64,
    /// How long a user waits for an answer.
    pub patience: Duration,
    /// How many attempts a user makes.
    pub user_attempts: u32,
    /// Of which orders the latencies are kept apart: those to be sent from one moment until another.
    pub measured: Option<(Duration, Duration)>,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// So many orders a second, at random moments, whatever became of those before. The rate is a real one and
    /// not shortened: it is the capacity that it must be compared with.
    Open {
        /// Orders a second.
        rate: f64,
    },
    /// So many users: each waits for an answer and thinks before the next order.
    Closed {
        /// How many.
        users: usize,
        /// The shortest and the longest thought.
        think: (Duration, Duration),
    },
}

/// A fault with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// What breaks.
    pub fault: Fault,
    /// When it begins, from the start of the load.
    pub from: Duration,
    /// When it ends.
    pub until: Duration,
}

impl Plan {
    /// The described steady load: 20 users who think for half a second to one and a half, 10 % replays.
    #[must_use]
    pub const fn steady(duration: Duration) -> Self {
        Self {
            shape: Shape::Closed {
                users: 20,
                think: (Duration::from_millis(500), Duration::from_millis(1500)),
            },
            duration,
            faults: Vec::new(),
            replays: 0.1,
            patience: Duration::from_secs(60),
            user_attempts: 1,
            measured: None,
        }
    }

    /// An open load.
    #[must_use]
    pub fn open(rate: f64, duration: Duration) -> Self {
        Self {
            shape: Shape::Open { rate },
            ..Self::steady(duration)
        }
    }

    /// With a fault from one moment until another.
    #[must_use]
    pub fn with(mut self, fault: Fault, from: Duration, until: Duration) -> Self {
        self.faults.push(Window { fault, from, until });
        self
    }

    /// The window of a kind of fault, if the plan has one.
    pub(super) fn window(&self, kind: crate::faults::Kind) -> Option<&Window> {
        self.faults.iter().find(|window| window.fault.kind == kind)
    }
}
