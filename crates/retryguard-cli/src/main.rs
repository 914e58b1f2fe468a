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

/// Stops retry storms: shows them, judges retry policies before they ship, and enforces them.
#[derive(Parser)]
#[command(name = "retryguard", version)]
#[command(after_help = "Begin with:
  retryguard demo                          a retry storm on this machine, and what stops it
  retryguard lint virtual-service.yaml     what makes a storm in a file of Envoy, Istio, gRPC, …
  retryguard init                          a policy of your own
  retryguard play                          policies in known storms, on a local page")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// In the order in which they are met: look, write, judge, run, the rest.
#[derive(Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Play(play::Play),
    Init(init::Init),
    Import(import::Import),
    Lint(lint::Arguments),
    Explain(explain::Explain),
    Simulate(simulate::Arguments),
    Calibrate(calibrate::Calibrate),
    Tune(tune::Tune),
    Predict(predict::Arguments),
    Check(check::Check),
    Render(import::Render),
    #[cfg(feature = "controller")]
    Controller(controller::Arguments),
    #[cfg(feature = "controller")]
    Policy(policy::Arguments),
    Lab(lab::Arguments),
    Completions(shell::Completions),
    Man(shell::Man),
}

fn main() -> ExitCode {
    run(Arguments::parse().command).unwrap_or_else(|error| output::failed(&error))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Calibrate(arguments) => arguments.run()?,
        Command::Check(arguments) => arguments.run()?,
        Command::Completions(arguments) => arguments.run(Arguments::command())?,
        #[cfg(feature = "controller")]
        Command::Controller(arguments) => return arguments.run(),
        Command::Demo(arguments) => arguments.run()?,
        Command::Explain(arguments) => arguments.run()?,
        Command::Import(arguments) => arguments.run()?,
        Command::Init(arguments) => arguments.run()?,
        Command::Lab(arguments) => arguments.run()?,
        Command::Lint(arguments) => return arguments.run(),
        Command::Man(arguments) => arguments.run(Arguments::command())?,
        Command::Play(arguments) => arguments.run()?,
        #[cfg(feature = "controller")]
        Command::Policy(arguments) => return arguments.run(),
        Command::Predict(arguments) => arguments.run()?,
        Command::Render(arguments) => arguments.run()?,
        Command::Simulate(arguments) => arguments.run()?,
        Command::Tune(arguments) => arguments.run()?,
    }
    Ok(ExitCode::SUCCESS)
}
