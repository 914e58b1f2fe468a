//! `retryguard demo`: a retry storm, live, and the same load under RetryGuard.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use retryguard_lab::{
    demo::{self, Options, Own},
    faults::Kind,
};

use crate::foreign;

/// Show a retry storm and how it is stopped: five services on this machine, a minute, nothing to install.
///
/// The same load meets the same fault three times: under retries and timeouts, with a circuit breaker added (or under a
/// policy of yours), and under RetryGuard. The table at the end says what acted and what saved the orders.
#[derive(Args)]
#[command(after_help = "Examples:
  retryguard demo
  retryguard demo --plain --seed 11
  retryguard demo --policy my-policy.yaml
  retryguard demo --fault payment_errors
  retryguard demo --page 127.0.0.1:8080 --stay 600")]
pub(crate) struct Arguments {
    /// The seed of load and faults.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// A policy of yours, run in place of the circuit breaker: a policy file, or a file of Envoy, Istio, gRPC and so on. Its
    /// services are gateway, orders, payments, inventory and notifications. A payment takes 100 ms, and users wait for 3 s.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// What breaks for four seconds: capacity_loss, payment_errors, payment_slow, inventory_lock, retry_storm, kill, reset, drip.
    #[arg(long, value_name = "NAME", default_value = "capacity_loss")]
    fault: Kind,
    /// Where the page listens; any free port by default.
    #[arg(long, default_value = "127.0.0.1:0")]
    page: SocketAddr,
    /// Plain lines instead of a screen; the default where there is no terminal.
    #[arg(long)]
    plain: bool,
    /// Keep the page for so many seconds after the end.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    stay: u64,
}

impl Arguments {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let options = Options {
            seed: self.seed,
            page: self.page,
            plain: self.plain,
            stay: Duration::from_secs(self.stay),
            policy: self.policy.as_deref().map(own).transpose()?,
            fault: self.fault,
        };
        retryguard_lab::block_on(demo::run(options))
    }
}

/// The user's own policy. Mistakes are reported before anything is started.
fn own(path: &Path) -> anyhow::Result<Own> {
    let (file, policy) = foreign::policy(path)?;
    if let Some(warning) = Own::warning(&policy) {
        eprintln!("{}: {warning}", path.display());
    }
    let title = path
        .file_stem()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned();
    Ok(Own {
        title,
        text: file.text,
    })
}
