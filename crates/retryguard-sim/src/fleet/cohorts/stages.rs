//! The waits before retries, asked of the back-off machine itself.

use retryguard_core::{
    Backoff,
    backoff::Jitter,
    chance::{Highest, Lowest},
};
use std::time::Duration;

use super::{CohortError, Fleet, kernel::Wait};

/// The wait before each retry, as far as retries differ.
#[derive(Debug)]
pub(super) struct Stages {
    pub(super) waits: Vec<Wait>,
    pub(super) after_last: AfterLast,
}

/// The most retries that are distinguished; later ones wait as this one does. A wait that doubles has left every run
/// by then; only one that grows linearly and may be drawn as zero comes here.
const MOST: u32 = 64;

/// What follows a failure in the last stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterLast {
    /// The same wait again.
    Again,
    /// The schedule has ended: the client goes on to its next regular request.
    GivesUp,
    /// A wait longer than the run.
    BeyondTheRun,
}

impl Stages {
    /// Every jitter but the decorrelated one is uniform between the two ends that the machine gives for the lowest
    /// and the highest draw.
    pub(super) fn new(fleet: &Fleet) -> Result<Self, CohortError> {
        let mut stages = Self {
            waits: Vec::new(),
            after_last: AfterLast::GivesUp,
        };
        let Some(backoff) = fleet.behaviour.retry else {
            return Ok(stages);
        };
        if backoff.jitter == Jitter::Decorrelated {
            return Err(CohortError::Decorrelated);
        }
        let mut before = None;
        for retry in 1..=MOST {
            let ends = ends(&backoff, retry);
            let Some((low, high)) = ends else { break };
            if ends == before {
                stages.after_last = AfterLast::Again;
                break;
            }
            if low > fleet.duration {
                stages.after_last = AfterLast::BeyondTheRun;
                break;
            }
            let wait =
                Wait::new(low, high, fleet.step).ok_or(CohortError::Step("every wait without jitter"))?;
            stages.waits.push(wait);
            before = ends;
            if retry == MOST {
                stages.after_last = AfterLast::Again;
            }
        }
        Ok(stages)
    }
}

fn ends(backoff: &Backoff, retry: u32) -> Option<(Duration, Duration)> {
    Some((
        backoff.delay(retry, Duration::ZERO, &mut Lowest)?,
        backoff.delay(retry, Duration::ZERO, &mut Highest)?,
    ))
}
