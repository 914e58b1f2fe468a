//! `retryguard controller status`: a running controller's status.

use std::process::ExitCode;

use retryguard_controller::adapters::{http::status_client, terminal};

pub(super) fn run(arguments: &super::Status) -> ExitCode {
    crate::output::exit("controller status", answer(arguments))
}

fn answer(arguments: &super::Status) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let status = runtime.block_on(status_client::status(
        &arguments.address,
        arguments.token_file.as_deref(),
        arguments.ca_file.as_deref(),
    ));
    let status = status.map_err(|error| anyhow::anyhow!("{error}"))?;
    crate::output::print(&if arguments.json {
        format!("{status:#}\n")
    } else {
        terminal::status(&status)
    })
}
