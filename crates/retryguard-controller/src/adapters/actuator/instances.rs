//! Several proxies of one kind that are changed one by one: what they hold together, and asking all of them at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use crate::domain::state::{Change, Found, Loss, Observed, RetryState, stricter};
use crate::domain::target::TargetName;
use crate::reconcile::actuator::ActuatorError;

/// Whether our mark is on the setting of one proxy.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mark {
    /// No, and there is nothing of others either.
    None,
    /// No, and there is a setting of an operator: what was found.
    Foreign(String),
    /// Yes, and the rest is as we wrote it.
    Ours(RetryState),
    /// Yes, and the rest was changed from elsewhere: what was found.
    Changed(String),
}

/// What was last wanted of each target: a proxy that holds something else is the one to report.
#[derive(Debug, Default)]
pub(super) struct LastDesired(Mutex<BTreeMap<TargetName, RetryState>>);

impl LastDesired {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TargetName, RetryState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the proxies hold of each target, by the marks on its settings.
    pub(super) fn found(
        &self,
        names: Vec<TargetName>,
        marks: impl Fn(&TargetName) -> Vec<Mark>,
    ) -> Vec<Found> {
        let mut wanted = self.lock();
        let mut found = Vec::new();
        for target in names {
            if let Some(held) = agreed(&marks(&target), wanted.get(&target).copied()) {
                if let Observed::Managed(desired) = held {
                    wanted.entry(target.clone()).or_insert(desired);
                }
                found.push(Found { target, held });
            }
        }
        found
    }

    /// Every proxy was notified of a change. One that cannot be reached must not keep the others from receiving it: it is a loss as
    /// long as another was reached.
    pub(super) fn told(
        &self,
        change: &Change,
        mut losses: Vec<Loss>,
        answers: Vec<Result<(), ActuatorError>>,
    ) -> Result<Vec<Loss>, ActuatorError> {
        self.lock().insert(change.target.clone(), change.desired);
        let reached = answers.iter().any(Result::is_ok);
        for answer in answers {
            match answer {
                Ok(()) => {}
                Err(error @ ActuatorError::Unreachable { .. }) if reached => {
                    losses.push(Loss(format!(
                        "{error}; it gets the setting when it answers again"
                    )));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(losses)
    }
}

/// The targets of the configuration, and what bears our mark and belongs to none of them.
pub(super) fn with_strays<'a>(
    known: impl Iterator<Item = &'a TargetName>,
    strays: impl Iterator<Item = &'a str>,
) -> Vec<TargetName> {
    let mut strays: Vec<&str> = strays.collect();
    strays.sort_unstable();
    strays.dedup();
    let strays = strays.into_iter().map(TargetName::new);
    known.cloned().chain(strays).collect()
}

/// What all proxies hold of one target: the first that differs from what was wanted, so that it is put right, and the strictest
/// where nothing was wanted yet.
fn agreed(marks: &[Mark], wanted: Option<RetryState>) -> Option<Observed> {
    let theirs = marks.iter().find_map(|mark| match mark {
        Mark::Changed(what) => Some(Observed::Overridden(what.clone())),
        Mark::None | Mark::Foreign(_) | Mark::Ours(_) => None,
    });
    if theirs.is_some() {
        return theirs;
    }
    let desired_states = marks.iter().map(|mark| match mark {
        Mark::Ours(desired) => *desired,
        Mark::None | Mark::Foreign(_) | Mark::Changed(_) => RetryState::Original,
    });
    let held = match wanted {
        Some(wanted) => desired_states
            .clone()
            .find(|desired| *desired != wanted)
            .or(desired_states.clone().next()),
        None => desired_states.clone().reduce(stricter),
    };
    held.filter(|desired| *desired != RetryState::Original)
        .map(Observed::Managed)
}

/// The answers of those proxies that say what they hold; the last error where none does.
pub(super) async fn read<P, T, F>(
    kind: &'static str,
    proxies: &[P],
    ask: impl Fn(P) -> F,
) -> Result<Vec<T>, ActuatorError>
where
    P: Clone,
    T: Send + 'static,
    F: Future<Output = Result<T, ActuatorError>> + Send + 'static,
{
    let mut held = Vec::new();
    let mut silent = None;
    for answer in each(proxies, ask).await {
        match answer {
            Ok(answer) => held.push(answer),
            Err(error) => {
                tracing::warn!(kind, %error, "a proxy does not say what it holds");
                silent = Some(error);
            }
        }
    }
    match silent {
        Some(error) if held.is_empty() => Err(error),
        _ => Ok(held),
    }
}

/// Asks every proxy at the same time; the answers come in the order of the proxies.
pub(super) async fn each<P, T, F>(proxies: &[P], ask: impl Fn(P) -> F) -> Vec<Result<T, ActuatorError>>
where
    P: Clone,
    T: Send + 'static,
    F: Future<Output = Result<T, ActuatorError>> + Send + 'static,
{
    let mut set = JoinSet::new();
    for (index, proxy) in proxies.iter().enumerate() {
        let answer = ask(proxy.clone());
        set.spawn(async move { (index, answer.await) });
    }
    let mut answers = set.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
