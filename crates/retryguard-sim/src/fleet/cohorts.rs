//! Clients as counts.
//!
//! Time is cut into the steps of the [`Series`]. Clients that wait for the same step in the same stage (how many
//! retries they have behind them) are exchangeable: only their number is kept, how many of them fail is one binomial
//! draw, and where their next waits end is one multinomial draw. So the cost is that of the steps, not of the
//! clients.
//!
//! Two crowds are kept for each step: clients on its *edge*, who act at the very same moment, and clients *inside*,
//! spread uniformly over it. A wait without jitter leaves a client in its cohort; a jittered one puts it inside. The
//! one approximation is that clients inside are again taken as uniform after every jittered wait, where in truth
//! their density may slope within the step. It is nothing for a fleet that is spread, and small for one that acts as
//! one if the step is well below the spread of its shortest wait: 1 s against 5 to 15 s cannot be distinguished from the truth,
//! 10 s can.

mod kernel;
mod stages;

use std::fmt;

use retryguard_core::{Instant, time::nanos};

use self::{
    kernel::{Kernel, Wait},
    stages::{AfterLast, Stages},
};
use super::{Fleet, Pace, Series, Start, binomial};
use crate::streams::{Purpose, Seed, Stream};

/// Why a fleet cannot be carried as counts, and what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CohortError {
    /// A moment that counts cannot resolve.
    Step(&'static str),
    /// Waits that depend on the waits before.
    Decorrelated,
}

impl fmt::Display for CohortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(what) => write!(
                f,
                "the step must divide {what}; choose a step that does, or carry individuals"
            ),
            Self::Decorrelated => f.write_str(
                "decorrelated jitter remembers the wait before, which a count cannot; carry individuals",
            ),
        }
    }
}

impl std::error::Error for CohortError {}

/// Whether a fleet can be carried as counts.
///
/// # Errors
/// [`CohortError`] says why not.
pub fn check(fleet: &Fleet) -> Result<(), CohortError> {
    let (step, period) = (nanos(fleet.step), nanos(fleet.behaviour.period));
    let aligned = |nanos: u64| nanos.is_multiple_of(step);
    if step == 0 || !aligned(period) || !aligned(nanos(fleet.duration)) {
        return Err(CohortError::Step("the period and the duration"));
    }
    let mut ends = fleet.failures.iter().flat_map(|bad| [bad.from, bad.until]);
    if !ends.all(|at| at == Instant::NEVER || aligned(at.as_nanos())) {
        return Err(CohortError::Step("the beginning and the end of every bad time"));
    }
    Stages::new(fleet).map(|_| ())
}

/// Runs a fleet of any size.
///
/// # Errors
/// [`CohortError`] where the fleet's waits or bad times do not fit its steps.
pub fn run(fleet: &Fleet, seed: Seed) -> Result<Series, CohortError> {
    let mut run = Run::new(fleet, seed)?;
    run.start();
    for step in 0..run.steps {
        run.step(step);
    }
    Ok(run.series)
}

/// Clients that wait for one step in one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cohort {
    edge: u64,
    inside: u64,
}

impl Cohort {
    const fn count(self) -> u64 {
        self.edge + self.inside
    }
}

struct Run<'f> {
    fleet: &'f Fleet,
    series: Series,
    seed: Seed,
    steps: usize,
    steps_a_period: usize,
    /// What a client does between regular requests, where that is a wait.
    regular: Wait,
    stages: Stages,
    /// By stage, then by step.
    waiting: Vec<Vec<Cohort>>,
    /// Clients that will draw their moment of a slot when it begins, by slot.
    of_slot: Vec<u64>,
}

impl<'f> Run<'f> {
    fn new(fleet: &'f Fleet, seed: Seed) -> Result<Self, CohortError> {
        check(fleet)?;
        let (step, period) = (nanos(fleet.step), nanos(fleet.behaviour.period));
        let regular = match fleet.behaviour.pace {
            Pace::Jittered { low, high } => Wait::new(
                low.of(fleet.behaviour.period),
                high.of(fleet.behaviour.period),
                fleet.step,
            ),
            Pace::Fixed | Pace::Slots | Pace::SlotsTruncatedLate => {
                Wait::new(fleet.behaviour.period, fleet.behaviour.period, fleet.step)
            }
        };
        let stages = Stages::new(fleet)?;
        let steps = whole(nanos(fleet.duration) / step);
        let steps_a_period = whole(period / step);
        Ok(Self {
            fleet,
            series: Series::new(fleet),
            seed,
            steps,
            steps_a_period,
            regular: regular.ok_or(CohortError::Step("the period"))?,
            waiting: vec![vec![Cohort::default(); steps]; stages.waits.len() + 1],
            stages,
            of_slot: vec![0; steps / steps_a_period + 2],
        })
    }

