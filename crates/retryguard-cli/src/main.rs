//! The `retryguard` command: thin. Each subcommand is a module of its own that parses its arguments, calls
//! a library crate and prints. Standard output is data, standard error is talk.

mod chart;
mod check;
mod lint;
mod predict;
mod simulate;
mod tune;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Stops retry storms: lint, predict, check, prove and enforce retry policies.
#[derive(Parser)]
#[command(name = "retryguard", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Check),
    Lint(lint::Arguments),
    Predict(predict::Arguments),
    Simulate(simulate::Arguments),
    Tune(tune::Tune),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Check(check) => check.run(),
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Tune(tune) => tune.run(),
    }
}
