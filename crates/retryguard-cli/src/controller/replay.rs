//! `retryguard controller replay`: what would have been decided on recorded readings.

use std::process::ExitCode;

use anyhow::Context as _;
use retryguard_controller::{adapters::terminal, config::Config, start};

use super::Replay;

pub(super) fn run(arguments: &Replay) -> ExitCode {
    match Config::load(&arguments.config) {
        Ok(config) => crate::output::exit("controller replay", answer(&config, arguments)),
        Err(error) => super::start::tell(&error),
    }
}

fn answer(config: &Config, arguments: &Replay) -> anyhow::Result<()> {
    let (replay, span) = start::replay(config, &arguments.recording)?;
    let (first, last) = span.with_context(|| {
        format!(
            "{} has no rounds; record with `retryguard controller --record FILE`",
            arguments.recording.display()
        )
    })?;
    let recorded = last.saturating_sub(first);
    crate::output::print(&if arguments.json {
        format!("{:#}\n", terminal::replay_json(&replay, recorded))
    } else {
        terminal::replay(&replay, recorded)
    })
}
