//! What a desired state is in Envoy's runtime, and back.
//!
//! Envoy asks a cluster's circuit breaker before each retry, also for requests that are under way. The breaker
//! reads runtime keys first, so a key switches one cluster's retries without touching any route. Which key counts
//! depends on the cluster: `max_retries` is ignored where there is a retry budget, and setting any budget key
//! makes a budget. So a desired state always sets all of them, and means the same with and without one. Routes of high
//! priority have a breaker of their own and get the same.

use std::collections::BTreeMap;

use retryguard_core::ratio::Ratio;

use crate::domain::state::{Loss, RetryState};

/// Our own keys begin with this: which step of the ramp a cluster is on. Envoy does not know them and keeps them,
/// so they show that the other keys were set by this controller.
const MARK: &str = "retryguard.";
const SHARE: &str = ".share";
const STEP: &str = ".step";

/// One retry at a time for each Envoy while retries come back, however few requests it holds: without it an
/// Envoy with three requests under way would let none through, and the ramp would have tried nothing.
const RAMP_MINIMUM: f64 = 1.0;

/// The runtime keys that say `desired` of `cluster`; none for the user's own configuration. `budget` is the retry
/// budget that the cluster has of its own, and all where it has none.
#[must_use]
pub(super) fn entries(cluster: &str, budget: Ratio, desired: RetryState) -> BTreeMap<String, f64> {
    let (share, step) = match desired {
        RetryState::Original => return BTreeMap::new(),
        RetryState::Off => (Ratio::ZERO, 0),
        RetryState::Part { step, share } => (share.min(Ratio::ONE), step),
    };
    let minimum = if share == Ratio::ZERO { 0.0 } else { RAMP_MINIMUM };
    let mut entries = BTreeMap::from([
        (format!("{MARK}{cluster}{SHARE}"), share.as_f64()),
        (format!("{MARK}{cluster}{STEP}"), f64::from(step)),
    ]);
    for priority in ["default", "high"] {
        let breaker = format!("circuit_breakers.{cluster}.{priority}");
        entries.insert(
            format!("{breaker}.retry_budget.budget_percent"),
            percent(budget, share),
        );
        entries.insert(format!("{breaker}.retry_budget.min_retry_concurrency"), minimum);
        if share == Ratio::ZERO {
            entries.insert(format!("{breaker}.max_retries"), 0.0);
        }
    }
    entries
}

/// Every key that [`entries`] can set for `cluster`.
#[must_use]
pub(super) fn all(cluster: &str) -> Vec<String> {
    entries(cluster, Ratio::ONE, RetryState::Off)
        .into_keys()
        .collect()
}

/// The desired state that these keys hold for `cluster`, as [`entries`] wrote it; `None` where our mark is missing, or is
/// one that we do not write.
#[must_use]
pub(super) fn desired(cluster: &str, values: &BTreeMap<String, f64>) -> Option<RetryState> {
    let share = Ratio::from_f64(*values.get(&format!("{MARK}{cluster}{SHARE}"))?)?;
    if share == Ratio::ZERO {
        return Some(RetryState::Off);
    }
    let step = *values.get(&format!("{MARK}{cluster}{STEP}"))?;
    let step = (0..=u8::MAX).find(|candidate| f64::from(*candidate) == step)?;
    (share < Ratio::ONE).then_some(RetryState::Part { step, share })
}

/// The cluster that a key of our own is about.
#[must_use]
pub(super) fn marked(key: &str) -> Option<&str> {
    let rest = key.strip_prefix(MARK)?;
    rest.strip_suffix(SHARE).or_else(|| rest.strip_suffix(STEP))
}

/// What Envoy cannot say of `desired`.
#[must_use]
pub(super) fn losses(cluster: &str, budget: Ratio, desired: RetryState) -> Vec<Loss> {
    let RetryState::Part { share, .. } = desired else {
        return Vec::new();
    };
    let percent = number(percent(budget, share));
    vec![
        Loss(format!(
            "{cluster}: Envoy limits how many retries wait or run at once, not the share of retries that are sent: \
             {percent} % of the requests under way"
        )),
        Loss(format!(
            "{cluster}: each Envoy lets at least {RAMP_MINIMUM} retry at a time through while retries come back"
        )),
    ]
}

fn percent(budget: Ratio, share: Ratio) -> f64 {
    100.0 * budget.as_f64() * share.as_f64()
}

/// A number as Envoy's administration endpoint reads it: never with an exponent, which it would take for text.
#[must_use]
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(step: u8, share: Ratio) -> RetryState {
        RetryState::Part { step, share }
    }

    #[test]
    fn off_is_every_key_at_zero_for_both_priorities() {
        let off = entries("reviews", Ratio::ONE, RetryState::Off);
        assert_eq!(off.len(), 8);
        assert!(off.values().all(|value| *value == 0.0), "{off:?}");
        for key in [
            "circuit_breakers.reviews.default.max_retries",
            "circuit_breakers.reviews.high.retry_budget.budget_percent",
            "circuit_breakers.reviews.default.retry_budget.min_retry_concurrency",
        ] {
            assert!(off.contains_key(key), "{key}");
        }
    }

    #[test]
    fn the_ramp_is_a_share_of_the_users_own_budget() {
        let budget = Ratio::percent(20);
        let ramp = entries("reviews", budget, part(1, Ratio::percent(25)));
        assert_eq!(
            ramp["circuit_breakers.reviews.default.retry_budget.budget_percent"],
            5.0
        );
        // A budget makes Envoy ignore this one, and an operator would read zero as off.
        assert!(!ramp.contains_key("circuit_breakers.reviews.default.max_retries"));
        assert_eq!(losses("reviews", budget, part(1, Ratio::percent(25))).len(), 2);
    }

    #[test]
    fn what_was_written_is_read_back() {
        for wanted in [
            RetryState::Off,
            part(0, Ratio::from_parts(125_000_000)),
            part(9, Ratio::percent(50)),
        ] {
            let written = entries("outbound|80||reviews", Ratio::ONE, wanted);
            assert_eq!(desired("outbound|80||reviews", &written), Some(wanted));
            assert_eq!(desired("reviews", &written), None);
        }
        assert_eq!(
            desired("reviews", &entries("reviews", Ratio::ONE, RetryState::Original)),
            None
        );
    }

    #[test]
    fn numbers_from_elsewhere_are_not_ours() {
        for (share, step) in [(f64::NAN, 0.0), (-1.0, 0.0), (0.5, 0.5), (0.5, 1e9), (3.0, 1.0)] {
            let values = BTreeMap::from([
                ("retryguard.a.share".to_owned(), share),
                ("retryguard.a.step".to_owned(), step),
            ]);
            assert_eq!(desired("a", &values), None, "{share} {step}");
        }
    }

    #[test]
    fn numbers_have_no_exponent() {
        assert_eq!(number(0.0), "0");
        assert_eq!(number(12.5), "12.5");
        assert_eq!(number(0.000_000_1), "0.0000001");
        assert_eq!(number(100.0), "100");
    }
}
