//! `retryguard policy serve DIR`: policies over HTTP, for clients that fetch theirs.

use std::{path::PathBuf, process::ExitCode};

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

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let Command::Serve(arguments) = &arguments.command;
    crate::log::to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let served = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(serve(arguments)));
    match served {
        Ok(ended) => ended,
        Err(error) => {
            eprintln!("retryguard policy serve: {error}");
            ExitCode::from(2)
        }
    }
}

async fn serve(arguments: &Serve) -> anyhow::Result<ExitCode> {
    use retryguard_controller::adapters::actuator::policy_server::PolicyServer;
    use retryguard_controller::config::listen::Listen;
    use tokio::signal::unix::{SignalKind, signal};
    let listen = Listen {
        address: arguments.listen,
        tls: None,
        token_file: arguments.token_file.clone(),
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = PolicyServer::start(&arguments.folder, &listen, Vec::new()).await?;
    eprintln!(
        "serving {} on http://{}/policies",
        server.names().join(", "),
        server.address()
    );
    // SIGTERM is how a service is stopped; Ctrl-C exits as it does everywhere.
    tokio::select! {
        _ = interrupt.recv() => Ok(ExitCode::from(130)),
        _ = terminate.recv() => Ok(ExitCode::SUCCESS),
    }
}
