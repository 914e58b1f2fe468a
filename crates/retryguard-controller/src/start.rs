//! From a configuration to its sources and actuators.

use std::sync::Arc;

use crate::{
    actuator::{self, Actuator},
    board::Watched,
    config::Config,
    lead::{self, Lead},
    run::Parts,
    source::{self, Source},
    target::TargetName,
};

/// Why the controller does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// This program was built without it.
    #[error("this program was built without `{what}`; build it with `--features {feature}`")]
    NotBuilt {
        /// The source, actuator or lead.
        what: &'static str,
        /// The feature that brings it.
        feature: &'static str,
    },
    /// A port cannot be listened on.
    #[error("{what} cannot listen on {address}: {reason}; choose another port or stop who has it")]
    Listen {
        /// Who wants to listen.
        what: &'static str,
        /// Where.
        address: String,
        /// What the operating system said.
        reason: String,
    },
    /// A file cannot be read or is not what it should be.
    #[error("{what} cannot use {path}: {reason}")]
    File {
        /// Who wants it.
        what: &'static str,
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A client cannot be made from its settings.
    #[error("{what}: {reason}")]
    Settings {
        /// Whose.
        what: &'static str,
        /// What is wrong with them.
        reason: String,
    },
}

/// The actuators that the configuration names, started. Those that listen have their ports; those that call
/// somebody have not called yet, so that a data plane that is down does not keep the controller from starting.
pub async fn actuators(config: &Config) -> Result<Vec<Arc<dyn Actuator>>, StartError> {
    let mut all: Vec<Arc<dyn Actuator>> = Vec::new();
    if let Some(settings) = &config.actuators.envoy_rtds {
        all.push(actuator::envoy_rtds(settings, named(config, |target| target.envoy_rtds.clone())).await?);
    }
    if let Some(settings) = &config.actuators.envoy_admin {
        all.push(actuator::envoy_admin(settings, named(config, |target| target.envoy_admin.clone())).await?);
    }
    if let Some(settings) = &config.actuators.istio {
        all.push(actuator::istio(settings, named(config, |target| target.istio.clone())).await?);
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

/// The sources that the configuration names. None has asked anybody yet.
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

/// The judge that the configuration names.
pub async fn lead(config: &Config) -> Result<Box<dyn Lead>, StartError> {
    lead::start(&config.lead).await
}

/// Everything that [`crate::run::run`] needs.
pub async fn parts(config: &Config, dry_run: bool, leave: bool) -> Result<Parts, StartError> {
    let actuators = actuators(config).await?;
    let place = |word: &str| actuators.iter().position(|actuator| actuator.name() == word);
    let watched = config
        .targets
        .iter()
        .map(|target| Watched {
            name: target.name.clone(),
            guards: target.guards.clone(),
            source: target.source(),
            actuators: target.actuators().into_iter().filter_map(place).collect(),
        })
        .collect();
    Ok(Parts {
        watched,
        sources: sources(config).await?,
        lead: lead(config).await?,
        actuators,
        limits: config.limits,
        dry_run,
        leave,
    })
}

/// The targets that have a block of one kind.
fn named<T>(config: &Config, block: impl Fn(&crate::config::Target) -> Option<T>) -> Vec<(TargetName, T)> {
    config
        .targets
        .iter()
        .filter_map(|target| Some((target.name.clone(), block(target)?)))
        .collect()
}
