//! From a configuration to its sources and actuators.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use retryguard_core::{Chance as _, Instant};

pub use crate::adapters::start_error::StartError;

pub use crate::adapters::http::raise_descriptor_limit;

use crate::adapters::http::{Access, Fetch, server_config};
use crate::adapters::of_shard::{ActuatorOfShard, ElectionOfShard};
use crate::adapters::recording::{self, FileRecorder, RecordedSource};
use crate::adapters::{actuator, election, source};
use crate::clock::Random;
use crate::config::Config;
use crate::config::election::{Address, Election};
use crate::domain::replay::Replay;
use crate::domain::shard::Shard;
use crate::domain::target::{TargetName, TargetSpec};
use crate::reconcile::actuator::Actuator;
use crate::reconcile::control_loop::Components;
use crate::reconcile::election::LeaderElection;
use crate::reconcile::source::Source;
use crate::secret::{Secret, must_be_regular};

/// The actuators that the configuration names, started. Those that listen have their ports; those that call
/// others have not called yet, so that a data plane that is down does not keep the controller from starting.
pub async fn actuators(config: &Config) -> Result<Vec<Arc<dyn Actuator>>, StartError> {
    let mut all: Vec<Arc<dyn Actuator>> = Vec::new();
    if let Some(settings) = &config.actuators.envoy_rtds {
        all.push(actuator::envoy_rtds(settings, named(config, |target| target.envoy_rtds.clone())).await?);
    }
    if let Some(settings) = &config.actuators.envoy_admin {
        all.push(actuator::envoy_admin(settings, named(config, |target| target.envoy_admin.clone())).await?);
    }
    if let Some(settings) = &config.actuators.grpc_xds {
        all.push(actuator::grpc_xds(settings, named(config, |target| target.grpc_xds.clone())).await?);
    }
    if let Some(settings) = &config.actuators.haproxy {
        all.push(actuator::haproxy(
            settings,
            named(config, |target| target.haproxy.clone()),
        )?);
    }
    if let Some(settings) = &config.actuators.istio {
        all.push(actuator::istio(settings, named(config, |target| target.istio.clone())).await?);
    }
    if let Some(settings) = &config.actuators.gateway_api {
        all.push(actuator::gateway_api(settings, named(config, |target| target.gateway_api.clone())).await?);
    }
    if let Some(settings) = &config.actuators.linkerd {
        all.push(actuator::linkerd(settings, named(config, |target| target.linkerd.clone())).await?);
    }
    if let Some(settings) = &config.actuators.aws {
        all.push(actuator::aws(settings, named(config, |target| target.aws.clone())).await?);
    }
    if let Some(settings) = &config.actuators.policy_server {
        all.push(
            actuator::policy_server(settings, named(config, |target| target.policy_server.clone())).await?,
        );
    }
    Ok(all)
}

/// The sources that the configuration names. None has sent a request yet.
pub async fn sources(config: &Config) -> Result<Vec<Box<dyn Source>>, StartError> {
    let mut all: Vec<Box<dyn Source>> = Vec::new();
    if let Some(settings) = &config.sources.prometheus {
        all.push(source::prometheus(settings, named(config, |target| target.prometheus.clone())).await?);
    }
    if let Some(settings) = &config.sources.scrape {
        all.push(source::scrape(settings, named(config, |target| target.scrape.clone())).await?);
    }
    if let Some(settings) = &config.sources.cloudwatch {
        all.push(source::cloudwatch(settings, named(config, |target| target.cloudwatch.clone())).await?);
    }
    Ok(all)
}

/// The backend that the configuration names; `run` is a number for this run of the program.
async fn election(config: &Config, run: u64) -> Result<Box<dyn LeaderElection>, StartError> {
    election::start(&config.election, run).await
}

/// A number that no other run of this program has.
fn new_run() -> u64 {
    Random.below(u64::MAX)
}

