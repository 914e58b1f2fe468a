//! The storm on a real Envoy, written down as `docs/evidence/envoy-experiment`.

use xtask::{parts, shell};

/// Runs it: nine minutes of load on this machine.
pub(crate) fn write() -> anyhow::Result<()> {
    let variables = [
        parts::envoy()?,
        (
            "RETRYGUARD_EXPERIMENT_OUT".to_owned(),
            std::path::absolute("docs/evidence/envoy-experiment")?.into_os_string(),
        ),
    ];
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_os_str()))
        .collect();
    shell::step_with(
        "experiment",
        "cargo",
        &[
            "test",
            "--package=retryguard-controller",
            "--features=envoy",
            "--test=it",
            "--",
            "--exact",
            "--include-ignored",
            "--nocapture",
            "envoy::storm::experiment::write_the_experiment",
        ],
        &variables,
    )
}
