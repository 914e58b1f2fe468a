//! Where results go: a folder, and the standard output.

use std::{fs, io::Write as _, path::Path, process::ExitCode};

use anyhow::Context as _;
use retryguard_lab::Interrupted;

/// Says on standard error why a command failed. Exits as a shell reports a signal where one ended it, else with `code`.
pub(crate) fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        eprintln!("{interrupted}");
        return ExitCode::from(interrupted.exit_code());
    }
    eprintln!("error: {error:#}");
    ExitCode::from(code)
}

/// How a command ends: with 2 after the reason, where it failed.
pub(crate) fn exit(command: &str, answer: anyhow::Result<()>) -> ExitCode {
    match answer {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retryguard {command}: {error:#}");
            ExitCode::from(2)
        }
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
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
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
