//! Running the programs that a step consists of.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// How long each step took, in the order in which the steps ended.
static TIMES: Mutex<Vec<(String, Duration)>> = Mutex::new(Vec::new());

/// Runs one program with its output shown, and fails with what to do when it fails.
pub fn step(title: &str, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    step_with(title, program, arguments, &[])
}

/// As [`step`], with variables of the environment set.
pub fn step_with(
    title: &str,
    program: &str,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
) -> anyhow::Result<()> {
    run(title, program, arguments, variables, Stdio::inherit())
}

/// As [`step`], for what is installed on the way: what the program says is talk, and must not be taken for the answer of
/// a command whose output goes into a file.
pub fn install(title: &str, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    run(title, program, arguments, &[], Stdio::from(std::io::stderr()))
}

fn run(
    title: &str,
    program: &str,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
    output: Stdio,
) -> anyhow::Result<()> {
    eprintln!("== {title}: {program} {}", arguments.join(" "));
    let begun = now();
    let status = Command::new(program)
        .args(arguments)
        .envs(variables.iter().copied())
        .stdout(output)
        .status()
        .with_context(|| format!("cannot start `{program}`: is it installed and on the PATH?"))?;
    took(title, begun);
    succeeded(title, program, arguments, status)
}

/// The error says which command to run to see the failure again.
pub(crate) fn succeeded(
    title: &str,
    program: &str,
    arguments: &[&str],
    status: ExitStatus,
) -> anyhow::Result<()> {
    if !status.success() {
        bail!(
            "{title} failed ({status}); run `{program} {}` to see it alone",
            arguments.join(" ")
        );
    }
    Ok(())
}

/// The time, to say how long something took.
#[expect(
    clippy::disallowed_methods,
    reason = "says how long a step took; nothing is decided by it"
)]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Prints how long a step took, and keeps it for [`print_times`].
pub(crate) fn took(title: &str, begun: Instant) {
    let elapsed = begun.elapsed();
    eprintln!("== {title}: {} s", elapsed.as_secs());
    TIMES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push((title.to_owned(), elapsed));
}

/// Prints the elapsed time of every step that took a second or more, and of the whole run.
pub fn print_times(begun: Instant) {
    eprintln!("== elapsed time of each step");
    for (title, elapsed) in TIMES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        if elapsed.as_secs() > 0 {
            eprintln!("{:>6} s  {title}", elapsed.as_secs());
        }
    }
    eprintln!("{:>6} s  in all", begun.elapsed().as_secs());
}

/// The folder that cargo builds into, in which installed parts are kept as well.
#[must_use]
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// The folder of this user in which slow builds are kept, for all clones: `$XDG_CACHE_HOME/retryguard` or `~/.cache/retryguard`;
/// where there is neither, that of cargo.
#[must_use]
pub fn cache() -> PathBuf {
    cache_of(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

/// Relative paths are ignored, as the XDG specification asks.
fn cache_of(xdg: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    xdg.and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".cache")))
        .map_or_else(target, |folder| folder.join("retryguard"))
}

/// Installs packages from npm into a folder, without running their scripts.
///
/// # Errors
/// When npm cannot be installed, or a package.
pub fn npm(folder: &Path, packages: &[&str]) -> anyhow::Result<()> {
    debian(
        &["sh", "-c", "node --version && npm --version"],
        &["nodejs", "npm"],
    )?;
    let place = folder.to_string_lossy();
    let mut arguments = vec![
        "install",
        "--prefix",
        &place,
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
    ];
    arguments.extend(packages);
    install("npm", "npm", &arguments)
}

/// Installs Debian packages unless `probe` already runs well.
pub fn debian(probe: &[&str], packages: &[&str]) -> anyhow::Result<()> {
    let [program, arguments @ ..] = probe else {
        return Ok(());
    };
    if Command::new(program)
        .args(arguments)
        .output()
        .is_ok_and(|output| output.status.success())
    {
        return Ok(());
    }
    // Another thread may install something beside this one, and the lists of packages have one lock.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    install("package lists", "apt-get", &["update"])?;
    let arguments: Vec<&str> = ["install", "--yes", "--no-install-recommends"]
        .iter()
        .chain(packages)
        .copied()
        .collect();
    install("packages", "apt-get", &arguments)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn builds_are_kept_for_the_user() {
        let path = |text: &str| Some(OsString::from(text));
        assert_eq!(cache_of(path("/c"), path("/home/a")), Path::new("/c/retryguard"));
        assert_eq!(
            cache_of(None, path("/home/a")),
            Path::new("/home/a/.cache/retryguard")
        );
        assert_eq!(
            cache_of(path("c"), path("/home/a")),
            Path::new("/home/a/.cache/retryguard")
        );
        assert_eq!(cache_of(None, None), target());
    }
}
