//! Chance, as the machines see it.

use std::time::Duration;

use crate::{ratio::Ratio, time::nanos};

/// Where a machine's draws come from. The driver implements it: over a fast generator in production, over a
/// stream keyed by seed and entity in the simulator, by enumeration in an exhaustive test.
///
/// Two kinds of draw and not a bare stream of bits, so that an enumerating driver knows what each draw can
/// change: a yes or no has two cases, a number has its two ends.
pub trait Chance {
    /// A number drawn uniformly from `0..bound`; zero where `bound` is zero.
    fn below(&mut self, bound: u64) -> u64;

    /// Whether an event of probability `share` happens. Never asked of the driver's generator where the
    /// answer is certain, so that a policy without jitter draws nothing.
    #[inline]
    fn happens(&mut self, share: Ratio) -> bool {
        if share >= Ratio::ONE {
            return true;
        }
        share > Ratio::ZERO && self.below(Ratio::PARTS) < share.parts()
    }

    /// A duration drawn uniformly from zero to `span`, both ends included, to the nanosecond.
    #[inline]
    fn up_to(&mut self, span: Duration) -> Duration {
        Duration::from_nanos(self.nanos_up_to(nanos(span)))
    }

    /// The same in whole nanoseconds.
    #[inline]
    fn nanos_up_to(&mut self, span: u64) -> u64 {
        if span == 0 {
            return 0;
        }
        self.below(span.saturating_add(1))
    }

    /// The delay before a retry, in nanoseconds: the policy's, which is handed in with its jitter, unless the driver has
    /// one of its own. Not a draw, and here because the driver answers.
    #[inline]
    fn delay(&mut self, _retry: u32, policy: u64) -> u64 {
        policy
    }
}

impl<C: Chance + ?Sized> Chance for &mut C {
    fn below(&mut self, bound: u64) -> u64 {
        (**self).below(bound)
    }

    fn happens(&mut self, share: Ratio) -> bool {
        (**self).happens(share)
    }

    fn delay(&mut self, retry: u32, policy: u64) -> u64 {
        (**self).delay(retry, policy)
    }
}

/// Draws that always come out at the low end: a machine driven by it never jitters upwards and never
/// rejects by chance. For tests and for callers that have switched every draw off.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lowest;

impl Chance for Lowest {
    fn below(&mut self, _bound: u64) -> u64 {
        0
    }

    fn happens(&mut self, share: Ratio) -> bool {
        share >= Ratio::ONE
    }
}

/// Draws that always come out at the high end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Highest;

impl Chance for Highest {
    fn below(&mut self, bound: u64) -> u64 {
        bound.saturating_sub(1)
    }

    fn happens(&mut self, share: Ratio) -> bool {
        share > Ratio::ZERO
    }
}
