//! Experiments on a real Envoy, written down below `docs/evidence`.

use xtask::{parts, shell};

/// The storm with and without the controller: nine minutes of load on this machine.
pub(crate) fn storm() -> anyhow::Result<()> {
    experiment(
        "RETRYGUARD_EXPERIMENT_OUT",
        "docs/evidence/envoy-experiment",
        "envoy::storm::experiment::write_the_experiment",
    )
}

/// Random failures, an overload and an outage in one run: six minutes of load on this machine.
pub(crate) fn phases() -> anyhow::Result<()> {
    experiment(
        "RETRYGUARD_PHASES_OUT",
        "docs/evidence/envoy-phases",
        "envoy::storm::four_phases::write_the_four_phases",
    )
}

/// More than a hundred kills of controllers, Envoys and sources: three minutes.
pub(crate) fn faults() -> anyhow::Result<()> {
    experiment(
        "RETRYGUARD_FAULTS_OUT",
        "docs/evidence/controller-faults",
        "envoy::faults::write_the_faults",
    )
}

/// The experiments share their world with the tests of the controller, so they are run as tests that a variable switches on.
fn experiment(variable: &str, folder: &str, test: &str) -> anyhow::Result<()> {
    let variables = [
        parts::envoy()?,
        (variable.to_owned(), std::path::absolute(folder)?.into_os_string()),
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
            test,
        ],
        &variables,
    )
}
