//! `retryguard explain`: lint codes, keys of the policy file, and the words of the field.

use retryguard_policy::explain::{explain, explained};

/// Explain a lint code, a key of the policy file, a term, or the reason of a refusal.
///
/// Exits with 0, or with 2 when there is no such thing.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard explain RG009
  retryguard explain budget
  retryguard explain budget.percent
  retryguard explain retry-after
  retryguard explain breaker-open
  retryguard explain            lists everything that can be explained")]
pub(crate) struct Explain {
    /// Such as RG009, budget, budget.percent, maxRetries, retry-after or breaker-open.
    #[arg(value_name = "WHAT")]
    what: Option<String>,
}

impl Explain {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let Some(what) = &self.what else {
            return crate::output::print(&explained());
        };
        let text = explain(what).map_err(|unknown| {
            let near = unknown
                .nearest
                .map_or_else(String::new, |near| format!(": did you mean {near}?"));
            anyhow::anyhow!("nothing is known about `{what}`{near}\n`retryguard explain` without a word lists what is known")
        })?;
        crate::output::print(&text)
    }
}
