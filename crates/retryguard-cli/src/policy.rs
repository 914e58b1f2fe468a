//! `retryguard policy serve DIR`: policies over HTTP, for clients that fetch theirs.

use std::{path::PathBuf, process::ExitCode};

use retryguard_controller::config::listen::Listen;
use retryguard_controller::process::serve_policies;

/// Serve policies over HTTP, for clients that fetch theirs.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard policy serve policies/ --listen 127.0.0.1:9465")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Serve(Serve),
}

/// Serve the policies of a folder with ETag and long poll; a wrong file keeps its last good version.
///
/// GET /policies lists them, GET /policies/NAME gives one. Decisions that a controller keeps in the same folder
/// are merged in, for as long as that controller confirms them. Runs until Ctrl-C or SIGTERM.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard policy serve policies/
  retryguard policy serve policies/ --listen 127.0.0.1:8080 --token-file token")]
struct Serve {
    /// The folder with the policies, NAME.yaml each.
    folder: PathBuf,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:9465")]
    listen: std::net::SocketAddr,
    /// The file with the token that clients must carry.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let Command::Serve(arguments) = &self.command;
        let listen = Listen {
            address: arguments.listen,
            tls: None,
            token_file: arguments.token_file.clone(),
        };
        let ready = |names: &[String], address| {
            eprintln!("serving {} on http://{address}/policies", names.join(", "));
        };
        let stopped = crate::log::block_on(serve_policies(&arguments.folder, &listen, ready))?;
        Ok(ExitCode::from(stopped.exit_code()))
    }
}
