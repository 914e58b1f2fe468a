//! `retryguard demo`: a retry storm, live, and the same load under RetryGuard.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use clap::Args;
use retryguard_lab::demo::{self, Options};

/// Shows a retry storm and how it is stopped: five services on this machine, under a minute, nothing to install.
#[derive(Args)]
#[command(after_help = "Examples:
  retryguard demo
  retryguard demo --plain --seed 11
  retryguard demo --page 127.0.0.1:8080 --stay 600")]
pub(crate) struct Arguments {
    /// The seed of load and faults.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Where the page listens; any free port by default.
    #[arg(long, default_value = "127.0.0.1:0")]
    page: SocketAddr,
    /// Plain lines instead of a screen; the default where there is no terminal.
    #[arg(long)]
    plain: bool,
    /// Keeps the page for so many seconds after the end.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    stay: u64,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if !arguments.page.ip().is_loopback() {
        eprintln!("error: the page is for this machine only: give --page an address such as 127.0.0.1:8080");
        return ExitCode::from(2);
    }
    let options = Options {
        seed: arguments.seed,
        page: arguments.page,
        plain: arguments.plain,
        stay: Duration::from_secs(arguments.stay),
    };
    match retryguard_lab::block_on(demo::run(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::output::failed(&error, 1),
    }
}
