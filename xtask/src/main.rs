//! The repository's own commands: `cargo xtask test` runs every check, `cargo xtask layers` the layering
//! check alone.

use std::ffi::{OsStr, OsString};

use clap::{Parser, Subcommand};
use xtask::{
    background::{self, Background},
    book, cycles, guides, image, layers, links,
    parts::{self, storm},
    shell, tidy, wording,
};

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
    /// Fails on a dependency edge that ARCHITECTURE.md's table does not allow, and on modules that use each other.
    Layers,
    /// Fails on left-overs in the source tree, on links that lead nowhere, and on words that are not plain English.
    Tidy,
    /// Types the commands of docs/guides as they are printed, and compares what they print (as root, a quarter of an hour and a build).
    Guides {
        /// This page alone, such as `haproxy`.
        page: Option<String>,
    },
    /// Builds the book, with mdBook from the user's cache, and follows the links of the built pages.
    Book,
    /// Packs every crate as for publication, without publishing it.
    Publishable,
    /// Builds the controller's image from its Containerfile without a registry of images, and runs it.
    Image {
        /// The profile of cargo; a release is built with `dist`.
        #[arg(long, default_value = "dev")]
        profile: String,
    },
    /// Runs one piece of evidence and writes its page; `cargo xtask evidence --help` lists them.
    #[command(disable_help_flag = true)]
    Evidence {
        /// What to run, with its options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Test => test(),
        Command::Parts { one } => parts::print(one),
        Command::Layers => layering(),
        Command::Tidy => tidiness(),
        Command::Guides { page } => guides::run(page.as_deref()),
        Command::Book => book::check(),
        Command::Publishable => publishable(),
        Command::Image { profile } => image::run(&profile),
        Command::Evidence { arguments } => evidence(&arguments),
    }
}

/// The programs of the evidence are a crate of their own, so that this one stays quick to build.
fn evidence(arguments: &[OsString]) -> anyhow::Result<()> {
    let status = std::process::Command::new("cargo")
        .args([
            "run",
            "--quiet",
            "--release",
            "--package=retryguard-evidence",
            "--",
        ])
        .args(arguments)
        .status()?;
    std::process::exit(status.code().unwrap_or(1));
}

fn test() -> anyhow::Result<()> {
    let begun = shell::now();
    let result = every_step();
    shell::print_times(begun);
    result
}

fn every_step() -> anyhow::Result<()> {
    let parts = parts::begin()?;
    shell::step("formatting", "cargo", &["fmt", "--all", "--check"])?;
    layering()?;
    tidiness()?;
    let beside = Background::start(&shell::target().join("beside"), beside())?;
    book::check()?;
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
    // Without programs: the command has the name of the library, and its page would overwrite the other. With one example, cargo
    // chooses the features of dependencies as for the lints above, and does not check sixty of them again.
    shell::step_with(
        "documentation",
        "cargo",
        &[
            "doc",
            "--workspace",
            "--no-deps",
            "--lib",
            "--example=payment",
            "--all-features",
        ],
        &[("RUSTDOCFLAGS", OsStr::new("-D warnings"))],
    )?;
    publishable()?;
    let storm = storm::python()?;
    let parts = parts::install(parts)?;
    let mut variables = vec![(storm::VARIABLE, storm.as_os_str())];
    variables.extend(
        parts
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_os_str())),
    );
    // In two steps, so that the run says how long the build took and how long the tests.
    let build = [
        "test",
        "--workspace",
        "--exclude=retryguard-bench",
        "--all-features",
        "--no-run",
    ];
    shell::step("build of the tests", "cargo", &build)?;
    shell::step_with(
        "tests",
        "cargo",
        &[
            "test",
            "--workspace",
            "--exclude=retryguard-bench",
            "--all-features",
            "--no-fail-fast",
            "--",
            // Tests that need a real part are ignored by plain `cargo test`. Here every part is installed.
            "--include-ignored",
        ],
        &variables,
    )?;
    parts::valgrind()?;
    beside.finish()?;
    // Alone on the machine, and optimised.
    shell::step(
        "speed",
        "cargo",
        &["test", SPEED[0], SPEED[1], "--", "--include-ignored"],
    )
}

/// By itself, so that what is counted is the product: the tests of the others would switch on features of tokio that make its clock
/// slower.
const SPEED: [&str; 2] = ["--release", "--package=retryguard-bench"];

/// What needs nothing of the main build, and shares no folder with it.
fn beside() -> Vec<background::Step> {
    let cargo = |title, arguments: &[&str], variables| background::Step {
        title,
        words: std::iter::once("cargo")
            .chain(arguments.iter().copied())
            .map(str::to_owned)
            .collect(),
        variables,
    };
    let folder = |name| shell::target().join(name).display().to_string();
    let flags = format!("{} --cfg shuttle", std::env::var("RUSTFLAGS").unwrap_or_default());
    vec![
        // The store's examples for diesel and sea-orm: a workspace of their own, so that no other build has those.
        cargo(
            "examples with other drivers",
            &[
                "test",
                "--manifest-path=examples/orm/Cargo.toml",
                "--target-dir",
                &folder("orm"),
            ],
            Vec::new(),
        ),
        // Tries the orders in which threads can meet in what the library shares. A build of its own, because under it the lock
        // itself is another one.
        cargo(
            "threads",
            &[
                "test",
                "--package=retryguard",
                "--lib",
                "--target-dir",
                &folder("shuttle"),
                "--",
                "threads::",
            ],
            vec![("RUSTFLAGS", flags.trim().into())],
        ),
        cargo(
            "build of the speed gates",
            &["test", SPEED[0], SPEED[1], "--no-run"],
            Vec::new(),
        ),
    ]
}

fn layering() -> anyhow::Result<()> {
    layers::check()?;
    cycles::check()
}

fn tidiness() -> anyhow::Result<()> {
    tidy::check()?;
    links::check()?;
    wording::check()
}

/// Packs every crate that is published, and resolves each against the packages of the others. Without building them again: a file
/// that is outside its crate is missing from the package, and the layering check has the dependencies.
fn publishable() -> anyhow::Result<()> {
    shell::step(
        "packages",
        "cargo",
        &[
            "publish",
            "--dry-run",
            "--workspace",
            "--no-verify",
            "--allow-dirty",
            "--quiet",
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `cargo xtask …` that a page names is a command.
    #[test]
    fn what_pages_say_of_this_command_holds() {
        let mut found = 0;
        for (path, text) in xtask::pages::all().expect("the pages can be read") {
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
