//! Policies of files: those of other systems as their own clients behave, and what a world does not know of them.

use retryguard_policy::{Diagnostics, Policy};
use retryguard_translate::{Beside, Imported};

use super::{ClientPolicy, Extra, Rules};

impl ClientPolicy {
    /// A file of another system: with the bounds that its own clients have, and without what only RetryGuard does.
    ///
    /// # Errors
    /// Where the policy that the import wrote has mistakes.
    pub fn of_imported(name: impl Into<String>, imported: &Imported) -> Result<Self, Diagnostics> {
        let extra = match imported.beside {
            Beside::None => Extra::None,
            Beside::SendLimiter => Extra::SendLimiter,
            Beside::ConcurrentRetries { share, least } => Extra::ConcurrentRetries { share, least },
            Beside::Tokens { most, gain } => Extra::Tokens { most, gain },
        };
        // The bound stands in place of the budget that a policy has for it.
        let policy = Policy::parse(&imported.bounded)?;
        Ok(Self {
            extra,
            propagates: false,
            ..Self::of_policy(name, policy)
        })
    }

    /// What to say of a policy file whose services are all unknown in a world with `services`: only its defaults take part.
    #[must_use]
    pub fn unmatched(&self, services: &[&str]) -> Option<String> {
        let Rules::File(policy) = &self.rules else {
            return None;
        };
        let listed: Vec<&str> = policy.services().map(|(name, _)| name).collect();
        if listed.is_empty() || listed.iter().any(|name| services.contains(name)) {
            return None;
        }
        Some(format!(
            "policy {} lists {}, and the scenario's services are {}: only its `defaults` apply; rename one or the other",
            self.name,
            some_of(&listed),
            some_of(services)
        ))
    }
}

fn some_of(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
