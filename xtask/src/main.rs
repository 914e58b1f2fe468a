//! The workshop's own commands: `cargo xtask test` runs every check, `cargo xtask layers` the layering
//! check alone.

mod layers;
mod shell;
mod tidy;

use clap::{Parser, Subcommand};

/// Tests, checks and generated files of RetryGuard.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Formatting, lints, layering, tidiness, then every test.
    Test,
    /// Fails on a dependency edge that ARCHITECTURE.md's table does not allow.
    Layers,
    /// Fails on left-overs in the source tree.
    Tidy,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Test => test(),
        Command::Layers => layers::check(),
        Command::Tidy => tidy::check(),
    }
}

fn test() -> anyhow::Result<()> {
    shell::step("formatting", "cargo", &["fmt", "--all", "--check"])?;
    layers::check()?;
    tidy::check()?;
    shell::step(
        "lints",
        "cargo",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ],
    )?;
    shell::step(
        "tests",
        "cargo",
        &["test", "--workspace", "--all-features", "--no-fail-fast"],
    )
}
