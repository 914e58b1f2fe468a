//! Algorithm 1 of the RetryGuard paper.

use super::{Decision, Evidence, Reason, Sample, Signal, State, read};
use crate::ratio::Ratio;

/// Two counters and a switch, off at the start.
#[derive(Debug, Clone, Default)]
pub(super) struct Algorithm1 {
    low: u32,
    high: u32,
    on: bool,
}

impl Algorithm1 {
    /// It knows no ramp: a guard that was on the way back is still off.
    pub(super) fn resume(state: State) -> Self {
        Self {
            on: state == State::On,
            ..Self::default()
        }
    }

    pub(super) fn state(&self) -> State {
        if self.on { State::On } else { State::Off }
    }

    pub(super) fn feed(
        &mut self,
        sample: &Sample,
        signal: Signal,
        threshold: Ratio,
        samples: u32,
    ) -> Option<Decision> {
        // The pseudo-code does not define a sample without calls. Its rejection rate is 0/0,
        // and the paper's controller reads that as no rejections.
        let reading = read(signal, sample, Ratio::ONE).unwrap_or(Ratio::ZERO);
        match reading.cmp(&threshold) {
            std::cmp::Ordering::Less => (self.low, self.high) = (self.low.saturating_add(1), 0),
            std::cmp::Ordering::Greater => (self.low, self.high) = (0, self.high.saturating_add(1)),
            std::cmp::Ordering::Equal => (self.low, self.high) = (0, 0),
        }
        let from = self.state();
        let evidence = Evidence {
            signal,
            reading,
            threshold,
            calls: sample.calls,
        };
        let reason = if self.low >= samples {
            self.on = true;
            Reason::Below(evidence)
        } else if self.high >= samples {
            self.on = false;
            Reason::Above(evidence)
        } else {
            return None;
        };
        let to = self.state();
        (from != to).then_some(Decision { from, to, reason })
    }
}
