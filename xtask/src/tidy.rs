//! Tidiness: what must not stay in the tree.

use std::process::Command;

use anyhow::{Context, bail};

/// Words that mark unfinished work. Split so that this file does not find itself.
const LEFT_OVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!("),
    concat!("#[ign", "ore"),
];

/// Fails when a tracked Rust file holds a left-over.
pub fn check() -> anyhow::Result<()> {
    let output = Command::new("git")
        .args(["ls-files", "*.rs"])
        .output()
        .context("cannot run `git ls-files`")?;
    let mut found = Vec::new();
    for path in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(text) = std::fs::read_to_string(path) else {
            continue;
        };
        found.extend(left_overs(path, &text));
    }
    if !found.is_empty() {
        bail!("tidiness:\n  {}", found.join("\n  "));
    }
    eprintln!("== tidiness: nothing left over");
    Ok(())
}

fn left_overs(path: &str, text: &str) -> Vec<String> {
    text.lines()
        .enumerate()
        .flat_map(|(index, line)| {
            LEFT_OVERS
                .iter()
                .filter(move |word| line.contains(**word))
                .map(move |word| format!("{path}:{}: `{word}`", index + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_left_over_is_found_with_its_line() {
        let text = format!("fn a() {{}}\n// {}: later\n", concat!("TO", "DO"));
        assert_eq!(left_overs("a.rs", &text).len(), 1);
        assert!(left_overs("a.rs", "fn a() {}\n").is_empty());
    }
}
