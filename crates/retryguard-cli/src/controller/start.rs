//! Runs the controller until it is asked to stop.

use std::{path::Path, process::ExitCode};

use retryguard_controller::config::{Config, ConfigError};
use retryguard_controller::process::{self, RunOptions, Stopped};
use retryguard_controller::reconcile::control_loop::Ended;

pub(super) fn check(path: &Path) -> ExitCode {
    let checked = match process::check(path) {
        Ok(checked) => checked,
        Err(error) => return tell(&error),
    };
    let file = path.display();
    for error in &checked.unusable {
        eprintln!("{file}: {error}");
    }
    for warning in &checked.warnings {
        eprintln!("{file}: warning: {warning}");
    }
    if !checked.unusable.is_empty() {
        return ExitCode::from(2);
    }
    let targets = match checked.targets {
        1 => "1 target".to_owned(),
        several => format!("{several} targets"),
    };
    eprintln!("{file}: no mistake, {targets}");
    ExitCode::SUCCESS
}

pub(super) fn run(path: &Path, arguments: &super::Arguments) -> ExitCode {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(error) => return tell(&error),
    };
    let options = RunOptions {
        dry_run: arguments.dry_run,
        leave: arguments.leave,
        record: arguments.record.clone(),
    };
    let ready = |address| eprintln!("status on {address}");
    match crate::log::block_on(process::run(&config, &options, ready)) {
        Ok((Ended::Incomplete, _)) => ExitCode::FAILURE,
        Ok((_, Stopped::Interrupted)) => ExitCode::from(130),
        Ok((_, Stopped::Terminated)) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retryguard controller: {error}");
            ExitCode::from(2)
        }
    }
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
