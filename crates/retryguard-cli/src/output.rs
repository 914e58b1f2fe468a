//! Where results go: a folder, and the standard output.

use std::{fs, io::Write as _, path::Path, process::ExitCode};

use anyhow::Context as _;
use retryguard_lab::Interrupted;
use serde_json::Value;

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

/// The same JSON with its keys in camelCase, as all JSON that the command prints.
pub(crate) fn camel_case(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (camel(&key), camel_case(value)))
            .collect(),
        Value::Array(values) => values.into_iter().map(camel_case).collect(),
        value => value,
    }
}

fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// Writes files into a folder, which is made where it is missing.
pub(crate) fn write(folder: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("wrote {}", path.display());
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_become_camel_case_and_values_stay() {
        let value = json!({"p95_ms": 1, "runs": [{"not_kept": "payment_errors"}], "a": null});
        assert_eq!(
            camel_case(value),
            json!({"p95Ms": 1, "runs": [{"notKept": "payment_errors"}], "a": null})
        );
    }
}
