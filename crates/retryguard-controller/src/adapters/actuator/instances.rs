//! Several proxies of one kind that are told one by one: what they hold together, and asking all of them at once.

use tokio::task::JoinSet;

use crate::domain::state::{Observed, RetryState, stricter};
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

/// What all proxies hold of one target: the first that differs from what was wanted, so that it is put right, and the strictest
/// where nothing was wanted yet.
pub(super) fn agreed(marks: &[Mark], wanted: Option<RetryState>) -> Option<Observed> {
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
