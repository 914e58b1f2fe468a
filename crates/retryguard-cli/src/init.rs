//! `retryguard init`: a commented policy to begin with.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::PathBuf,
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
    /// Which service calls which, such as orders:payments. May be given more than once.
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
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let printed = self.out.as_os_str() == "-";
        if !printed && self.out.exists() && !self.force {
            bail!("{} exists: give another --out, or --force", self.out.display());
        }
        let mut draft = self.draft()?;
        if !self.yes && self.services.is_empty() && io::stdin().is_terminal() {
            draft.ask(&mut question)?;
        }
        let text = draft.text();
        let report = lint(&text).map_err(|mistakes| {
            anyhow::anyhow!(
                "what was given does not make a policy:\n{}",
                mistakes.without_places()
            )
        })?;
        for finding in &report.findings {
            eprintln!(
                "line {}: {} {}: {}",
                finding.line, finding.severity, finding.code, finding.message
            );
        }
        if printed {
            return crate::output::print(&text);
        }
        crate::output::put(Some(&self.out), &text)?;
        let out = self.out.display();
        eprintln!("Next:\n  retryguard lint {out}\n  retryguard explain budget");
        Ok(())
    }

    fn draft(&self) -> anyhow::Result<Draft> {
        let calls = self.calls.iter().map(|call| {
            let (from, to) = call
                .split_once(':')
                .with_context(|| format!("--calls {call}: write FROM:TO, such as orders:payments"))?;
            Ok((from.to_owned(), to.to_owned()))
        });
        Ok(Draft {
            services: self.services.clone(),
            calls: calls.collect::<anyhow::Result<_>>()?,
            keys: self.keys.clone(),
            deadline: self.deadline.clone(),
            attempt_timeout: self.attempt_timeout.clone(),
        })
    }
}

fn question(words: &str, usual: &str) -> io::Result<String> {
    let shown = if usual.is_empty() {
        String::new()
    } else {
        format!(" [{usual}]")
    };
    eprint!("{words}{shown} ");
    io::stderr().flush()?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the questions were not answered; nothing was written",
        ));
    }
    let line = line.trim();
    Ok(if line.is_empty() { usual } else { line }.to_owned())
}
