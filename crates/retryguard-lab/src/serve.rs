//! Services that stay up until they are stopped.

use crate::{
    Interrupted, Name, Settings, System,
    trace::{self, Otlp},
};

/// Which services run in this process, and what becomes of their log and their traces.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// The services; all five where none is named.
    pub services: Vec<Name>,
    /// Whether no line is written for each request.
    pub quiet: bool,
    /// Whether they end when the standard input is closed, instead of by a signal.
    pub with_parent: bool,
    /// Where a collector takes OTLP over HTTP.
    pub otlp: Option<String>,
}

/// Starts services, prints their addresses, and keeps them up.
///
/// # Errors
/// Where one cannot start, and [`Interrupted`] after Ctrl-C: SIGTERM is how a service is stopped, Ctrl-C exits as it does
/// everywhere.
pub async fn serve(settings: Settings, options: &ServeOptions) -> anyhow::Result<()> {
    let names = if options.services.is_empty() {
        Name::ALL.to_vec()
    } else {
        options.services.clone()
    };
    for name in names.iter().flat_map(|name| name.calls()) {
        let place = Name::ALL.iter().position(|known| known == name).unwrap_or(0);
        if !names.contains(name) && settings.addresses.0[place].port() == 0 {
            anyhow::bail!(
                "{name} does not run here and is called: say where it is with --address {name}=127.0.0.1:PORT"
            );
        }
    }
    if !options.quiet {
        crate::log_to_stderr();
    }
    let otlp = options.otlp.as_deref().map(Otlp::start).transpose()?;
    if let Some(otlp) = &otlp {
        trace::export_to(otlp.clone());
    }
    let interrupted = (!options.with_parent).then(crate::interrupt);
    let system = System::start_some(settings, &names).await?;
    for name in names {
        println!("{name} http://{}", system.address(name));
    }
    println!("token {}", system.token());
    println!("policy {}", system.policy().digest());
    let ended = if let Some(interrupted) = interrupted {
        Some(interrupted.await?)
    } else {
        crate::standard_input_closed().await;
        None
    };
    system.stop().await;
    if let Some(otlp) = otlp {
        otlp.flush().await;
    }
    match ended {
        Some(Interrupted::Interrupt) => Err(Interrupted::Interrupt.into()),
        _ => Ok(()),
    }
}
