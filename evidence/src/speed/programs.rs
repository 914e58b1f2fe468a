//! Programs that print their own speed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// The speeds that were printed under each name.
#[derive(Default)]
pub(super) struct Speeds(BTreeMap<String, Vec<f64>>);

impl Speeds {
    pub(super) fn note(&mut self, text: &str, suffix: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let (Some(name), Some(Ok(speed))) = (words.next(), words.next().map(str::parse::<f64>)) {
                self.0.entry(format!("{name}{suffix}")).or_default().push(speed);
            }
        }
    }

    /// The best and the middle one.
    pub(super) fn of(&self, name: &str) -> anyhow::Result<(f64, f64)> {
        let mut all = self
            .0
            .get(name)
            .with_context(|| format!("{name} printed no speed"))?
            .clone();
        all.sort_by(f64::total_cmp);
        Ok((all[all.len() - 1], all[all.len() / 2]))
    }
}

/// What a program prints. Fails where the program does.
pub(super) fn run(program: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "{} failed: {}",
            program.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}
