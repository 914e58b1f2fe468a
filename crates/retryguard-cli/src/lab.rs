//! `retryguard lab`: the five services of the laboratory, and the experiments that are done on them.

mod run;
mod stores;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand};
use retryguard_lab::{
    Configuration, Name, ServeOptions, Settings, TimeScale,
    settings::{Addresses, Capacity},
};

/// Start five real services to break: gateway, orders, payments, inventory, notifications; or run experiments on them.
#[derive(Args)]
#[command(after_help = "Examples:
  retryguard lab serve
  retryguard lab run --config A,C,G --fault payment_errors
  retryguard lab run --config G --fault retry_storm --out results")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(Serve),
    Run(run::Run),
}

/// Start services and keep them up until Ctrl-C.
#[derive(Args)]
#[command(after_help = "Examples:
  retryguard lab serve
  retryguard lab serve --config C --workers 6 --queue 120
  retryguard lab serve --service payments --address payments=127.0.0.1:8002")]
struct Serve {
    /// A service to start in this process; all five where none is named.
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<Name>,
    /// How the services protect themselves, from A (no protection) to G (RetryGuard); docs/lab.md describes each.
    #[arg(long, default_value = "G")]
    config: Configuration,
    /// A policy file in place of a configuration.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    policy: Option<PathBuf>,
    /// Where a service listens, or where one that runs elsewhere is: orders=127.0.0.1:8001.
    #[arg(long = "address", value_name = "NAME=ADDRESS", value_parser = Addresses::entry)]
    addresses: Vec<(Name, SocketAddr)>,
    /// The factor on all durations.
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// The seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Payments' workers.
    #[arg(long, default_value_t = 1000)]
    workers: usize,
    /// Places to wait for one of payments' workers.
    #[arg(long, default_value_t = 0)]
    queue: usize,
    /// The token of the admin interface; a random one is printed where none is given.
    #[arg(long, env = "RETRYGUARD_LAB_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Where the databases are kept; a temporary folder by default.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    stores: stores::Choice,
    /// The schema in PostgreSQL that the services of a system share; made where it is missing.
    #[cfg(feature = "lab-real")]
    #[arg(long, default_value = "retryguard_lab")]
    schema: String,
    /// Write no line for each request.
    #[arg(long)]
    quiet: bool,
    /// End when the standard input is closed.
    #[arg(long)]
    with_parent: bool,
    /// Where a collector takes OTLP over HTTP: http://127.0.0.1:4318.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

impl Arguments {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match &self.command {
            Command::Serve(serve) => {
                retryguard_lab::block_on(retryguard_lab::serve(settings(serve)?, &serve.how()))
            }
            Command::Run(run) => run.run(),
        }
    }
}

impl Serve {
    fn how(&self) -> ServeOptions {
        ServeOptions {
            services: self.services.clone(),
            quiet: self.quiet,
            with_parent: self.with_parent,
            otlp: self.otlp.clone(),
        }
    }
}

fn settings(serve: &Serve) -> anyhow::Result<Settings> {
    let mut settings = Settings::described(serve.config);
    if let Some(path) = &serve.policy {
        settings.policy = std::fs::read_to_string(path)
            .map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
        settings.title = path.display().to_string();
    }
    settings.scale = TimeScale::new(serve.time_scale)?;
    settings.seed = serve.seed;
    settings.payments = Capacity {
        workers: serve.workers,
        queue: serve.queue,
    };
    settings.token.clone_from(&serve.token);
    settings.folder.clone_from(&serve.folder);
    #[cfg(feature = "lab-real")]
    {
        settings.backing = serve.stores.backing(&serve.schema)?;
    }
    for (name, address) in &serve.addresses {
        settings.addresses.set(*name, *address);
    }
    Ok(settings)
}
