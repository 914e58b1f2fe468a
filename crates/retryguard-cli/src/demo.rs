//! `retryguard demo`: a retry storm, live, and the same load under RetryGuard.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use retryguard_lab::{
    Name,
    demo::{self, Options, Own},
    faults::Kind,
};

use crate::foreign;

/// Shows a retry storm and how it is stopped: five services on this machine, a minute, nothing to install.
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
    /// Keeps the page for so many seconds after the end.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    stay: u64,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if !arguments.page.ip().is_loopback() {
        eprintln!("error: the page is for this machine only: give --page an address such as 127.0.0.1:8080");
        return ExitCode::from(2);
    }
    let policy = match arguments.policy.as_deref().map(own).transpose() {
        Ok(policy) => policy,
        Err(error) => return crate::output::failed(&error, 2),
    };
    let options = Options {
        seed: arguments.seed,
        page: arguments.page,
        plain: arguments.plain,
        stay: Duration::from_secs(arguments.stay),
        policy,
        fault: arguments.fault,
    };
    match retryguard_lab::block_on(demo::run(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::output::failed(&error, 1),
    }
}

/// The user's own policy. Mistakes are reported before anything is started.
fn own(path: &Path) -> anyhow::Result<Own> {
    let name = path.display().to_string();
    let (file, policy) = foreign::policy(path)?;
    let services = policy.services().count();
    let known = |service: &str| Name::ALL.iter().any(|name| name.as_str() == service);
    if services > 0 && !policy.services().any(|(service, _)| known(service)) {
        eprintln!(
            "{name}: none of its services is one of the demo's (gateway, orders, payments, inventory, notifications): \
             its defaults apply to all of them"
        );
    }
    let title = path
        .file_name()
        .map_or_else(|| name.clone(), |name| name.to_string_lossy().into_owned());
    Ok(Own {
        title,
        text: file.text,
    })
}
