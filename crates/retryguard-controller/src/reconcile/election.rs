//! Which of several controllers acts.
//!
//! Data planes cannot tell two controllers apart, so safety rests on time: a leader acts only while its term is
//! certain to last, measured on its own clock from *before* it asked, and a change that cannot end within the
//! term is not begun. A follower can take over only after the term has ended on the backend's clock.

use std::{future::Future, pin::Pin, time::Duration};

/// A backend's answer, later.
pub type ElectionAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ElectionError>> + Send + 'a>>;

/// Who decides which controller acts.
pub trait LeaderElection: Send {
    /// The word used in the configuration, in logs and in the status.
    fn name(&self) -> &'static str;

    /// How long to wait before the next question: well under the length of a term, and for a follower no longer than the term
    /// of the leader lasts, as far as the backend says.
    fn every(&self) -> Duration;

    /// Whether the next campaigns ask the leader, where that is another controller, to hand its leadership over to us.
    fn ask(&mut self, asks: bool);

    /// Becomes the leader if there is none, stays the leader, or says which other controller is.
    fn campaign(&mut self) -> ElectionAnswer<'_, Leadership>;

    /// Makes `to` the leader, for a whole term from now on. Nothing happens where the leadership is not ours. Our own changes must
    /// have ended.
    fn hand_over<'a>(&'a mut self, to: &'a str) -> ElectionAnswer<'a, ()>;

    /// Gives the leadership up, so that the next one need not wait for the term's end. Nothing happens where it is
    /// not ours.
    fn resign(&mut self) -> ElectionAnswer<'_, ()>;
}

/// Whether we lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// We do.
    Leader {
        /// The number of the term: the same while one controller stays the leader, and larger for the next.
        term: u64,
        /// How long it lasts, counted from before the backend was asked.
        lasts: Duration,
        /// The controller that has asked for the leadership since the last campaign.
        asked_by: Option<String>,
    },
    /// Another controller does, or none yet.
    Follower {
        /// Who, as far as the backend says.
        leader: Option<String>,
    },
}

/// Why the election failed. The term that we have goes on until its end, and no longer.
#[derive(Debug, thiserror::Error)]
#[error("leader election through {backend} failed: {reason}")]
pub struct ElectionError {
    /// Who was asked.
    pub backend: &'static str,
    /// What went wrong, without secrets.
    pub reason: String,
}
