//! Tidiness: what must not stay in the tree.

use std::process::Command;

use anyhow::{Context, bail};

/// Words that mark unfinished work. Split so that this file does not find itself.
const LEFT_OVERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!(")];

/// An ignored test: left over unless it says which real part it needs.
const IGNORED: &str = concat!("#[ign", "ore");
const NEEDS: &str = concat!("#[ign", "ore = \"needs ");

/// The real parts that `cargo xtask test` installs before it runs the ignored tests.
const PARTS: &[&str] = &[
    "Chromium",
    "Dask",
    "Envoy",
    "HAProxy",
    "Helm",
    "Kubernetes",
    "Ministack",
    "Moto",
    "PostgreSQL",
    "Prometheus",
    "Redis",
    "Schemathesis",
    "Storm",
    "gRPC for Node",
    "gRPC for Python",
    "k6",
    "script",
    "valgrind",
];

/// Fails when a tracked Rust file holds a left-over, or any tracked file the marks of a merge.
pub fn check() -> anyhow::Result<()> {
    let output = Command::new("git")
        .arg("ls-files")
        .output()
        .context("cannot run `git ls-files`")?;
    let mut found = Vec::new();
    for path in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(text) = std::fs::read_to_string(path) else {
            continue;
        };
        found.extend(merge_marks(path, &text));
        if path.ends_with(".rs") {
            found.extend(left_overs(path, &text));
        }
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
            let ignored = (line.contains(IGNORED) && !names_its_parts(line)).then_some(&IGNORED);
            LEFT_OVERS
                .iter()
                .filter(move |word| line.contains(**word))
                .chain(ignored)
                .map(move |word| format!("{path}:{}: `{word}`", index + 1))
        })
        .collect()
}

/// The lines that git writes around the two sides of a conflict.
fn merge_marks(path: &str, text: &str) -> Vec<String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark)))
        .map(|(index, line)| format!("{path}:{}: `{line}`", index + 1))
        .collect()
}

/// Whether the reason is "needs A and B", where both are installed by `cargo xtask test`.
fn names_its_parts(line: &str) -> bool {
    line.split_once(NEEDS)
        .and_then(|(_, rest)| rest.split_once("\"]"))
        .is_some_and(|(reason, _)| reason.split(" and ").all(|part| PARTS.contains(&part)))
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

    #[test]
    fn the_marks_of_a_merge_are_found_with_their_lines() {
        let text = "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> other\n";
        let expected = ["a.md:2: `<<<<<<< HEAD`", "a.md:6: `>>>>>>> other`"];
        assert_eq!(merge_marks("a.md", text), expected);
        assert!(merge_marks("a.md", "> quoted\n=======\n").is_empty());
    }

    #[test]
    fn a_test_may_be_ignored_for_a_part_that_is_installed() {
        let found = |reason: &str| left_overs("a.rs", &format!("{IGNORED}{reason}]\nfn a() {{}}\n")).len();
        assert_eq!(found(" = \"needs Envoy\""), 0);
        assert_eq!(found(" = \"needs Envoy and Prometheus\""), 0);
        assert_eq!(found(""), 1);
        assert_eq!(found(" = \"flaky\""), 1);
        assert_eq!(found(" = \"needs luck\""), 1);
        assert_eq!(found(" = \"needs Envoy and luck\""), 1);
    }
}
