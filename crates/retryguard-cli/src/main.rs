//! The `retryguard` command: thin. Each subcommand is a module of its own that parses its arguments, calls
//! a library crate and prints. Standard output is data, standard error is talk.

mod calibrate;
mod check;
#[cfg(feature = "controller")]
mod controller;
mod demo;
// The pages speak of every command and every option.
#[cfg(all(test, feature = "controller", feature = "lab-real"))]
#[path = "../tests/unit/documented.rs"]
mod documented;
#[cfg(test)]
#[path = "../tests/unit/examples.rs"]
mod examples;
mod explain;
mod foreign;
mod import;
mod init;
mod lab;
mod lint;
#[cfg(feature = "controller")]
mod log;
mod modelled;
mod output;
mod play;
#[cfg(feature = "controller")]
mod policy;
mod predict;
mod shell;
mod simulate;
mod tune;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Stops retry storms: lint, predict, check, prove and enforce retry policies.
#[derive(Parser)]
#[command(name = "retryguard", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Calibrate(calibrate::Calibrate),
    Check(check::Check),
    Completions(shell::Completions),
    #[cfg(feature = "controller")]
    Controller(controller::Arguments),
    Demo(demo::Arguments),
    Explain(explain::Explain),
    Import(import::Import),
    Init(init::Init),
    Lab(lab::Arguments),
    Lint(lint::Arguments),
    Man(shell::Man),
    Play(play::Play),
    #[cfg(feature = "controller")]
    Policy(policy::Arguments),
    Predict(predict::Arguments),
    Render(import::Render),
    Simulate(simulate::Arguments),
    Tune(tune::Tune),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Calibrate(arguments) => arguments.run(),
        Command::Check(check) => check.run(),
        Command::Completions(arguments) => arguments.run(Arguments::command()),
        #[cfg(feature = "controller")]
        Command::Controller(arguments) => controller::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Explain(arguments) => arguments.run(),
        Command::Import(arguments) => arguments.run(),
        Command::Init(arguments) => arguments.run(),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Man(arguments) => arguments.run(Arguments::command()),
        Command::Play(arguments) => arguments.run(),
        #[cfg(feature = "controller")]
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Render(arguments) => arguments.run(),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Tune(tune) => tune.run(),
    }
}
