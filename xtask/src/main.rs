//! The workshop's own commands: `cargo xtask test` runs every check, `cargo xtask layers` the layering
//! check alone.

mod bench;
mod experiment_envoy;
mod layers;
mod parts;
mod shell;
mod sim_speed;
mod store_speed;
mod storm;
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
    /// Installs the real servers that tests run against; prints the variables by which tests find them.
    Parts {
        /// This one alone.
        one: Option<parts::One>,
    },
    /// Fails on a dependency edge that ARCHITECTURE.md's table does not allow.
    Layers,
    /// Fails on left-overs in the source tree.
    Tidy,
    /// The model checker against Storm, on the same files: writes docs/model-checker-speed.md, fails below the ratios wanted.
    BenchModel {
        /// Also runs Storm on the static breaker: a quarter of an hour, 17 GB.
        #[arg(long)]
        all: bool,
        /// Only models with this in their title, and no page is written.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// The model checker against Storm on every instance of the suite that Storm builds at full size: prints the largest difference.
    AgreeModel {
        /// Only instances with this in the path of the model and its constants: "dynamic", "MAX_TO=10,AV=0.5".
        #[arg(long, default_value = "")]
        only: String,
        /// Storm solves the chain that the reductions leave of the model as written, rather than a text that it can build.
        #[arg(long)]
        chains: bool,
    },
    /// The simulator beside SimPy, nexosim and a bare loop on the same queue: writes docs/simulator-speed.md, fails below the ratios wanted.
    BenchSim,
    /// What the store costs beside handlers without it, on real servers; writes docs/store-benchmarks.md.
    BenchStore,
    /// Runs the library beside its peers and writes docs/benchmarks.md.
    Bench,
    /// A storm on a real Envoy, with and without the controller: writes docs/envoy-experiment.
    ExperimentEnvoy,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Test => test(),
        Command::Parts { one } => parts::print(one),
        Command::Layers => layers::check(),
        Command::Tidy => tidy::check(),
        Command::BenchModel { all, only } => storm::race(all, &only),
        Command::AgreeModel { only, chains } => storm::agree(&only, chains),
        Command::BenchSim => sim_speed::race(),
        Command::BenchStore => store_speed::write(),
        Command::Bench => bench::write(),
        Command::ExperimentEnvoy => experiment_envoy::write(),
    }
}

fn test() -> anyhow::Result<()> {
    let begun = parts::begin()?;
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
    // What a newcomer builds: code that only a feature uses must not be a warning to them.
    shell::step(
        "lints of the default features",
        "cargo",
        &["clippy", "--", "-D", "warnings"],
    )?;
    // Libraries only: the command has the name of the library, and its page would overwrite the other.
    shell::step_with(
        "documentation",
        "cargo",
        &["doc", "--workspace", "--no-deps", "--lib", "--all-features"],
        &[("RUSTDOCFLAGS", std::ffi::OsStr::new("-D warnings"))],
    )?;
    let storm = storm::python()?;
    let parts = parts::install(begun)?;
    let mut variables = vec![(storm::VARIABLE, storm.as_os_str())];
    variables.extend(
        parts
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_os_str())),
    );
    shell::step_with(
        "tests",
        "cargo",
        &[
            "test",
            "--workspace",
            "--exclude=retryguard-bench",
            "--all-features",
            "--no-fail-fast",
        ],
        &variables,
    )?;
    if std::env::var_os("CI").is_some() {
        bench::install_valgrind()?;
    }
    // By itself and optimised, so that what is counted is the product: the tests of the others would switch
    // on features of tokio that make its clock slower.
    shell::step(
        "speed",
        "cargo",
        &["test", "--release", "--package=retryguard-bench"],
    )?;
    threads()
}

/// Tries the orders in which threads can meet in what the library shares. A build of its own, because under
/// it the lock itself is another one.
fn threads() -> anyhow::Result<()> {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let target = format!("{target}/shuttle");
    let flags = format!("{} --cfg shuttle", std::env::var("RUSTFLAGS").unwrap_or_default());
    shell::step_with(
        "threads",
        "cargo",
        &[
            "test",
            "--package=retryguard",
            "--lib",
            "--target-dir",
            &target,
            "--",
            "threads::",
        ],
        &[("RUSTFLAGS", flags.trim().as_ref())],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `cargo xtask …` that a page names is a command.
    #[test]
    fn what_pages_say_of_this_command_holds() {
        let output = std::process::Command::new("git")
            .args(["ls-files", "--full-name", ":/*.md"])
            .output()
            .expect("git");
        let list = String::from_utf8_lossy(&output.stdout).into_owned();
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = 0;
        for path in list.lines() {
            let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
            for rest in text.split("cargo xtask ").skip(1) {
                let word = |letter: &char| letter.is_ascii_lowercase() || *letter == '-';
                let name: String = rest.chars().take_while(word).collect();
                let known = Arguments::try_parse_from(["xtask", &name]);
                assert!(known.is_ok(), "{path}: `cargo xtask {name}`");
                found += 1;
            }
        }
        assert!(found >= 10, "only {found} were found");
    }
}
