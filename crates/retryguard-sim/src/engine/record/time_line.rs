//! What happened when.

use retryguard_core::{Instant, time::nanos};

use crate::{statistics::Histogram, world::World};

/// The run in steps of equal length.
#[derive(Debug, Clone, Default)]
pub struct TimeLine {
    /// The length of a step, in seconds.
    pub step: f64,
    /// The steps.
    pub steps: Vec<Moment>,
    /// How often guards changed their mind.
    pub changes: u32,
    width: u64,
    services: usize,
    /// The step that was written last, and the nanoseconds that it covers: most events fall into it again.
    present: usize,
    begins: u64,
    ends: u64,
}

/// One step of a time line.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    /// Calls that began.
    pub calls: u32,
    /// Calls that ended well.
    pub successes: u32,
    /// Calls that did not.
    pub failures: u32,
    /// How long those took that ended, in nanoseconds.
    pub latency: Histogram,
    /// Requests that reached each service.
    pub attempts: Vec<u32>,
    /// Those among them that were sent again.
    pub retries: Vec<u32>,
    /// The size of each service at the end of the step.
    pub sizes: Vec<f64>,
    /// Requests that waited at each service then.
    pub waiting: Vec<usize>,
    /// What everything had cost by then.
    pub bill: f64,
    /// The state of breakers and guards towards the focus then.
    pub state: State,
    /// The state of what stands on each edge then.
    pub edges: Vec<EdgeState>,
}

/// The state of what stands on one edge, over all of its callers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EdgeState {
    /// The shares of breakers that are open, and that are half-open; `None` where the policy has none.
    pub breaker: Option<Shares>,
    /// The shares of retries that are held back by guards that are off, and by guards that ramp; `None` where the
    /// policy has none.
    pub guard: Option<Shares>,
}

/// How much of something is shut; the rest flows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shares {
    /// Wholly: open, or off.
    pub shut: f64,
    /// For a trial: half-open, or ramping.
    pub trying: f64,
}

/// The state of what protects the focus, over all of its callers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct State {
    /// The share of breakers that are open.
    pub breaker_open: f64,
    /// The share of retries that guards hold back.
    pub guard_off: f64,
}

impl TimeLine {
    pub(super) fn new(world: &World) -> Self {
        Self {
            step: world.step.as_secs_f64(),
            steps: Vec::new(),
            changes: 0,
            width: nanos(world.step).max(1),
            services: world.services.len(),
            present: 0,
            begins: 0,
            ends: 0,
        }
    }

    /// Whether a time lies in the present step.
    #[inline]
    pub(super) fn is_at(&self, now: Instant) -> bool {
        (self.begins..self.ends).contains(&now.as_nanos())
    }

    #[inline]
    pub(super) fn at(&mut self, now: Instant) -> &mut Moment {
        if !self.is_at(now) {
            self.turn_to(now.as_nanos());
        }
        &mut self.steps[self.present]
    }

    /// The present step: of a time that it is known to cover.
    #[inline]
    pub(super) fn present(&mut self) -> &mut Moment {
        &mut self.steps[self.present]
    }

    #[cold]
    fn turn_to(&mut self, now: u64) {
        self.present = usize::try_from(now / self.width).unwrap_or(usize::MAX);
        self.begins = now / self.width * self.width;
        self.ends = self.begins.saturating_add(self.width);
        while self.present >= self.steps.len() {
            self.steps.push(Moment {
                attempts: vec![0; self.services],
                retries: vec![0; self.services],
                sizes: vec![0.0; self.services],
                waiting: vec![0; self.services],
                ..Moment::default()
            });
        }
    }

    #[inline]
    pub(super) fn on_call_end(&mut self, success: bool, took: u64) {
        let moment = self.present();
        if success {
            moment.successes += 1;
        } else {
            moment.failures += 1;
        }
        moment.latency.add(took);
    }

    /// Adds requests to the present step.
    pub(super) fn add_attempts(&mut self, service: usize, attempts: u32, retries: u32) {
        if let Some(moment) = self.steps.get_mut(self.present) {
            moment.attempts[service] += attempts;
            moment.retries[service] += retries;
        }
    }

    pub(super) fn on_state(
        &mut self,
        now: Instant,
        state: State,
        edges: Vec<EdgeState>,
        bill: f64,
        sizes: impl Iterator<Item = f64>,
        waiting: impl Iterator<Item = usize>,
    ) {
        // The look is taken at the very end of a step, which is the beginning of the next.
        let moment = self.at(Instant::from_nanos(now.as_nanos() - 1));
        moment.state = state;
        moment.edges = edges;
        moment.bill = bill;
        moment.sizes = sizes.collect();
        moment.waiting = waiting.collect();
    }
}
