//! The controller as a process: its file is checked, and it runs until a signal ends it.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use crate::adapters::actuator::policy_server::PolicyServer;
use crate::adapters::http::status_page;
use crate::config::{Config, ConfigError, election::Election, listen::Listen};
use crate::reconcile::control_loop::{Ended, MOST_QUERIES};
use crate::reconcile::shards::run_shards;
use crate::start::{self, StartError};

/// How a controller is run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// At the end, leave the data plane as it is.
    pub leave: bool,
    /// The file that readings are recorded into.
    pub record: Option<PathBuf>,
}

/// The signal that ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// SIGTERM, which is how a service is stopped.
    Terminated,
    /// Ctrl-C.
    Interrupted,
}

impl Stopped {
    /// The exit code of a process that had nothing else to report.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Terminated => 0,
            Self::Interrupted => 130,
        }
    }
}

/// What a check of a configuration says.
#[derive(Debug)]
pub struct CheckedConfig {
    /// Files that cannot be used; the controller would not start.
    pub unusable: Vec<StartError>,
    /// What should be looked at.
    pub warnings: Vec<String>,
    /// How many targets there are.
    pub targets: usize,
}

/// Checks a configuration without connecting to anything.
///
/// # Errors
/// Where it cannot be read or has mistakes.
pub fn check(path: &Path) -> Result<CheckedConfig, ConfigError> {
    let config = Config::load(path)?;
    let mut warnings = start::warnings(&config);
    warnings.extend(missing(&config).into_iter().map(|(what, feature)| {
        format!("this program was built without `{what}`; build it with `--features {feature}`")
    }));
    Ok(CheckedConfig {
        unusable: start::unusable_files(&config),
        warnings,
        targets: config.targets.len(),
    })
}

impl fmt::Display for CheckedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.unusable {
            writeln!(f, "{error}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        match (self.unusable.is_empty(), self.targets) {
            (false, _) => Ok(()),
            (true, 1) => writeln!(f, "no mistake, 1 target"),
            (true, several) => writeln!(f, "no mistake, {several} targets"),
        }
    }
}

/// What the configuration asks for and this program does not have, with the feature that brings it.
fn missing(config: &Config) -> Vec<(&'static str, &'static str)> {
    let mut all = Vec::new();
    if cfg!(not(feature = "kubernetes")) {
        let of = |what, wanted| (what, "kubernetes", wanted);
        all.extend([
            of("istio", config.actuators.istio.is_some()),
            of("gateway-api", config.actuators.gateway_api.is_some()),
            of("linkerd", config.actuators.linkerd.is_some()),
            of(
                "leaderElection.kubernetes",
                matches!(config.election, Election::Kubernetes(_)),
            ),
        ]);
    }
    if cfg!(not(feature = "redis")) {
        let wanted = matches!(config.election, Election::Redis(_));
        all.push(("leaderElection.redis", "redis", wanted));
    }
    if cfg!(not(feature = "postgres")) {
        let wanted = matches!(config.election, Election::Postgres(_));
        all.push(("leaderElection.postgres", "postgres", wanted));
    }
    if cfg!(not(feature = "aws")) {
        all.push(("aws", "aws", config.actuators.aws.is_some()));
        all.push(("cloudwatch", "aws", config.sources.cloudwatch.is_some()));
    }
    let wanted = all.into_iter().filter(|(_, _, wanted)| *wanted);
    wanted.map(|(what, feature, _)| (what, feature)).collect()
}

/// Runs until SIGTERM or Ctrl-C. `ready` is called with the address of the status page.
///
/// # Errors
/// Where something cannot be started.
pub async fn run(
    config: &Config,
    options: &RunOptions,
    ready: impl FnOnce(std::net::SocketAddr),
) -> Result<(Ended, Stopped), StartError> {
    let mut signals = Signals::new()?;
    start::raise_descriptor_limit();
    let mut shards = start::shards(config, options.dry_run, options.leave).await?;
    if let Some(path) = &options.record {
        let several = shards.len() > 1;
        for (number, shard) in shards.iter_mut().enumerate() {
            let mut own = path.clone();
            if several {
                own.as_mut_os_string().push(format!(".shard-{number}"));
            }
            start::record(shard, &own)?;
        }
    }
    let (queries, received) = mpsc::channel(MOST_QUERIES);
    let port = status_page::status(&config.status, queries).await?;
    ready(port.address());
    let (send, stopped) = tokio::sync::oneshot::channel();
    let ended = run_shards(shards, received, async move {
        let _ = send.send(signals.stopped().await);
    })
    .await;
    Ok((ended, stopped.await.unwrap_or(Stopped::Terminated)))
}

/// Serves the policies of a folder until SIGTERM or Ctrl-C. `ready` is called with their names and the address.
///
/// # Errors
/// Where the folder cannot be read or the port cannot be listened on.
pub async fn serve_policies(
    folder: &Path,
    listen: &Listen,
    ready: impl FnOnce(&[String], std::net::SocketAddr),
) -> Result<Stopped, StartError> {
    let mut signals = Signals::new()?;
    let server = PolicyServer::start(folder, listen, Vec::new()).await?;
    ready(&server.names(), server.address());
    Ok(signals.stopped().await)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self, StartError> {
        let of = |kind| signal(kind).map_err(|error| no_signals(&error));
        Ok(Self {
            terminate: of(SignalKind::terminate())?,
            interrupt: of(SignalKind::interrupt())?,
        })
    }

    async fn stopped(&mut self) -> Stopped {
        tokio::select! {
            _ = self.terminate.recv() => Stopped::Terminated,
            _ = self.interrupt.recv() => Stopped::Interrupted,
        }
    }
}

fn no_signals(error: &io::Error) -> StartError {
    StartError::Settings {
        what: "signals",
        reason: error.to_string(),
    }
}
