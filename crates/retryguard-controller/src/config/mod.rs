//! The file `controller.yaml`: written, checked, compiled.
//!
//! Every mistake is reported at once, with its line, the nearest known key and a cure. What a build lacks is not
//! a mistake of the file: the file means the same everywhere, and [`crate::start`] says what to build.

pub mod actuator;
mod address;
pub mod aws;
pub mod election;
mod guard;
mod limits;
pub mod listen;
pub mod schema;
pub mod source;
mod target;

use std::{
    cell::RefCell,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use retryguard_policy::{
    Diagnostics, Policy, Position,
    reading::{Block, Kind, Mistakes, Node, read},
};

pub use target::Target;

use crate::domain::limits::Limits;
use crate::domain::shard::Shard;

/// The most targets that one controller watches. More of them belong to a second controller.
pub const MOST_TARGETS: usize = 10_000;

/// A whole configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// What is watched.
    pub targets: Vec<Target>,
    /// Where signals come from.
    pub sources: source::Sources,
    /// What carries decisions.
    pub actuators: actuator::Actuators,
    /// Which of several controllers acts.
    pub election: election::Election,
    /// Into how many parts the targets are divided; each has an election of its own.
    pub shards: usize,
    /// How long things hold, and how often they may change.
    pub limits: Limits,
    /// Where the operator looks.
    pub status: listen::Listen,
}

/// Where the operator looks by default: this machine only.
pub const STATUS_ADDRESS: &str = "127.0.0.1:9464";

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{path} cannot be read: {error}; check the path and that it is text", path = .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file has mistakes.
    #[error("{path} has mistakes:\n{}", .mistakes.in_file(&.path.display().to_string()), path = .path.display())]
    Wrong {
        /// Which.
        path: PathBuf,
        /// All of them.
        mistakes: Diagnostics,
    },
}

impl Config {
    /// Reads a configuration and the files that it names; their paths are relative to it.
    ///
    /// # Errors
    /// When a file cannot be read or has mistakes: all of them.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = text_of(path)?;
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        Self::parse(&text, folder).map_err(|mistakes| ConfigError::Wrong {
            path: path.to_owned(),
            mistakes,
        })
    }

    /// Reads the text of a configuration; `folder` is where the paths in it begin.
    ///
    /// # Errors
    /// When it has mistakes: all of them.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, Diagnostics> {
        let mut mistakes = Mistakes::default();
        let config = read(text, &mut mistakes).and_then(|root| configuration(&root, folder, &mut mistakes));
        match mistakes.or(config) {
            Ok(Some(config)) => Ok(config),
            // Nothing is left out without a mistake that says so.
            Ok(None) => unreachable!("a configuration without a mistake is a configuration"),
            Err(mistakes) => Err(mistakes),
        }
    }
}

impl Config {
    /// The configuration of one shard: its targets, with an election, a port and a runtime layer of its own.
    #[must_use]
    pub fn of_shard(&self, shard: Shard) -> Self {
        let mut own = self.clone();
        if shard.of > 1 {
            own.targets.retain(|target| shard.owns(&target.name));
            own.election = self.election.of_shard(shard.number);
            let rtds = own.actuators.envoy_rtds.as_ref();
            own.actuators.envoy_rtds = rtds.and_then(|rtds| rtds.of_shard(shard.number));
            let grpc = own.actuators.grpc_xds.as_ref();
            own.actuators.grpc_xds = grpc.and_then(|grpc| grpc.of_shard(shard.number));
        }
        own
    }
}

fn configuration(root: &Node, folder: &Path, mistakes: &mut Mistakes) -> Option<Config> {
    let mut block = Block::open(root, "the configuration", mistakes)?;
    let place = Place {
        folder,
        listeners: RefCell::default(),
    };
    let policy = policy(&mut block, &place, mistakes);
    let sources = source::Sources::read(&mut block, &place, mistakes);
    let actuators = actuator::Actuators::read(&mut block, &place, mistakes);
    let limits = limits::read(&mut block, mistakes);
    let election = election::Election::read(&mut block, &limits, &place, mistakes);
    let at = block.at();
    let status = block.block("status", mistakes);
    if status.is_none() {
        place.listens(listen::Listen::at(STATUS_ADDRESS).address, at, mistakes);
    }
    let status = status.map_or_else(
        || Some(listen::Listen::at(STATUS_ADDRESS)),
        |status| listen::Listen::read(status, STATUS_ADDRESS, &place, mistakes),
    );
    sources.check(&limits, &block, mistakes);
    actuators.check(&limits, &block, mistakes);
    if let Some((_, shards)) = &election {
        check_shards(*shards, &actuators, &place, at, mistakes);
    }
    let targets = block.need("targets", "one block per service to watch", mistakes);
    let targets = targets.map(|node| target::read(node, &policy, &sources, &actuators, mistakes));
    block.close(mistakes);
    let (election, shards) = election?;
    Some(Config {
        targets: targets?,
        sources,
        actuators,
        election,
        shards,
        limits,
        status: status?,
    })
}

