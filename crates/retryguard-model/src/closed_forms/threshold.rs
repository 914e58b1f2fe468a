//! Where to set the guard: the share of rejected attempts above which retries are switched off.

use super::{Attempts, Below, Buffer, Load, queue::single_server_rejection};

/// A threshold on the share of rejected attempts, and the two numbers it stands between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// What the guard sees with retries on at the highest load that counts as normal. A threshold below it would
    /// switch retries off on a healthy day.
    pub above: f64,
    /// What the guard sees with retries off at the lowest load that counts as overload. A threshold above it
    /// would see its own remedy as recovery, and switch on and off for ever.
    pub below: f64,
    /// The load behind `above`.
    pub normal: Load,
    /// The load behind `below`.
    pub overload: Load,
}

impl Threshold {
    /// The paper takes any transition between 95 % and 110 % load as a good one.
    pub const NORMAL: Load = Load::of(0.95);
    /// See [`Threshold::NORMAL`].
    pub const OVERLOAD: Load = Load::of(1.1);

    /// The threshold for a target that must be held apart at these two loads, widened to the load in question
    /// where that lies between them.
    #[must_use]
    pub fn new(load: Load, attempts: Attempts, buffer: Buffer) -> Self {
        let (mut normal, mut overload) = (Self::NORMAL, Self::OVERLOAD);
        if load <= Load::CAPACITY {
            normal = if load > normal { load } else { normal };
        } else {
            overload = if load < overload { load } else { overload };
        }
        Self {
            above: Below::new(normal, attempts, buffer).with_feedback().rejection,
            below: single_server_rejection(overload, buffer),
            normal,
            overload,
        }
    }

    /// The middle between the two, or `None` where no threshold holds them apart: the buffer is so small that
    /// normal traffic with retries is rejected as often as overload without them.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        (self.above < self.below).then(|| f64::midpoint(self.above, self.below))
    }
}
