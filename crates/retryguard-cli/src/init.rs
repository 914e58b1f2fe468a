//! `retryguard init`: a commented policy to begin with.

use std::{
    fmt::Write as _,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use retryguard_policy::{lint, reading::span};

/// Write a commented policy to begin with. Asks on a terminal for what no flag gives.
///
/// The policy passes `retryguard lint`. An existing file is kept unless --force is given.
///
/// Exits with 0, or with 2 when the file cannot be written.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard init
  retryguard init --service orders --service payments --calls orders:payments --deadline 2s
  retryguard init --yes --out deploy/policy.yaml")]
pub(crate) struct Init {
    /// A service of yours that others call. May be given more than once.
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<String>,
    /// Who calls whom, such as orders:payments. May be given more than once.
    #[arg(long = "calls", value_name = "FROM:TO")]
    calls: Vec<String>,
    /// Services whose requests must not be done twice, and that honour idempotency keys.
    #[arg(long = "keys", value_name = "NAME")]
    keys: Vec<String>,
    /// How long a call may take in all.
    #[arg(long, value_name = "TIME", default_value = "3s")]
    deadline: String,
    /// How long one attempt may take: a little above the 99th percentile.
    #[arg(long, value_name = "TIME", default_value = "900ms")]
    attempt_timeout: String,
    /// The file to write; `-` prints it.
    #[arg(long, value_name = "FILE", default_value = "policy.yaml")]
    out: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
}

impl Init {
    pub(crate) fn run(mut self) -> ExitCode {
        match self.answer() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("retryguard init: {error:#}");
                ExitCode::from(2)
            }
        }
    }

    fn answer(&mut self) -> anyhow::Result<()> {
        let printed = self.out.as_os_str() == "-";
        if !printed && self.out.exists() && !self.force {
            bail!("{} exists: give another --out, or --force", self.out.display());
        }
        if !self.yes && self.services.is_empty() && io::stdin().is_terminal() {
            self.ask()?;
        }
        let text = self.text()?;
        let report = lint(&text)
            .map_err(|mistakes| anyhow::anyhow!("what was given does not make a policy:\n{mistakes}"))?;
        for finding in &report.findings {
            eprintln!(
                "line {}: {} {}: {}",
                finding.line, finding.severity, finding.code, finding.message
            );
        }
        if printed {
            return crate::output::print(&text);
        }
        std::fs::write(&self.out, text).with_context(|| format!("cannot write {}", self.out.display()))?;
        let out = self.out.display();
        eprintln!("wrote {out}. Next:\n  retryguard lint {out}\n  retryguard explain budget");
        Ok(())
    }

    fn ask(&mut self) -> anyhow::Result<()> {
        let names = question("Which services do you call? (names with commas)", "")?;
        self.services = names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(ToOwned::to_owned)
            .collect();
        self.deadline = question("How long may a call take in all?", &self.deadline)?;
        self.attempt_timeout = question(
            "How long may one attempt take? (a little above the 99th percentile)",
            &self.attempt_timeout,
        )?;
        let keys = question(
            "Which of them must not do a request twice, and honour idempotency keys?",
            "",
        )?;
        self.keys = keys
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(ToOwned::to_owned)
            .collect();
        Ok(())
    }

    fn text(&self) -> anyhow::Result<String> {
        let mut calls: Vec<(&str, &str)> = Vec::new();
        for call in &self.calls {
            let Some((from, to)) = call.split_once(':') else {
                bail!("--calls {call}: write FROM:TO, such as orders:payments");
            };
            calls.push((from, to));
        }
        let mut names: Vec<&str> = self.services.iter().map(String::as_str).collect();
        let more = calls.iter().flat_map(|(from, to)| [*from, *to]);
        for name in more.chain(self.keys.iter().map(String::as_str)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut out = format!(
            "# yaml-language-server: $schema={}/raw/main/docs/policy.schema.json\n\
             # Every key is explained by `retryguard explain KEY`; what is not written here has a safe default: at most two\n\
             # retries under full jitter, paid from a budget, with a guard and a breaker.\n\
             defaults:\n  \
             # How long a call may take in all, its retries included.\n  deadline: {}\n  \
             # How long one attempt may take: a little above the 99th percentile of what is called.\n  attemptTimeout: {}\n",
            env!("CARGO_PKG_REPOSITORY"),
            self.deadline,
            self.attempt_timeout
        );
        if !names.is_empty() {
            out.push_str("\nservices:\n");
        }
        for name in names {
            let called: Vec<&str> = calls
                .iter()
                .filter(|(from, _)| *from == name)
                .map(|(_, to)| *to)
                .collect();
            let _ = writeln!(out, "  {name}:");
            if called.is_empty() {
                out.push_str("    # The lowest layer retries; the layers above it pass failures on.\n    maxRetries: 2\n");
            } else {
                let outer = span(&self.deadline).map_or_else(
                    || "10s".to_owned(),
                    |own| format!("{}ms", own.as_millis().saturating_mul(2)),
                );
                let _ = writeln!(
                    out,
                    "    # It calls others, which retry for it: a second layer of retries would multiply theirs.\n    \
                     maxRetries: 0\n    # Timeouts grow towards the edge: it must outlast what it calls.\n    \
                     deadline: {outer}\n    attemptTimeout: off\n    calls: [{}]",
                    called.join(", ")
                );
            }
            if self.keys.iter().any(|key| key == name) {
                out.push_str(
                    "    # Requests that must not be done twice carry a key, which the service honours.\n    \
                     idempotency: {addKeys: true}\n",
                );
            }
        }
        Ok(out)
    }
}

fn question(words: &str, usual: &str) -> anyhow::Result<String> {
    let shown = if usual.is_empty() {
        String::new()
    } else {
        format!(" [{usual}]")
    };
    eprint!("{words}{shown} ");
    io::stderr().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let line = line.trim();
    Ok(if line.is_empty() { usual } else { line }.to_owned())
}