/// What cannot be divided, and the ports that the shards listen on.
fn check_shards(
    shards: usize,
    actuators: &actuator::Actuators,
    place: &Place<'_>,
    at: Position,
    mistakes: &mut Mistakes,
) {
    if shards == 1 {
        return;
    }
    for word in actuators.configured() {
        if matches!(word, "aws" | "policy-server") {
            mistakes.add(
                at,
                format!("the actuator `{word}` cannot be divided into {shards} shards"),
                "remove `shards`, or give this actuator's targets to a controller of their own: it writes what several targets share",
            );
        }
    }
    if let Some(rtds) = &actuators.envoy_rtds {
        let of = |number| Some(rtds.of_shard(number)?.listen.address);
        check_ports(
            "envoy-rtds",
            rtds.listen.address.port(),
            shards,
            of,
            place,
            at,
            mistakes,
        );
    }
    if let Some(grpc) = &actuators.grpc_xds {
        let of = |number| Some(grpc.of_shard(number)?.listen.address);
        check_ports(
            "grpc-xds",
            grpc.listen.address.port(),
            shards,
            of,
            place,
            at,
            mistakes,
        );
    }
}

/// Notes the ports of the shards after the first.
fn check_ports(
    word: &str,
    first: u16,
    shards: usize,
    of_shard: impl Fn(usize) -> Option<SocketAddr>,
    place: &Place<'_>,
    at: Position,
    mistakes: &mut Mistakes,
) {
    for number in 1..shards {
        let Some(address) = of_shard(number) else {
            mistakes.add(
                at,
                format!("{shards} shards have no ports from {first} on"),
                format!("write a fixed, lower port for `{word}`: each shard listens on the next one"),
            );
            return;
        };
        place.listens(address, at, mistakes);
    }
}

/// What the blocks of one file share: what its paths are relative to, and the addresses that it listens on.
pub(crate) struct Place<'a> {
    folder: &'a Path,
    listeners: RefCell<Vec<SocketAddr>>,
}

impl Place<'_> {
    /// Notes an address that is listened on; a mistake where another block has it already.
    pub(crate) fn listens(&self, address: SocketAddr, at: Position, mistakes: &mut Mistakes) {
        let mut all = self.listeners.borrow_mut();
        let same = |other: &&SocketAddr| {
            let every = other.ip().is_unspecified() || address.ip().is_unspecified();
            other.port() == address.port() && (other.ip() == address.ip() || every)
        };
        if address.port() != 0
            && let Some(other) = all.iter().find(same)
        {
            mistakes.add(
                at,
                format!("`listen` is {address}, and another block listens on {other}"),
                "write another port in one of them",
            );
        }
        all.push(address);
    }

    /// A path of the file.
    pub(crate) fn path(&self, written: &str) -> PathBuf {
        self.folder.join(written)
    }

    /// The key `tokenFile`.
    pub(crate) fn token_file(&self, block: &mut Block<'_>, mistakes: &mut Mistakes) -> Option<PathBuf> {
        let path = block.text("tokenFile", "the path of a file with the token", mistakes)?;
        Some(self.path(path))
    }

    /// A key that names a PEM file.
    pub(crate) fn pem_file(
        &self,
        key: &'static str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<PathBuf> {
        let path = block.text(key, "the path of a PEM file", mistakes)?;
        Some(self.path(path))
    }
}

fn policy(block: &mut Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Policy {
    let node = block.take("policy");
    block.describe("policy", Kind::Text);
    let Some(node) = node else {
        return Policy::default();
    };
    let mut told = |message: String, help: &str| {
        mistakes.add(node.at, message, help);
        Policy::default()
    };
    let retryguard_policy::reading::Body::Scalar { text, .. } = &node.body else {
        return told(
            "`policy` is not the path of a file".to_owned(),
            "write the path of a policy file, relative to this one",
        );
    };
    let path = place.path(text);
    match text_of(&path) {
        Err(error) => told(
            error.to_string(),
            "write the path of a policy file, relative to this one",
        ),
        Ok(text) => match Policy::parse(&text) {
            Ok(policy) => policy,
            Err(wrong) => told(
                format!("the policy {} has mistakes: {wrong}", path.display()),
                "`retryguard lint` shows them one by one",
            ),
        },
    }
}

/// Reads no more than a file of ours may have: a wrong path can name a file of any size.
fn text_of(path: &Path) -> Result<String, ConfigError> {
    use std::io::Read as _;
    let bound = retryguard_policy::LARGEST_FILE as u64 + 1;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(bound).read_to_string(&mut text))
        .map_err(|error| ConfigError::Unreadable {
            path: path.to_owned(),
            error,
        })?;
    Ok(text)
}
