//! Which of several controllers acts.
//!
//! Data planes cannot tell two controllers apart, so safety rests on time: a leader acts only while its term is
//! certain to last, measured on its own clock from *before* it asked, and a change that cannot end within the
//! term is not begun. A follower can take over only after the term has ended on the judge's clock.

mod alone;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;

use std::{future::Future, pin::Pin, time::Duration};

pub use alone::Alone;

/// A judge's answer, later.
pub type Verdict<'a, T> = Pin<Box<dyn Future<Output = Result<T, LeadError>> + Send + 'a>>;

/// Who decides which controller acts.
pub trait Lead: Send {
    /// The word used in the configuration, in logs and in the status.
    fn name(&self) -> &'static str;

    /// How often to ask, well under the length of a term.
    fn every(&self) -> Duration;

    /// Takes the lead if it is free, keeps it if it is ours, or says whose it is.
    fn ask(&mut self) -> Verdict<'_, Standing>;

    /// Gives the lead up, so that the next one need not wait for the term's end. Nothing happens where it is
    /// not ours.
    fn resign(&mut self) -> Verdict<'_, ()>;
}

/// Whether we lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// We do.
    Leading {
        /// The number of the term: the same while one controller keeps the lead, and larger for the next.
        term: u64,
        /// How long it lasts, counted from before the judge was asked.
        lasts: Duration,
    },
    /// Somebody else does, or nobody yet.
    Following {
        /// Who, as far as the judge says.
        leader: Option<String>,
    },
}

/// Why there is no verdict. The term that we have goes on until its end, and no longer.
#[derive(Debug, thiserror::Error)]
#[error("{judge} does not say who leads: {reason}")]
pub struct LeadError {
    /// Who was asked.
    pub judge: &'static str,
    /// What went wrong, without secrets.
    pub reason: String,
}
