//! Times the subjects, or runs one of them for callgrind.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, Subcommand};
use retryguard_bench::{
    AT_ONCE, CROWDS, Caller, at_once, crowds, instructions_per_call, subject, subjects, time,
};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Prints what each subject is: name, package, peer (or a dash), description; tabs between them.
    List,
    /// Prints nanoseconds a call of each subject: name, one thread, all threads, undisturbed rounds of all
    /// threads; tabs between them.
    Time {
        /// Only these; all of them where none is named.
        names: Vec<String>,
        /// How often each subject is timed.
        #[arg(long, default_value_t = 151)]
        rounds: usize,
        /// How many calls one timing consists of.
        #[arg(long, default_value_t = 5_000)]
        calls: u64,
        /// How many threads call one target.
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Prints how many calls a microsecond several threads on one target make together. The first line has the numbers of
    /// threads; then each subject: name, one figure for each number of threads; tabs between them.
    Crowds {
        /// Only these; all of them where none is named.
        names: Vec<String>,
        /// How often each is timed; the best counts.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// How many calls the threads make together.
        #[arg(long, default_value_t = 400_000)]
        calls: u64,
    },
    /// Prints what one of many calls at once on one target takes: how many there are, nanoseconds until it waits, nanoseconds from
    /// its answer to its end, bytes of its future; tabs between them.
    Many {
        /// How often each is timed; the best counts.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Prints instructions a call of each subject, by callgrind: name, count; a tab between them.
    Instructions {
        /// Only this one.
        name: Option<String>,
    },
    /// Makes calls of one subject, and prints nothing.
    Run {
        /// Which.
        name: String,
        /// How many.
        calls: u64,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::List => {
            for it in subjects() {
                println!(
                    "{}\t{}\t{}\t{}",
                    it.name,
                    it.package,
                    it.peer.unwrap_or("-"),
                    it.what
                );
            }
        }
        Command::Time {
            names,
            rounds,
            calls,
            threads,
        } => {
            let mut subjects = subjects();
            subjects.retain(|it| names.is_empty() || names.iter().any(|name| name == it.name));
            let timings = time(&subjects, rounds, calls, threads);
            for (subject, timing) in subjects.iter().zip(timings) {
                println!(
                    "{}\t{:.1}\t{:.1}\t{}",
                    subject.name, timing.alone, timing.together, timing.rounds
                );
            }
        }
        Command::Crowds { names, rounds, calls } => {
            println!(
                "threads\t{}",
                CROWDS.map(|threads| threads.to_string()).join("\t")
            );
            for it in subjects() {
                if names.is_empty() || names.iter().any(|name| name == it.name) {
                    let figures = crowds(&it, rounds, calls).map(|figure| format!("{figure:.3}"));
                    println!("{}\t{}", it.name, figures.join("\t"));
                }
            }
        }
        Command::Many { rounds } => {
            for calls in AT_ONCE {
                let many = at_once(calls, rounds);
                println!("{calls}\t{:.0}\t{:.0}\t{}", many.begin, many.end, many.bytes);
            }
        }
        Command::Instructions { name } => {
            let own: PathBuf = std::env::current_exe().context("no path to this program")?;
            for it in subjects() {
                if name.as_ref().is_none_or(|name| name == it.name) {
                    println!("{}\t{}", it.name, instructions_per_call(&own, it.name)?);
                }
            }
        }
        Command::Run { name, calls } => {
            let subject = subject(&name).with_context(|| format!("no subject `{name}` in this build"))?;
            measured(&mut (subject.target)()(), calls);
        }
    }
    Ok(())
}

/// The calls that callgrind counts, by the name of this function.
#[inline(never)]
fn measured(caller: &mut Caller, calls: u64) {
    caller(calls);
}
