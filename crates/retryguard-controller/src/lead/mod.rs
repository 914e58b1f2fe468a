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

use crate::{config::lead as config, start::StartError};

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

/// The judge that a configuration names.
pub(crate) async fn start(settings: &config::Lead) -> Result<Box<dyn Lead>, StartError> {
    match settings {
        config::Lead::Alone => Ok(Box::new(Alone)),
        #[cfg(feature = "redis")]
        config::Lead::Redis(lock) => Ok(Box::new(redis::Redis::new(lock, &identity())?)),
        #[cfg(feature = "postgres")]
        config::Lead::Postgres(lock) => Ok(Box::new(postgres::Postgres::new(lock, &identity())?)),
        #[cfg(feature = "kubernetes")]
        config::Lead::Kubernetes(lease) => Ok(Box::new(kubernetes::Lease::start(lease).await?)),
        #[cfg(not(feature = "redis"))]
        config::Lead::Redis(_) => Err(StartError::NotBuilt {
            what: "redis",
            feature: "redis",
        }),
        #[cfg(not(feature = "postgres"))]
        config::Lead::Postgres(_) => Err(StartError::NotBuilt {
            what: "postgres",
            feature: "postgres",
        }),
        #[cfg(not(feature = "kubernetes"))]
        config::Lead::Kubernetes(_) => Err(StartError::NotBuilt {
            what: "kubernetes",
            feature: "kubernetes",
        }),
    }
}

/// A name for this run of this program: two that start at once on two machines must not share one.
#[cfg(any(feature = "redis", feature = "postgres"))]
fn identity() -> String {
    use retryguard_core::Chance as _;
    let machine = std::env::var("HOSTNAME").unwrap_or_else(|_| "controller".to_owned());
    let chance = crate::clock::Random.below(u64::MAX);
    format!("{machine}-{}-{chance:016x}", std::process::id())
}

/// The address of a database, from the configuration or from its file.
#[cfg(any(feature = "redis", feature = "postgres"))]
fn address(lock: &config::Lock, what: &'static str) -> Result<crate::secret::Secret, StartError> {
    match &lock.address {
        config::Address::Written(secret) => Ok(secret.clone()),
        config::Address::File(path) => {
            crate::secret::Secret::from_file(path).map_err(|error| StartError::File {
                what,
                path: path.display().to_string(),
                reason: error.to_string(),
            })
        }
    }
}
