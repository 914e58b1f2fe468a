//! Leader election: which of several controllers acts.

#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
pub mod single;

use crate::adapters::election::single::SingleInstance;
use crate::adapters::start_error::StartError;
use crate::config::election as config;
use crate::reconcile::election::LeaderElection;

/// The backend that a configuration names. All elections of one process sign with the same number, so that others see how many
/// shards it leads.
#[cfg_attr(
    not(any(feature = "kubernetes", feature = "redis", feature = "postgres")),
    expect(unused_variables, reason = "one controller without an election signs nothing")
)]
pub(crate) async fn start(
    settings: &config::Election,
    run: u64,
) -> Result<Box<dyn LeaderElection>, StartError> {
    match settings {
        config::Election::None => Ok(Box::new(SingleInstance)),
        #[cfg(feature = "redis")]
        config::Election::Redis(lock) => Ok(Box::new(redis::Redis::new(lock, &identity(run))?)),
        #[cfg(feature = "postgres")]
        config::Election::Postgres(lock) => Ok(Box::new(postgres::Postgres::new(lock, &identity(run))?)),
        #[cfg(feature = "kubernetes")]
        config::Election::Kubernetes(lease) => Ok(Box::new(kubernetes::Lease::start(lease, run).await?)),
        #[cfg(not(feature = "redis"))]
        config::Election::Redis(_) => Err(StartError::NotBuilt {
            what: "redis",
            feature: "redis",
        }),
        #[cfg(not(feature = "postgres"))]
        config::Election::Postgres(_) => Err(StartError::NotBuilt {
            what: "postgres",
            feature: "postgres",
        }),
        #[cfg(not(feature = "kubernetes"))]
        config::Election::Kubernetes(_) => Err(StartError::NotBuilt {
            what: "kubernetes",
            feature: "kubernetes",
        }),
    }
}

/// When a follower asks again: as usual, or right after the lock is free.
#[cfg(any(feature = "kubernetes", feature = "redis", feature = "postgres"))]
fn next_question(usual: std::time::Duration, free_in: Option<std::time::Duration>) -> std::time::Duration {
    // A moment later than the end, which the backend's clock may round.
    let moment = std::time::Duration::from_millis(10);
    free_in.map_or(usual, |free_in| usual.min(free_in + moment))
}

/// A name for this run of this program: two that start at once on two machines must not share one.
#[cfg(any(feature = "redis", feature = "postgres"))]
fn identity(run: u64) -> String {
    let machine = std::env::var("HOSTNAME").unwrap_or_else(|_| "controller".to_owned());
    format!("{machine}-{}-{run:016x}", std::process::id())
}

/// Who asked for a leadership, where that is a controller other than its holder.
#[cfg(any(feature = "kubernetes", feature = "redis", feature = "postgres"))]
fn by_another(asked_by: String, holder: &str) -> Option<String> {
    Some(asked_by).filter(|asked_by| !asked_by.is_empty() && asked_by != holder)
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
