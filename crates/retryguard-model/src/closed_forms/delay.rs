//! The waits of a call under exponential back-off: Eqs. 6–8 of the paper.

use super::{Attempts, BadInput, series::geometric};

/// The expected sum of a call's waits, where the i-th wait is 2^(i−1) first waits and every attempt is rejected
/// with the same probability p̃.
#[derive(Debug, Clone, Copy)]
pub struct Delay {
    rejection: f64,
    attempts: Attempts,
}

impl Delay {
    /// # Errors
    /// [`BadInput::Share`] if the rejection is not between 0 and 1.
    pub fn new(rejection: f64, attempts: Attempts) -> Result<Self, BadInput> {
        if (0.0..=1.0).contains(&rejection) {
            Ok(Self::of_rejection(rejection, attempts))
        } else {
            Err(BadInput::Share(rejection))
        }
    }

    /// For rejections that were computed as shares.
    pub(super) fn of_rejection(rejection: f64, attempts: Attempts) -> Self {
        Self { rejection, attempts }
    }

    /// Eqs. 6 and 7 added up: p((2p̃)^k − 1)/(2p̃ − 1) − (1 − p̃^k) + p̃^k(2^k − 1). A call that fails for good is
    /// charged k waits, as those equations do.
    ///
    /// Evaluated as p̃(1 + 2p̃ + … + (2p̃)^(k−1)), which is the same: the i-th wait of 2^(i−1) is waited by the calls
    /// that were rejected i times, p̃^i of them. Nothing cancels in it, however small p̃ is.
    #[must_use]
    pub fn expected(&self) -> f64 {
        self.rejection * geometric(2.0 * self.rejection, self.attempts.get())
    }

    /// The same with the k − 1 waits that k attempts have between them: 2^(k−1) − 1 in the last term. What a
    /// caller of ours waits.
    #[must_use]
    pub fn last_wait_omitted(&self) -> f64 {
        self.rejection * geometric(2.0 * self.rejection, self.attempts.get() - 1)
    }

    /// Eq. 8 as it is printed: 2p̃p((2p̃)^k − 1)/(2p̃ − 1) − p̃p(p̃^k − 1)/(p̃ − 1) + p̃^k(2^k − 1). Its sums run
    /// from 1 to k where Eq. 6 runs from 0 to k − 1, so the outcome of k retries is counted twice.
    #[must_use]
    pub fn printed(&self) -> f64 {
        let (q, k) = (self.rejection, self.attempts.get());
        let p = 1.0 - q;
        2.0 * q * p * geometric(2.0 * q, k) - q * p * geometric(q, k)
            + q.powf(f64::from(k)) * (f64::from(k).exp2() - 1.0)
    }
}
