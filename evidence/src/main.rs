//! What proves RetryGuard. `cargo xtask evidence NAME` runs one piece of evidence and writes its page below `docs/evidence/`.
//!
//! Nothing under `crates/` depends on this crate: it can be deleted, and the product still builds and passes its tests.

mod contest;
mod draw;
mod envoy;
mod matrix;
mod output;
mod pages;
mod patterns;
mod scale;
mod speed;
mod store_faults;
mod storm;

use clap::{Parser, Subcommand};

/// Runs one piece of evidence and writes its page.
#[derive(Parser)]
#[command(name = "cargo xtask evidence")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes the pages that need the simulator alone: table1-aws, table1-istio, safe-clients, tournament. A test compares them with
    /// what is committed.
    Pages {
        /// Only pages with this in the name of their folder.
        #[arg(long, default_value = "")]
        only: String,
    },
    FreshDraw(draw::FreshDraw),
    /// Solves the models of the resiliency patterns: writes docs/evidence/resiliency-patterns.
    Patterns {
        /// Print the claims and the points as one JSON object.
        #[arg(long)]
        json: bool,
    },
    Matrix(matrix::Matrix),
    Sweep(matrix::Sweep),
    Report(matrix::Report),
    /// Runs the public contest of backoffs, and prints its result beside the reported one.
    Contest {
        /// The seed of all random numbers.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How often each contest is run.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
    },
    /// Measures the library beside its peers: writes docs/evidence/benchmarks.md.
    LibrarySpeed,
    /// Measures handlers with and without the store, on real servers: writes docs/evidence/store-benchmarks.md.
    StoreSpeed,
    /// Measures the store with a million keys and a million events, and how far its tables grow: writes
    /// docs/evidence/store-growth.md.
    StoreGrowth,
    /// Kills servers and databases and makes other faults under the store's load: writes docs/evidence/store-faults.md. Fails where
    /// an effect was lost or happened twice.
    StoreFaults {
        /// How often each fault of a database is made.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
        /// How often each test kills its server, its workers or its database.
        #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..))]
        kills: u32,
    },
    /// Measures the simulator, SimPy, nexosim and a bare loop on the same queue, and with clients that protect themselves: writes
    /// docs/evidence/simulator-speed.md. Fails below the ratios wanted, and where the results do not agree.
    SimulatorSpeed,
    /// Measures the model checker and Storm on the same files: writes docs/evidence/model-checker-speed.md. Fails below the ratios
    /// wanted.
    ModelSpeed {
        /// Also runs Storm on the static breaker: a quarter of an hour, 17 GB.
        #[arg(long)]
        all: bool,
        /// Only models with this in their title. The page is written once every model was run with the same build.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Compares the model checker with Storm on every instance of the resiliency patterns that Storm can build at full size, and
    /// prints the largest difference.
    ModelAgreement {
        /// Only instances with this in the path of the model and its constants: "dynamic", "MAX_TO=10,AV=0.5".
        #[arg(long, default_value = "")]
        only: String,
        /// Storm solves the reduced chain of the model as written, rather than a text that it can build.
        #[arg(long)]
        chains: bool,
    },
    /// Runs a retry storm on a real Envoy, with and without the controller: writes docs/evidence/envoy-experiment.
    Envoy,
    /// Runs random failures, an overload and an outage on a real Envoy, beside Envoy's own retry budget: writes
    /// docs/evidence/envoy-phases.
    EnvoyPhases,
    /// Kills controllers, Envoys and sources more than a hundred times while retries are off: writes
    /// docs/evidence/controller-faults.
    ControllerFaults,
    /// Measures one controller with up to 10,000 targets and 1,000 simulated Envoys that speak xDS over loopback: writes
    /// docs/evidence/controller-scale.md.
    ControllerScale,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Pages { only } => pages::write(&only),
        Command::FreshDraw(draw) => draw.run(),
        Command::Patterns { json } => patterns::write(json),
        Command::Matrix(matrix) => matrix.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Report(report) => report.run(),
        Command::Contest { seed, rounds } => output::print(&contest::text(seed, rounds)),
        Command::LibrarySpeed => speed::library::write(),
        Command::StoreSpeed => speed::store::write(),
        Command::StoreGrowth => speed::store::write_growth(),
        Command::StoreFaults { rounds, kills } => store_faults::write(rounds, kills),
        Command::SimulatorSpeed => speed::simulator::race(),
        Command::ModelSpeed { all, only } => storm::race(all, &only),
        Command::ModelAgreement { only, chains } => storm::agree(&only, chains),
        Command::Envoy => envoy::storm(),
        Command::EnvoyPhases => envoy::phases(),
        Command::ControllerFaults => envoy::faults(),
        Command::ControllerScale => scale::write(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `cargo xtask evidence NAME` that a page names is a command.
    #[test]
    fn pages_name_commands_that_exist() {
        let mut found = 0;
        for (path, text) in xtask::pages::all().expect("the pages can be read") {
            for rest in text.split("cargo xtask evidence ").skip(1) {
                let word = |letter: &char| letter.is_ascii_lowercase() || *letter == '-';
                let name: String = rest.chars().take_while(word).collect();
                // `NAME` stands for any of them.
                if name.is_empty() {
                    continue;
                }
                let known = Arguments::try_parse_from(["evidence", &name]);
                let known = known.is_ok()
                    || known.is_err_and(|error| error.kind() != clap::error::ErrorKind::InvalidSubcommand);
                assert!(known, "{path}: `cargo xtask evidence {name}`");
                found += 1;
            }
        }
        assert!(found >= 5, "only {found} were found");
    }
}
