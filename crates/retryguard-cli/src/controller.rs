//! `retryguard controller`: watches services in any language and switches their retries off while they do harm.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use retryguard_controller::{
    adapters::{http::status_client, terminal},
    config::Config,
    process::{self, RunOptions},
    reconcile::control_loop::Ended,
    start,
};

use crate::output::print;

/// Watch services in any language and switch their retries off while they do harm.
///
/// Runs until it is asked to stop (SIGTERM or Ctrl-C), and then restores what it changed. Exits with 0 (130 after Ctrl-C) when
/// everything is as the user configured it, with 1 when something could not be restored, and with 2 when it
/// cannot start. Every key of the configuration is explained in docs/controller.md.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  retryguard controller --config controller.yaml --check
  retryguard controller --config controller.yaml --dry-run
  retryguard controller status")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The configuration.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// When stopped, leave the data plane as it is.
    #[arg(long)]
    leave: bool,
    /// Record what the sources read, for `replay`; at 256 MiB the file is begun anew and the former is kept as FILE.1.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Read the configuration, report every mistake in it, and stop.
    #[arg(long)]
    check: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    Status(Status),
    Replay(Replay),
}

/// Show what the guards would have decided on recorded readings.
///
/// Nothing is contacted. `--record FILE` of a running controller makes a recording, with `--dry-run` without changing anything.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard controller --config controller.yaml --dry-run --record readings
  retryguard controller replay readings --config controller.yaml")]
pub(crate) struct Replay {
    /// The recording.
    recording: PathBuf,
    /// The configuration whose targets, guards and limits are used.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

/// Show what a running controller sees and does, as a table.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard controller status
  retryguard controller status --address http://10.0.0.7:9464 --token-file token --json")]
pub(crate) struct Status {
    /// Where it listens.
    #[arg(long, default_value = "http://127.0.0.1:9464")]
    address: String,
    /// The file with the bearer token that its port requires.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificates to trust, as PEM; those of the machine where none is given.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Print the status as it is.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match (&self.command, &self.config) {
            (Some(Command::Status(status)), _) => status.run(),
            (Some(Command::Replay(replay)), _) => replay.run(),
            (None, Some(config)) if self.check => check(config),
            (None, Some(config)) => self.start(config),
            (None, None) => bail!("which configuration? Write `--config controller.yaml`"),
        }
    }

    fn start(&self, path: &Path) -> anyhow::Result<ExitCode> {
        let options = RunOptions {
            dry_run: self.dry_run,
            leave: self.leave,
            record: self.record.clone(),
        };
        let config = Config::load(path)?;
        let ready = |address| eprintln!("status on {address}");
        let (ended, stopped) = crate::log::block_on(process::run(&config, &options, ready))?;
        Ok(match ended {
            Ended::Incomplete => ExitCode::FAILURE,
            _ => ExitCode::from(stopped.exit_code()),
        })
    }
}

fn check(path: &Path) -> anyhow::Result<ExitCode> {
    let checked = process::check(path)?;
    for line in checked.to_string().lines() {
        eprintln!("{}: {line}", path.display());
    }
    Ok(ExitCode::from(if checked.unusable.is_empty() { 0 } else { 2 }))
}

impl Replay {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let (replay, span) = start::replay(&Config::load(&self.config)?, &self.recording)?;
        let (first, last) = span.with_context(|| {
            format!(
                "{} has no rounds; record with `retryguard controller --record FILE`",
                self.recording.display()
            )
        })?;
        let recorded = last.saturating_sub(first);
        print(&if self.json {
            format!("{:#}\n", terminal::replay_json(&replay, recorded))
        } else {
            terminal::replay(&replay, recorded)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Status {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let status = runtime.block_on(status_client::status(
            &self.address,
            self.token_file.as_deref(),
            self.ca_file.as_deref(),
        ));
        let status = status.map_err(|error| anyhow::anyhow!("{error}"))?;
        print(&if self.json {
            format!("{status:#}\n")
        } else {
            terminal::status(&status)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
