//! Above capacity: Eqs. 1–5 and 10 of the paper.

use super::{
    Attempts, BadInput, Delay, Load,
    series::{geometric, without_the_first},
};

/// A target that is offered more calls than it can serve, all of which retry.
///
/// Rejection is taken to be independent of how often a call was rejected before; with waits that are long
/// against the service time it nearly is.
#[derive(Debug, Clone, Copy)]
pub struct Overload {
    load: Load,
    attempts: Attempts,
}

impl Overload {
    /// # Errors
    /// [`BadInput::NotOverloaded`] at a load of 1 or below: there the forms would have a negative root.
    pub fn new(load: Load, attempts: Attempts) -> Result<Self, BadInput> {
        if load.get() > 1.0 {
            Ok(Self { load, attempts })
        } else {
            Err(BadInput::NotOverloaded(load.get()))
        }
    }

    /// p̃ = (1 − 1/ρ)^(1/k), the share of attempts that is rejected (Eqs. 3 and 5).
    #[must_use]
    pub fn rejection(&self) -> f64 {
        (1.0 - 1.0 / self.load.get()).powf(1.0 / f64::from(self.attempts.get()))
    }

    /// p = 1 − p̃ = μ/Λ, the share of attempts that is served (Eq. 2).
    #[must_use]
    pub fn success(&self) -> f64 {
        1.0 - self.rejection()
    }

    /// λ_i/μ = ρ·p̃^i, the load by attempts that are in their i-th retry; i = 0 is the calls themselves (Eq. 4).
    #[must_use]
    pub fn load_of_retry(&self, i: u32) -> f64 {
        self.load.get() * self.rejection().powf(f64::from(i))
    }

    /// Λ/μ = ρ(1 − p̃^k)/(1 − p̃), the load by all attempts together (Eqs. 1 and 10).
    #[must_use]
    pub fn total_load(&self) -> f64 {
        self.load.get() * geometric(self.rejection(), self.attempts.get())
    }

    /// Λ/λ − 1.
    #[must_use]
    pub fn retries_per_call(&self) -> f64 {
        without_the_first(self.rejection(), self.attempts.get())
    }

    /// p̃^k = 1 − 1/ρ, the share of calls that fail in the end: the same for every k, because retries add no
    /// capacity.
    #[must_use]
    pub fn failed_calls(&self) -> f64 {
        1.0 - 1.0 / self.load.get()
    }

    /// How long a call waits between its attempts.
    #[must_use]
    pub fn delay(&self) -> Delay {
        Delay::of_rejection(self.rejection(), self.attempts)
    }
}
