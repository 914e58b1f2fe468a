//! `retryguard init`: a commented policy to begin with.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use retryguard_policy::{Draft, lint};

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
        crate::output::exit("init", self.answer())
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
        let services = question("Which services do you call? (names with commas)", "")?;
        self.services = names(&services);
        self.deadline = question("How long may a call take in all?", &self.deadline)?;
        self.attempt_timeout = question(
            "How long may one attempt take? (a little above the 99th percentile)",
            &self.attempt_timeout,
        )?;
        let keys = question(
            "Which of them must not do a request twice, and honour idempotency keys?",
            "",
        )?;
        self.keys = names(&keys);
        Ok(())
    }

    fn text(&self) -> anyhow::Result<String> {
        let mut calls = Vec::new();
        for call in &self.calls {
            let Some((from, to)) = call.split_once(':') else {
                bail!("--calls {call}: write FROM:TO, such as orders:payments");
            };
            calls.push((from.to_owned(), to.to_owned()));
        }
        let draft = Draft {
            services: self.services.clone(),
            calls,
            keys: self.keys.clone(),
            deadline: self.deadline.clone(),
            attempt_timeout: self.attempt_timeout.clone(),
        };
        Ok(draft.text())
    }
}

fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
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
