//! The default policy with one part changed at a time: what each part is worth.

use crate::client_policy::{ClientPolicy, named};

/// A part of the default policy, and the policy without it.
#[derive(Debug, Clone, Copy)]
pub struct Ablation {
    /// The name that tables show.
    pub name: &'static str,
    /// The keys of the policy under `defaults`.
    pub text: &'static str,
}

/// What stays as it is where the guard is replaced: the defaults of these parts follow the guard.
macro_rules! beside_another_guard {
    ($guard:literal) => {
        concat!(
            $guard,
            ", maxRetries: 2, breaker: {trip: silence}, bulkhead: {form: adaptive}, gate: {scope: retries}"
        )
    };
}

/// Every part that is on by default, off; then those that are off by default, on.
pub const ABLATIONS: &[Ablation] = &[
    part("no guard", beside_another_guard!("guard: off")),
    part(
        "guard by thresholds",
        beside_another_guard!("guard: {mode: hysteresis}"),
    ),
    part("no wait when down", "breaker: {whenDown: fail}"),
    part("no breaker", "breaker: off"),
    part("no adaptive limit", "bulkhead: off"),
    part("no budget", "budget: off"),
    part("2 retries at most", "maxRetries: 2"),
    part("no jitter", "jitter: none"),
    part("retries at all layers", "retryRetried: true"),
    part("no headers", "tags: false"),
    part("no server layer", "server: off"),
    part("with hedges", "hedge: on"),
    part("with throttle", "throttle: on"),
];

const fn part(name: &'static str, text: &'static str) -> Ablation {
    Ablation { name, text }
}

/// The default policy, without the clock that all clients share and without each part in turn.
///
/// # Panics
///
/// Where an ablation is not a policy, which a test excludes.
#[must_use]
pub fn ablations() -> Vec<ClientPolicy> {
    let whole = named("retryguard").expect("the default policy has a name");
    let mut all = vec![
        whole.clone(),
        ClientPolicy {
            name: "no slots".to_owned(),
            shares_clock: false,
            ..whole
        },
    ];
    all.extend(ABLATIONS.iter().map(|it| {
        ClientPolicy::of_text(it.name, &format!("defaults: {{{}}}\n", it.text))
            .unwrap_or_else(|mistakes| panic!("{}: {mistakes}", it.name))
    }));
    all
}

#[cfg(test)]
mod tests {
    use retryguard_core::target::Settings;

    use super::*;

    /// What a policy may differ in from the default is the part that it is named after.
    #[test]
    fn each_ablation_changes_one_part_only() {
        let all = ablations();
        let settings = |client_policy: &ClientPolicy| Settings::clone(&client_policy.settings("store"));
        let whole = settings(&all[0]);
        assert_eq!(settings(&all[1]), whole);
        assert!(all[0].shares_clock && !all[1].shares_clock);
        for (ablation, client_policy) in ABLATIONS.iter().zip(&all[2..]) {
            let own = settings(client_policy);
            let mut corrected = own.clone();
            match ablation.name {
                "no guard" | "guard by thresholds" => {
                    corrected.guard = whole.guard;
                    corrected.call.retries = whole.call.retries;
                }
                "no wait when down" | "no breaker" => corrected.breaker = whole.breaker,
                "no adaptive limit" => corrected.bulkhead = whole.bulkhead,
                "no budget" => corrected.budget = whole.budget,
                "2 retries at most" => corrected.call.retries = whole.call.retries,
                "no jitter" => corrected.call.backoff.jitter = whole.call.backoff.jitter,
                "retries at all layers" => corrected.call.retry_retried = whole.call.retry_retried,
                "no headers" => assert!(!client_policy.propagates_to("store")),
                "no server layer" => assert!(client_policy.shed("store").is_none()),
                "with hedges" => corrected.hedge = whole.hedge,
                "with throttle" => corrected.throttle = whole.throttle,
                other => panic!("{other} is not judged"),
            }
            assert_eq!(corrected, whole, "{}", ablation.name);
            let elsewhere = ["no headers", "no server layer"].contains(&ablation.name);
            assert_eq!(own == whole, elsewhere, "{}", ablation.name);
        }
    }
}
