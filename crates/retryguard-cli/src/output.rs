//! Where texts come from, where results go, and how a command ends.

use std::{
    fmt, fs,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::Context as _;
use retryguard_lab::Interrupted;
use retryguard_translate::read_text;

/// What was given is right, and there is no answer: the exit code is 1. Every other error exits with 2.
#[derive(Debug)]
pub(crate) struct Unanswered(pub(crate) anyhow::Error);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Unanswered {}

/// Says on standard error why a command failed. Exits as a shell reports a signal where one ended it.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        eprintln!("{interrupted}");
        return ExitCode::from(interrupted.exit_code());
    }
    eprintln!("error: {error:#}");
    ExitCode::from(if error.is::<Unanswered>() { 1 } else { 2 })
}

/// The text of a file; `-` is the standard input.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    match path.as_os_str() == "-" {
        true => read_text(io::stdin().lock()),
        false => read_text(fs::File::open(path)?),
    }
}

/// Writes files into a folder, which is made where it is missing.
pub(crate) fn write(folder: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        put(Some(&path), text)?;
    }
    Ok(())
}

/// Prints a text. A broken pipe is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    printed(text).map(|_| ())
}

/// Prints a text, and says whether all of it was read: a broken pipe is not an error.
pub(crate) fn printed(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true).context("cannot write the result"),
    }
}

/// Writes one file.
pub(crate) fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes into a file and says so, or prints.
pub(crate) fn put(out: Option<&Path>, text: &str) -> anyhow::Result<()> {
    let Some(path) = out else { return print(text) };
    save(path, text)?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