    fn start(&mut self) {
        let all = self.fleet.clients;
        let mut stream = self.seed.stream(u64::MAX, Purpose::Cohort);
        match (self.fleet.behaviour.start, self.fleet.behaviour.pace) {
            (Start::AtOnce, _) | (Start::Settled, Pace::SlotsTruncatedLate) => {
                self.waiting[0][0].edge = all;
            }
            (Start::AfterAWait, _) => {
                let cohort = Cohort { edge: all, inside: 0 };
                self.rest(cohort, 0, &mut stream);
            }
            (Start::Settled, Pace::Slots) => self.of_slot[0] = all,
            (Start::Settled, Pace::Fixed) => {
                let anywhere = Kernel::uniform(0.0, f64::from(small(self.steps_a_period)));
                anywhere.scatter(all, 0, &mut self.waiting[0], &mut stream);
            }
            (Start::Settled, Pace::Jittered { low, high }) => {
                let period = f64::from(small(self.steps_a_period));
                let rest = Kernel::rest_of(low.as_f64() * period, high.as_f64() * period);
                rest.scatter(all, 0, &mut self.waiting[0], &mut stream);
            }
        }
    }

    fn step(&mut self, step: usize) {
        let mut stream = self.seed.stream(step as u64, Purpose::Cohort);
        if step.is_multiple_of(self.steps_a_period) {
            let due = std::mem::take(&mut self.of_slot[step / self.steps_a_period]);
            let anywhere = Kernel::uniform(0.0, f64::from(small(self.steps_a_period)));
            anywhere.scatter(due, step, &mut self.waiting[0], &mut stream);
        }
        let now = Instant::ZERO.after(self.fleet.step.saturating_mul(small(step)));
        let failure = self.fleet.failure_at(now);
        // A jittered wait may end within the step it began in, so repeat until no client is left.
        while let Some(stage) = (0..self.waiting.len()).find(|stage| self.waiting[*stage][step].count() > 0) {
            let cohort = std::mem::take(&mut self.waiting[stage][step]);
            self.attempt(stage, step, cohort, failure, &mut stream);
        }
    }

    fn attempt(&mut self, stage: usize, step: usize, cohort: Cohort, failure: f64, stream: &mut Stream) {
        let failed = Cohort {
            edge: binomial::draw(cohort.edge, failure, stream),
            inside: binomial::draw(cohort.inside, failure, stream),
        };
        let bin = self.series.bin_mut(step);
        *(if stage == 0 {
            &mut bin.first
        } else {
            &mut bin.retries
        }) += cohort.count();
        bin.failed += failed.count();
        let succeeded = Cohort {
            edge: cohort.edge - failed.edge,
            inside: cohort.inside - failed.inside,
        };
        self.rest(succeeded, step, stream);
        let next = match self.stages.after_last {
            _ if stage < self.stages.waits.len() => stage + 1,
            AfterLast::Again => stage,
            AfterLast::GivesUp => return self.rest(failed, step, stream),
            // They do not come back before the run ends.
            AfterLast::BeyondTheRun => return,
        };
        self.stages.waits[next - 1].place(failed, step, &mut self.waiting[next], stream);
    }

    /// Sends clients that are done with a call to their next regular request.
    fn rest(&mut self, cohort: Cohort, step: usize, stream: &mut Stream) {
        match self.fleet.behaviour.pace {
            Pace::Fixed | Pace::Jittered { .. } => {
                self.regular.place(cohort, step, &mut self.waiting[0], stream);
            }
            Pace::Slots => self.of_slot[step / self.steps_a_period + 1] += cohort.count(),
            Pace::SlotsTruncatedLate => {
                let period = self.steps_a_period;
                let (slot, phase) = (step / period, f64::from(small(step % period)));
                // One to two periods after a moment in this slot lies in the second next one with the probability
                // that the moment has of its own slot behind it.
                let late = |phase: f64| phase / f64::from(small(period));
                let skip = binomial::draw(cohort.edge, late(phase), stream)
                    + binomial::draw(cohort.inside, late(phase + 0.5), stream);
                for (slot, count) in [(slot + 1, cohort.count() - skip), (slot + 2, skip)] {
                    if let Some(next) = self.waiting[0].get_mut(slot * period) {
                        next.edge += count;
                    }
                }
            }
        }
    }
}

/// A number of steps, which memory bounds far below this.
fn whole(steps: u64) -> usize {
    usize::try_from(steps).unwrap_or(usize::MAX)
}

fn small(steps: usize) -> u32 {
    u32::try_from(steps).unwrap_or(u32::MAX)
}
