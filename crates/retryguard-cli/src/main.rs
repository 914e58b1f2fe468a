//! The `retryguard` command: thin. Each subcommand is a module of its own that parses its arguments, calls
//! a library crate and prints. Standard output is data, standard error is talk.

mod check;
mod controller;
mod demo;
#[cfg(test)]
mod documented;
mod explain;
mod foreign;
mod import;
mod init;
mod lab;
mod lint;
mod output;
mod play;
mod policy;
mod predict;
mod shell;
mod simulate;
mod tune;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

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
    Completions(shell::Completions),
    Controller(controller::Arguments),
    Demo(demo::Arguments),
    Explain(explain::Explain),
    Import(import::Import),
    Init(init::Init),
    Lab(lab::Arguments),
    Lint(lint::Arguments),
    Man(shell::Man),
    Play(play::Play),
    Policy(policy::Arguments),
    Predict(predict::Arguments),
    Render(import::Render),
    Simulate(simulate::Arguments),
    Tune(tune::Tune),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Check(check) => check.run(),
        Command::Completions(arguments) => arguments.run(Arguments::command()),
        Command::Controller(arguments) => controller::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Explain(arguments) => arguments.run(),
        Command::Import(arguments) => arguments.run(),
        Command::Init(arguments) => arguments.run(),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Man(arguments) => arguments.run(Arguments::command()),
        Command::Play(arguments) => arguments.run(),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Render(arguments) => arguments.run(),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Tune(tune) => tune.run(),
    }
}