/// Every file of the configuration that cannot be used: tokens, certificates, keys and addresses. The same is said at the
/// start, one at a time; a check says all of it, and connects to nothing.
#[must_use]
pub fn unusable_files(config: &Config) -> Vec<StartError> {
    let mut found = Vec::new();
    let mut listeners = vec![("status", &config.status)];
    if let Some(settings) = &config.actuators.envoy_rtds {
        listeners.push(("envoy-rtds", &settings.listen));
    }
    if let Some(settings) = &config.actuators.grpc_xds {
        listeners.push(("grpc-xds", &settings.listen));
    }
    if let Some(settings) = &config.actuators.policy_server {
        listeners.push(("policy-server", &settings.listen));
        if let Err(error) = std::fs::read_dir(&settings.folder) {
            found.push(unreadable("policy-server", &settings.folder, &error));
        }
    }
    let mut secrets = Vec::new();
    for (what, listen) in listeners {
        secrets.extend(listen.token_file.as_deref().map(|path| (what, path)));
        let tls = listen.tls.as_ref().map(|tls| server_config(what, tls));
        found.extend(tls.and_then(Result::err));
    }
    if let Election::Redis(lock) | Election::Postgres(lock) = &config.election
        && let Address::File(path) = &lock.address
    {
        secrets.push(("leaderElection", path));
    }
    for (what, path) in secrets {
        if let Err(error) = Secret::from_file(path) {
            found.push(unreadable(what, path, &error));
        }
    }
    let prometheus = config.sources.prometheus.as_ref();
    let prometheus = prometheus.map(|settings| ("prometheus", &settings.token_file, &settings.ca_file));
    let scrape = config.sources.scrape.as_ref();
    let scrape = scrape.map(|settings| ("scrape", &settings.token_file, &settings.ca_file));
    for (what, token_file, ca_file) in prometheus.into_iter().chain(scrape) {
        let access = Access {
            token_file: token_file.as_deref(),
            ca_file: ca_file.as_deref(),
        };
        found.extend(Fetch::new(what, access).err());
    }
    let cloudwatch = config.sources.cloudwatch.as_ref().map(|settings| &settings.reach);
    let aws = config.actuators.aws.as_ref().map(|settings| &settings.reach);
    let reaches = cloudwatch.map(|reach| ("cloudwatch", reach)).into_iter();
    for (what, reach) in reaches.chain(aws.map(|reach| ("aws", reach))) {
        if let Some(path) = &reach.credentials_file
            && let Err(error) = must_be_regular(path).and_then(|()| std::fs::File::open(path))
        {
            found.push(unreadable(what, path, &error));
        }
    }
    found
}

/// What works and should be looked at: ports that other machines reach without showing who they are.
#[must_use]
pub fn warnings(config: &Config) -> Vec<String> {
    let rtds = config
        .actuators
        .envoy_rtds
        .as_ref()
        .map(|settings| &settings.listen);
    let grpc = config
        .actuators
        .grpc_xds
        .as_ref()
        .map(|settings| &settings.listen);
    let policies = config
        .actuators
        .policy_server
        .as_ref()
        .map(|settings| &settings.listen);
    let ports = [
        ("status", Some(&config.status)),
        ("envoy-rtds", rtds),
        ("grpc-xds", grpc),
        ("policy-server", policies),
    ];
    ports
        .into_iter()
        .filter_map(|(what, listen)| Some((what, listen?)))
        .filter(|(_, listen)| listen.exposed(listen.address.ip()))
        .map(|(what, listen)| {
            format!(
                "{what} listens on {}, beyond loopback, and requires neither a token nor a client certificate; \
                 add `tokenFile:` or `tls: {{clientCa: …}}`",
                listen.address
            )
        })
        .collect()
}

