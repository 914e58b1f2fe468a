//! What can be said about retries with pencil and paper: the equations of the RetryGuard paper, finite queues,
//! and the amplification of layers. Independent of the model checker beside it and of every machine it judges.
//!
//! The paper prints some of its equations wrongly. The right form has the plain name; the printed one is kept
//! under a name that says `printed`, so that a figure of the paper can be redrawn as it stands there:
//!
//! | where | printed | right |
//! | --- | --- | --- |
//! | Eq. 8 | not the sum of Eqs. 6 and 7: too large by p·p̃^k·(2^k − 1) | [`Delay::expected`] |
//! | Eqs. 6–7 | k attempts are charged k waits, the last of which never happens | [`Delay::last_wait_omitted`] |
//! | Eq. 9 | its limit for ρ → 1 is given as 1/m | 1/(m + 1), by [`queue::single_server_rejection`] |
//! | Fig. 7 | the retry rate below capacity as k·p̃ | [`Below::retries_per_call`] |
//!
//! Loads are relative to the capacity of the target: ρ = λ/μ. Delays are in units of the first wait.
//!
//! ```
//! use retryguard_model::closed_forms::{Attempts, Load, Overload};
//!
//! let storm = Overload::new(Load::new(1.5)?, Attempts::new(5)?)?;
//! assert_eq!(format!("{:.4}", storm.rejection()), "0.8027");
//! assert_eq!(format!("{:.4}", storm.retries_per_call()), "2.3797");
//! assert_eq!(format!("{:.4}", storm.delay().expected()), "12.8159");
//! # Ok::<(), retryguard_model::closed_forms::BadInput>(())
//! ```

mod below;
mod delay;
mod input;
pub mod layers;
mod overload;
pub mod queue;
mod series;
mod threshold;

#[cfg(test)]
mod tests;

pub use below::{Below, Feedback};
pub use delay::Delay;
pub use input::{Attempts, BadInput, Buffer, Load};
pub use overload::Overload;
pub use threshold::Threshold;
