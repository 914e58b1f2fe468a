//! `retryguard controller`: watches services in any language and switches their retries off while they do harm.

mod replay;
mod start;
mod status;

use std::{path::PathBuf, process::ExitCode};

/// Watch services in any language and switch their retries off while they do harm.
///
/// Runs until it is asked to stop (SIGTERM or Ctrl-C), and then restores what it changed. Exits with 0 when
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
pub(crate) struct Status {
    /// Where it listens.
    #[arg(long, default_value = "http://127.0.0.1:9464")]
    address: String,
    /// The file with the token that it wants.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificates to trust, as PEM; those of the machine where none is given.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Print the status as it is.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match (&arguments.command, &arguments.config) {
        (Some(Command::Status(status)), _) => status::run(status),
        (Some(Command::Replay(replay)), _) => replay::run(replay),
        (None, Some(config)) if arguments.check => start::check(config),
        (None, Some(config)) => start::run(config, arguments),
        (None, None) => {
            eprintln!("retryguard controller: which configuration? Write `--config controller.yaml`");
            ExitCode::from(2)
        }
    }
}
