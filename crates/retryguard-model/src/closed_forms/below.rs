//! Up to capacity: rejections come from a finite buffer that happens to be full.

use super::{
    Attempts, Buffer, Delay, Load,
    queue::single_server_rejection,
    series::{geometric, without_the_first},
};

/// A target with a buffer, and calls that retry when it is full.
#[derive(Debug, Clone, Copy)]
pub struct Below {
    load: Load,
    attempts: Attempts,
    buffer: Buffer,
}

/// Rejection once the load by retries is itself counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feedback {
    /// The share of attempts rejected.
    pub rejection: f64,
    /// Retries per call.
    pub retries_per_call: f64,
    /// The load by all attempts together.
    pub total_load: f64,
}

impl Below {
    /// Any load is taken: above capacity the answers are those of a finite buffer that is nearly always full.
    #[must_use]
    pub fn new(load: Load, attempts: Attempts, buffer: Buffer) -> Self {
        Self {
            load,
            attempts,
            buffer,
        }
    }

    /// Eq. 9 at the offered load: what a call meets where retries are too rare to matter.
    #[must_use]
    pub fn rejection(&self) -> f64 {
        single_server_rejection(self.load, self.buffer)
    }

    /// p̃ + … + p̃^(k−1): a retry is sent only after a rejection, and finds the buffer full with the same
    /// probability again.
    #[must_use]
    pub fn retries_per_call(&self) -> f64 {
        without_the_first(self.rejection(), self.attempts.get())
    }

    /// k·p̃, with which the paper draws Fig. 7. It would be right for k immediate retries into a buffer that
    /// stays full meanwhile.
    #[must_use]
    pub fn printed_retries_per_call(&self) -> f64 {
        f64::from(self.attempts.get()) * self.rejection()
    }

    /// ρ(1 + p̃ + … + p̃^(k−1)).
    #[must_use]
    pub fn total_load(&self) -> f64 {
        self.load.get() * geometric(self.rejection(), self.attempts.get())
    }

    /// How long a call waits between its attempts.
    #[must_use]
    pub fn delay(&self) -> Delay {
        Delay::of_rejection(self.rejection(), self.attempts)
    }

    /// The rejection p̃ that explains itself: the buffer is offered ρ(1 + p̃ + … + p̃^(k−1)) and rejects p̃ of it.
    ///
    /// Close to capacity this is far from Eq. 9, because retries fill the very buffer that rejects them. There is
    /// exactly one such p̃: what the buffer lets in, Λ(1 − B(Λ)), grows with p̃, and what calls can have let in,
    /// λ(1 − p̃^k), shrinks with it. So in this world a storm ends with its cause; storms that do not end come
    /// from work that is done and thrown away, which no rejecting buffer has.
    #[must_use]
    pub fn with_feedback(&self) -> Feedback {
        /// Far more than the geometric convergence needs even where it is slowest, close to capacity.
        const ROUNDS: u32 = 100_000;
        // The map is increasing, so iteration from zero climbs to the solution and cannot pass it.
        let mut rejection = 0.0;
        for _ in 0..ROUNDS {
            let total = self.load.get() * geometric(rejection, self.attempts.get());
            let next = 1.0 / geometric(1.0 / total, self.buffer.get() + 1);
            let step = next - rejection;
            rejection = next;
            if step.abs() <= 1e-15 {
                break;
            }
        }
        Feedback {
            rejection,
            retries_per_call: without_the_first(rejection, self.attempts.get()),
            total_load: self.load.get() * geometric(rejection, self.attempts.get()),
        }
    }
}
