//! The `retryguard` command: thin. Each subcommand is a module of its own that parses its arguments, calls
//! a library crate and prints. Standard output is data, standard error is talk.

use clap::{Parser, Subcommand};

/// Stops retry storms: lint, predict, check, prove and enforce retry policies.
#[derive(Parser)]
#[command(name = "retryguard", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {}

fn main() {
    match Arguments::parse().command {}
}