fn unreadable(what: &'static str, path: &Path, error: &std::io::Error) -> StartError {
    StartError::File {
        what,
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

/// Everything that [`crate::reconcile::control_loop::run`] needs.
pub async fn components(config: &Config, dry_run: bool, leave: bool) -> Result<Components, StartError> {
    components_of_run(config, new_run(), dry_run, leave).await
}

async fn components_of_run(
    config: &Config,
    run: u64,
    dry_run: bool,
    leave: bool,
) -> Result<Components, StartError> {
    let actuators = actuators(config).await?;
    let place = |word: &str| actuators.iter().position(|actuator| actuator.name() == word);
    let targets = config
        .targets
        .iter()
        .map(|target| TargetSpec {
            name: target.name.clone(),
            guards: target.guards.clone(),
            price: target.price,
            source: target.source(),
            actuators: target.actuators().into_iter().filter_map(place).collect(),
        })
        .collect();
    Ok(Components {
        targets,
        sources: sources(config).await?,
        election: election(config, run).await?,
        actuators,
        limits: config.limits,
        dry_run,
        leave,
    })
}

/// In how many campaigns a process reaches for all shards, a part of them in each.
const ROUNDS_OF_START: usize = 3;

/// As [`components`], for each shard of the configuration.
pub async fn shards(config: &Config, dry_run: bool, leave: bool) -> Result<Vec<Components>, StartError> {
    let of = config.shards;
    if of == 1 {
        return Ok(vec![components(config, dry_run, leave).await?]);
    }
    let first = usize::try_from(Random.below(of as u64)).unwrap_or(0);
    let run = new_run();
    let mut all = Vec::new();
    for number in 0..of {
        let shard = Shard { number, of };
        let mut own = components_of_run(&config.of_shard(shard), run, dry_run, leave).await?;
        for actuator in &mut own.actuators {
            let inner = Arc::clone(actuator);
            *actuator = Arc::new(ActuatorOfShard { inner, shard });
        }
        own.election = Box::new(ElectionOfShard {
            inner: own.election,
            wait: (number + of - first) % of * ROUNDS_OF_START / of,
        });
        all.push(own);
    }
    Ok(all)
}

/// Records what the sources read into a file, for [`replay`].
///
/// # Errors
/// When the file cannot be opened.
pub fn record(components: &mut Components, path: &Path) -> Result<(), StartError> {
    let recorder = FileRecorder::open(path).map_err(|error| unreadable("record", path, &error))?;
    let recorder = Arc::new(Mutex::new(recorder));
    let sources = std::mem::take(&mut components.sources);
    components.sources = sources
        .into_iter()
        .map(|source| Box::new(RecordedSource::new(source, Arc::clone(&recorder))) as Box<dyn Source>)
        .collect();
    Ok(())
}

/// What the guards of a configuration would have decided on a recording; the time of its first and of its last round since
/// the Unix epoch.
///
/// # Errors
/// When the recording cannot be read.
pub fn replay(
    config: &Config,
    recording: &Path,
) -> Result<(Replay, Option<(Duration, Duration)>), StartError> {
    let targets = config
        .targets
        .iter()
        .map(|target| TargetSpec {
            name: target.name.clone(),
            guards: target.guards.clone(),
            price: target.price,
            source: target.source(),
            actuators: Vec::new(),
        })
        .collect();
    let mut replay = Replay::new(targets, config.limits);
    let mut span: Option<(Duration, Duration)> = None;
    recording::read(recording, |round| {
        let (first, _) = *span.get_or_insert((round.at, round.at));
        span = Some((first, round.at));
        let since = u64::try_from(round.at.saturating_sub(first).as_nanos()).unwrap_or(u64::MAX);
        replay.round(&round.readings, Instant::from_nanos(since));
    })
    .map_err(|error| unreadable("replay", recording, &error))?;
    Ok((replay, span))
}

/// The targets that have a block of one kind.
fn named<T>(config: &Config, block: impl Fn(&crate::config::Target) -> Option<T>) -> Vec<(TargetName, T)> {
    config
        .targets
        .iter()
        .filter_map(|target| Some((target.name.clone(), block(target)?)))
        .collect()
}
