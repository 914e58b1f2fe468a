//! The `retryguard` command: thin. Each subcommand is a module of its own that parses its arguments, calls
//! a library crate and prints. Standard output is data, standard error is talk.

mod check;
mod controller;
mod demo;
#[cfg(test)]
mod documented;
mod lab;
mod lint;
mod output;
mod policy;
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
    Controller(controller::Arguments),
    Demo(demo::Arguments),
    Lab(lab::Arguments),
    Lint(lint::Arguments),
    Policy(policy::Arguments),
    Predict(predict::Arguments),
    Simulate(simulate::Arguments),
    Tune(tune::Tune),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Check(check) => check.run(),
        Command::Controller(arguments) => controller::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Tune(tune) => tune.run(),
    }
}
