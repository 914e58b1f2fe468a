//! Shared breaker state: replicas agree that a target is open.
//!
//! Without it every replica finds out by itself that a target is down: a fleet of a hundred sends it a hundred
//! times the calls that one breaker needs to trip. With it the first one tells the others through Redis.
//!
//! ```no_run
//! # #[cfg(feature = "redis")]
//! # async fn example(payments: impl retryguard_core::breaker::Handle) -> Result<(), Box<dyn std::error::Error>> {
//! use retryguard_store::breaker::{Settings, SharedBreakers};
//!
//! // `payments` is what `RetryGuardLayer::handle` of the library gives.
//! let shared = SharedBreakers::start(redis::Client::open("redis://127.0.0.1/")?, Settings::default())?;
//! shared.join(payments)?;
//! # Ok(()) }
//! ```
//!
//! # What is said, and when
//!
//! Nothing on the path of a call: the breakers stay where they are, in the replicas, and this listens to them. A
//! breaker that *opens* runs one script, which notes the opening under a new epoch and publishes it. The others
//! receive it and hold theirs open. A breaker that *closes* runs one script, which is refused if the epoch has passed
//! it by: a late closing never closes a newer opening. Going half-open is not shared.
//!
//! # Who probes
//!
//! The replica that opened has the opening. When its time is over it probes, alone: the others hold theirs open for
//! [`Settings::margin`] longer. If its probes succeed, its closing closes all; if not, it opens anew for all. If it is
//! gone or gets no calls, the margin passes, and the others probe by themselves. The first to come to a result
//! tells the rest.
//!
//! # When Redis is away
//!
//! Every replica goes on alone, with its own breaker, as if it had never joined. A held breaker is held by the
//! replica's own clock and opens up by itself. When Redis is back the replica asks what is so, adopts an opening that
//! it missed, and says its own where there is none. Nothing in Redis lasts longer than an opening and its margin.

#[cfg(feature = "redis")]
mod member;
#[cfg(feature = "redis")]
mod scripts;
#[cfg(feature = "redis")]
mod task;
#[cfg(feature = "redis")]
mod telemetry;

#[cfg(feature = "redis")]
mod shared {
    use std::{sync::Arc, time::Duration};

    use retryguard_core::{Backoff, breaker::Handle};
    use tokio::{sync::mpsc, task::JoinHandle};

    use super::task::{self, Input};

    /// How breakers are shared.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Settings {
        /// What every key and the channel begin with. Replicas with the same one, the same Redis and the same name
        /// of a target share.
        pub prefix: String,
        /// How much longer the others hold their breakers open than the one that opened, so that it probes alone.
        pub margin: Duration,
        /// How long Redis may take to answer before it counts as away.
        pub limit: Duration,
        /// How often the connection is looked at when nothing else is said on it.
        pub ping: Duration,
        /// The waits before Redis is asked again when it was away.
        pub backoff: Backoff,
    }

    impl Default for Settings {
        fn default() -> Self {
            Self {
                prefix: "retryguard:breaker".to_owned(),
                margin: Duration::from_secs(2),
                limit: Duration::from_millis(500),
                ping: Duration::from_secs(2),
                backoff: Backoff {
                    cap: Duration::from_secs(5),
                    ..Backoff::default()
                },
            }
        }
    }

    /// Why breakers cannot be shared.
    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[non_exhaustive]
    pub enum JoinError {
        /// A setting cannot work.
        #[error("shared breakers: `{0}` must be longer than nothing")]
        Zero(&'static str),
        /// The target has joined already.
        #[error("the breaker of `{0}` is shared already")]
        Twice(String),
        /// A name is longer than [`SharedBreakers::LONGEST_NAME`].
        #[error("the target's name has {size} bytes, more than the {limit} that may be shared")]
        LongName {
            /// Its size.
            size: usize,
            /// The limit.
            limit: usize,
        },
        /// More targets than [`SharedBreakers::MOST_TARGETS`].
        #[error("{0} targets share their breakers already; share those that matter")]
        TooMany(usize),
    }

    /// The breakers of this process that are shared with other replicas. They go on alone when it is dropped.
    #[derive(Debug)]
    pub struct SharedBreakers {
        send: mpsc::Sender<Input>,
        joined: std::sync::atomic::AtomicUsize,
        task: JoinHandle<()>,
    }

    impl SharedBreakers {
        /// The longest name of a target, in bytes.
        pub const LONGEST_NAME: usize = 255;
        /// The most targets of one process: every replica receives every opening.
        pub const MOST_TARGETS: usize = 1000;
        /// The longest that any breaker is held open by another replica.
        pub const LONGEST_HOLD: Duration = Duration::from_secs(600);
        /// The most changes that wait to be said; beyond them the present state is sent once instead.
        const MOST_WAITING: usize = 256;

        /// Connects in the background, now and whenever the connection is lost.
        ///
        /// # Errors
        /// Where a setting cannot work.
        ///
        /// # Panics
        /// Outside of a tokio runtime.
        pub fn start(client: redis::Client, settings: Settings) -> Result<Self, JoinError> {
            for (name, span) in [("limit", settings.limit), ("ping", settings.ping)] {
                if span.is_zero() {
                    return Err(JoinError::Zero(name));
                }
            }
            let (send, inputs) = mpsc::channel(Self::MOST_WAITING);
            let task = tokio::spawn(task::run(client, settings, inputs));
            Ok(Self {
                send,
                joined: 0.into(),
                task,
            })
        }

        /// Shares the breaker of a target.
        ///
        /// # Errors
        /// Where it is shared already, its name is too long, or there are too many.
        pub fn join(&self, breaker: impl Handle) -> Result<(), JoinError> {
            use std::sync::atomic::Ordering;
            let name: Arc<str> = breaker.name().into();
            if name.len() > Self::LONGEST_NAME {
                return Err(JoinError::LongName {
                    size: name.len(),
                    limit: Self::LONGEST_NAME,
                });
            }
            let joined = self.joined.fetch_add(1, Ordering::Relaxed);
            if joined >= Self::MOST_TARGETS {
                self.joined.fetch_sub(1, Ordering::Relaxed);
                return Err(JoinError::TooMany(Self::MOST_TARGETS));
            }
            let (changed, of) = (self.send.clone(), name.clone());
            let observed = breaker.observe(Box::new(move |state| {
                // Full only while Redis is away or slow: then the present state is sent once it is back.
                let _ = changed.try_send(Input::Changed(of.clone(), state));
            }));
            if !observed {
                self.joined.fetch_sub(1, Ordering::Relaxed);
                return Err(JoinError::Twice(name.to_string()));
            }
            let (send, input) = (self.send.clone(), Input::Join(name, Box::new(breaker)));
            // Joining must not be lost, and the caller must not wait for Redis.
            tokio::spawn(async move {
                let _ = send.send(input).await;
            });
            Ok(())
        }
    }

    impl Drop for SharedBreakers {
        fn drop(&mut self) {
            self.task.abort();
        }
    }
}

#[cfg(feature = "redis")]
pub use shared::{JoinError, Settings, SharedBreakers};
#[cfg(feature = "redis")]
pub use telemetry::METRICS;
