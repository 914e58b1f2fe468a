//! The key `leaderElection`.

use std::{path::PathBuf, time::Duration};

use retryguard_policy::reading::{Block, Body, Kind, Mistakes, wrong};

use crate::config::Place;
use crate::domain::limits::Limits;
use crate::domain::shard::MOST_SHARDS;
use crate::secret::Secret;

/// Which of several controllers acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Election {
    /// This one.
    None,
    /// The holder of a lock in Redis.
    Redis(Lock),
    /// The holder of a lock in PostgreSQL.
    Postgres(Lock),
    /// The holder of a Kubernetes Lease.
    Kubernetes(Lease),
}

/// A lock in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The database.
    pub address: Address,
    /// The name of the lock: controllers with the same name watch the same targets.
    pub name: String,
    /// How long a term lasts without being renewed.
    pub term: Duration,
}

/// An address that may hold a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// As it stands in the configuration.
    Written(Secret),
    /// In a file of its own.
    File(PathBuf),
}

/// A Kubernetes Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The namespace; the controller's own where it is not written.
    pub namespace: Option<String>,
    /// The name of the Lease.
    pub name: String,
    /// How long a term lasts without being renewed.
    pub term: Duration,
}

/// How long a term lasts by default. A leader that has died is replaced after this time.
pub const TERM: Duration = Duration::from_secs(15);

const NAME: &str = "retryguard-controller";

impl Election {
    pub(super) fn read(
        block: &mut Block<'_>,
        limits: &Limits,
        place: &Place<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<(Self, usize)> {
        let node = block.take("leaderElection");
        block.describe("leaderElection", Kind::Word(vec!["none"]));
        let Some(node) = node else {
            return Some((Self::None, 1));
        };
        let wanted = "none, or a block with one of redis, postgres, kubernetes";
        match &node.body {
            Body::Scalar { text, .. } if text == "none" => return Some((Self::None, 1)),
            Body::Map(_) => {}
            _ => {
                wrong(node, "leaderElection", wanted, mistakes);
                return None;
            }
        }
        let mut block = Block::open(node, "leaderElection", mistakes)?;
        let redis = block
            .block("redis", mistakes)
            .map(|inner| lock(inner, limits, place, mistakes));
        let postgres = block
            .block("postgres", mistakes)
            .map(|inner| lock(inner, limits, place, mistakes));
        let kubernetes = block
            .block("kubernetes", mistakes)
            .map(|inner| lease(inner, limits, mistakes));
        let most = u32::try_from(MOST_SHARDS).unwrap_or(u32::MAX);
        let shards = block.count("shards", 1..=most, mistakes).unwrap_or(1);
        block.close(mistakes);
        let election = match (redis, postgres, kubernetes) {
            (Some(lock), None, None) => lock.map(Self::Redis),
            (None, Some(lock), None) => lock.map(Self::Postgres),
            (None, None, Some(lease)) => Some(Self::Kubernetes(lease)),
            _ => {
                wrong(node, "leaderElection", wanted, mistakes);
                None
            }
        };
        Some((election?, shards as usize))
    }

    /// The election for one shard: a lock or a Lease of its own.
    pub(super) fn of_shard(&self, number: usize) -> Self {
        let mut own = self.clone();
        match &mut own {
            Self::None => {}
            Self::Redis(Lock { name, .. })
            | Self::Postgres(Lock { name, .. })
            | Self::Kubernetes(Lease { name, .. }) => *name = format!("{name}-{number}"),
        }
        own
    }
}

fn lock(mut block: Block<'_>, limits: &Limits, place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Lock> {
    let at = block.at();
    let url = block.text("url", "an address", mistakes);
    let file = block.text("urlFile", "the path of a file with the address", mistakes);
    // Renewed every third of it.
    let (name, term) = name_and_term(&mut block, limits, (2, 3), mistakes);
    block.close(mistakes);
    let address = match (url, file) {
        (Some(url), None) => Address::Written(Secret::new(url)),
        (None, Some(file)) => Address::File(place.path(file)),
        _ => {
            mistakes.add(
                at,
                "a lock needs one address",
                "write `url:`, or `urlFile:` where it holds a password",
            );
            return None;
        }
    };
    Some(Lock { address, name, term })
}

fn lease(mut block: Block<'_>, limits: &Limits, mistakes: &mut Mistakes) -> Lease {
    let namespace = block
        .text("namespace", "the name of a namespace", mistakes)
        .map(str::to_owned);
    // Ended by the leader itself a fifth earlier, and renewed every fifth.
    let (name, term) = name_and_term(&mut block, limits, (3, 5), mistakes);
    block.close(mistakes);
    Lease {
        namespace,
        name,
        term,
    }
}

/// `left` is the share of the term that is left right before it is renewed.
fn name_and_term(
    block: &mut Block<'_>,
    limits: &Limits,
    left: (u32, u32),
    mistakes: &mut Mistakes,
) -> (String, Duration) {
    let at = block.at();
    let name = block.text("name", "a name", mistakes).unwrap_or(NAME).to_owned();
    let range = Duration::from_secs(3)..=Duration::from_secs(600);
    let term = block.duration("term", range, mistakes).unwrap_or(TERM);
    // A change is begun only where it is certain to end within the term.
    if term * left.0 / left.1 <= limits.timeout {
        let least = limits.timeout * left.1 / left.0;
        mistakes.add(
            at,
            format!(
                "a term of {} s is too short for changes that may take {} s (`limits.timeout`): this controller would be the leader and not act",
                term.as_secs(),
                limits.timeout.as_secs()
            ),
            format!("write `term: {}s` or more, or a shorter `limits: {{timeout: …}}`", least.as_secs() + 1),
        );
    }
    (name, term)
}
