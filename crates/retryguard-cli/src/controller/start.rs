//! Runs the controller until it is asked to stop.

use std::{path::Path, process::ExitCode};

use retryguard_controller::adapters::http::status_page;
use retryguard_controller::config::{Config, ConfigError, election::Election};
use retryguard_controller::reconcile::control_loop::{Ended, MOST_QUERIES};
use retryguard_controller::reconcile::shards::run_shards;
use retryguard_controller::start;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

pub(super) fn check(path: &Path) -> ExitCode {
    match Config::load(path) {
        Ok(config) => {
            let unusable = start::unusable_files(&config);
            for error in &unusable {
                eprintln!("{}: {error}", path.display());
            }
            for warning in start::warnings(&config) {
                eprintln!("{}: warning: {warning}", path.display());
            }
            for (what, feature) in missing(&config) {
                eprintln!(
                    "{}: warning: this program was built without `{what}`; build it with `--features {feature}`",
                    path.display()
                );
            }
            if !unusable.is_empty() {
                return ExitCode::from(2);
            }
            let targets = match config.targets.len() {
                1 => "1 target".to_owned(),
                several => format!("{several} targets"),
            };
            eprintln!("{}: no mistake, {targets}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => tell(&error),
    }
}

/// What the configuration asks for and this program does not have, with the feature that brings it.
fn missing(config: &Config) -> Vec<(&'static str, &'static str)> {
    let leads = |wanted: fn(&Election) -> bool| wanted(&config.election);
    let all = [
        ("istio", "kubernetes", config.actuators.istio.is_some()),
        (
            "gateway-api",
            "kubernetes",
            config.actuators.gateway_api.is_some(),
        ),
        ("linkerd", "kubernetes", config.actuators.linkerd.is_some()),
        (
            "leaderElection.kubernetes",
            "kubernetes",
            leads(|it| matches!(it, Election::Kubernetes(_))),
        ),
        (
            "leaderElection.redis",
            "redis",
            leads(|it| matches!(it, Election::Redis(_))),
        ),
        (
            "leaderElection.postgres",
            "postgres",
            leads(|it| matches!(it, Election::Postgres(_))),
        ),
        ("aws", "aws", config.actuators.aws.is_some()),
        ("cloudwatch", "aws", config.sources.cloudwatch.is_some()),
    ];
    all.into_iter()
        .filter(|(_, feature, wanted)| *wanted && !has(feature))
        .map(|(what, feature, _)| (what, feature))
        .collect()
}

const fn has(feature: &str) -> bool {
    match feature.as_bytes() {
        b"kubernetes" => cfg!(feature = "kubernetes"),
        b"redis" => cfg!(feature = "redis"),
        b"postgres" => cfg!(feature = "postgres"),
        _ => cfg!(feature = "aws"),
    }
}

pub(super) fn run(path: &Path, arguments: &super::Arguments) -> ExitCode {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(error) => return tell(&error),
    };
    crate::log::to_stderr();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("retryguard controller: no runtime: {error}");
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(controller(&config, arguments)) {
        Ok((Ended::Incomplete, _)) => ExitCode::FAILURE,
        // SIGTERM is how a service is stopped; Ctrl-C exits as it does everywhere.
        Ok((_, true)) => ExitCode::from(130),
        Ok((_, false)) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retryguard controller: {error}");
            ExitCode::from(2)
        }
    }
}

/// How it ended, and whether by Ctrl-C.
async fn controller(config: &Config, arguments: &super::Arguments) -> anyhow::Result<(Ended, bool)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    start::raise_descriptor_limit();
    let mut shards = start::shards(config, arguments.dry_run, arguments.leave).await?;
    if let Some(path) = &arguments.record {
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
    eprintln!("status on {}", port.address());
    let (mark, interrupted) = tokio::sync::oneshot::channel();
    let ended = run_shards(shards, received, async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {
                let _ = mark.send(());
            }
        }
    })
    .await;
    Ok((ended, interrupted.await.is_ok()))
}

pub(super) fn tell(error: &ConfigError) -> ExitCode {
    match error {
        ConfigError::Wrong { path, mistakes } => {
            for mistake in mistakes.as_slice() {
                let (line, column) = (mistake.at.line, mistake.at.column);
                eprintln!(
                    "{}:{line}:{column}: {}; {}",
                    path.display(),
                    mistake.message,
                    mistake.help
                );
            }
        }
        other => eprintln!("retryguard controller: {other}"),
    }
    ExitCode::from(2)
}
