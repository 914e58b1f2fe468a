//! Random scripts of a machine of endpoints, beside lists of everything that happened.

use std::collections::BTreeMap;

use proptest::prelude::*;
use retryguard_core::{
    Failure, FailureKind, Outcome, Ratio, call,
    endpoints::{Endpoints, Id, Selection, Sent, Settings, State},
};

use crate::support::{SplitMix, at};

#[derive(Debug, Clone)]
enum Input {
    Choose { tried: u8, repeatable: bool },
    End { which: usize, failed: bool },
    GiveUp { which: usize },
    Abandon { which: usize },
    Add,
    Remove { which: usize },
    Pass { millis: u64 },
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        8 => (any::<u8>(), any::<bool>()).prop_map(|(tried, repeatable)| Input::Choose { tried, repeatable }),
        8 => (any::<usize>(), any::<bool>()).prop_map(|(which, failed)| Input::End { which, failed }),
        1 => any::<usize>().prop_map(|which| Input::GiveUp { which }),
        1 => any::<usize>().prop_map(|which| Input::Abandon { which }),
        1 => Just(Input::Add),
        1 => any::<usize>().prop_map(|which| Input::Remove { which }),
        2 => (0u64..4000).prop_map(|millis| Input::Pass { millis }),
    ]
}

/// What an observer of all inputs knows.
#[derive(Default)]
struct Seen {
    under_way: BTreeMap<Id, u32>,
    /// Results since the endpoint was last brought in.
    results: BTreeMap<Id, Vec<bool>>,
}

/// The mean of the first 32 results, and then one in which each weighs 1/32.
fn share(results: &[bool]) -> f64 {
    let (start, rest) = results.split_at(results.len().min(32));
    let failures = start.iter().filter(|failed| **failed).count();
    let mean = failures as f64 / start.len().max(1) as f64;
    rest.iter().fold(mean, |mean, failed| {
        mean * 31.0 / 32.0 + f64::from(u8::from(*failed)) / 32.0
    })
}

fn settings(most_out: u32) -> Settings {
    Settings {
        most_out: Ratio::percent(most_out),
        ..Settings::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_bound_holds_after_every_input(
        seed in any::<u64>(),
        most_out in prop_oneof![Just(0u32), Just(34), Just(50), Just(90)],
        // An endpoint whose attempts always fail gives rows long enough to be left out.
        broken in 0u64..4,
        inputs in prop::collection::vec(input(), 1..400),
    ) {
        let mut chance = SplitMix(seed);
        let mut endpoints = Endpoints::new(Some(settings(most_out)));
        let rules = call::Settings::default();
        let mut seen = Seen::default();
        for _ in 0..3 {
            let id = endpoints.add().unwrap();
            seen.under_way.insert(id, 0);
            seen.results.insert(id, Vec::new());
        }
        let mut under_way: Vec<Sent> = Vec::new();
        let mut millis = 1000;
        for input in inputs {
            let states: BTreeMap<Id, State> =
                endpoints.status(at(millis)).map(|status| (status.endpoint, status.state)).collect();
            match input {
                Input::Choose { tried, repeatable } => {
                    let tried: Vec<Id> =
                        states.keys().copied().filter(|id| tried >> (id.0 % 8) & 1 == 1).collect();
                    let ask = Selection { tried: &tried, repeatable };
                    let Some(sent) = endpoints.choose(ask, at(millis), &mut chance) else {
                        prop_assert!(states.is_empty());
                        continue;
                    };
                    let to = sent.endpoint();
                    match states[&to] {
                        State::Out { .. } => prop_assert!(false, "an endpoint that is left out was used"),
                        State::Trial => prop_assert!(tried.is_empty()),
                        State::In => {
                            let fresh = states
                                .iter()
                                .any(|(id, state)| *state == State::In && !tried.contains(id));
                            prop_assert!(!fresh || !tried.contains(&to), "another was left");
                        }
                    }
                    *seen.under_way.get_mut(&to).unwrap() += 1;
                    under_way.push(sent);
                }
                Input::End { which, failed } if !under_way.is_empty() => {
                    let sent = under_way.swap_remove(which % under_way.len());
                    let to = sent.endpoint();
                    let failed = failed || to.0 % 4 == broken;
                    let outcome = if failed {
                        Outcome::Failure(Failure::new(FailureKind::Overload))
                    } else {
                        Outcome::Success
                    };
                    if let Some(count) = seen.under_way.get_mut(&to) {
                        *count -= 1;
                    }
                    endpoints.on_end(sent, &outcome, &rules, at(millis));
                    if states.get(&to) == Some(&State::In) && let Some(results) = seen.results.get_mut(&to) {
                        results.push(failed);
                    }
                }
                Input::GiveUp { which } if !under_way.is_empty() => {
                    let sent = under_way.swap_remove(which % under_way.len());
                    if let Some(count) = seen.under_way.get_mut(&sent.endpoint()) {
                        *count -= 1;
                    }
                    endpoints.on_given_up(sent, &rules, at(millis));
                    // Whether it counts is for another oracle: start the comparison anew.
                    seen.results.values_mut().for_each(Vec::clear);
                    seen.results.clear();
                }
                Input::Abandon { which } if !under_way.is_empty() => {
                    let sent = under_way.swap_remove(which % under_way.len());
                    if let Some(count) = seen.under_way.get_mut(&sent.endpoint()) {
                        *count -= 1;
                    }
                    endpoints.on_abandon(sent);
                }
                Input::Add => {
                    let id = endpoints.add().unwrap();
                    seen.under_way.insert(id, 0);
                }
                Input::Remove { which } if !states.is_empty() => {
                    let id = *states.keys().nth(which % states.len()).unwrap();
                    endpoints.remove(id);
                    seen.under_way.remove(&id);
                    seen.results.remove(&id);
                }
                Input::Pass { millis: passed } => millis += passed,
                _ => {}
            }
            for change in endpoints.changes() {
                // Attempts from before a change do not count; the oracle does not follow them.
                seen.results.remove(&change.endpoint);
            }
            let all = endpoints.len();
            prop_assert_eq!(all, seen.under_way.len());
            let allowed = all * most_out as usize / 100;
            prop_assert!(endpoints.left_out() <= allowed, "{} of {}", endpoints.left_out(), all);
            let mut out = 0;
            for status in endpoints.status(at(millis)) {
                out += usize::from(status.state != State::In);
                prop_assert_eq!(status.under_way, seen.under_way[&status.endpoint]);
                if status.state == State::In && let Some(results) = seen.results.get(&status.endpoint) {
                    prop_assert!((status.failure_share - share(results)).abs() < 1e-9);
                }
            }
            prop_assert_eq!(out, endpoints.left_out());
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random failures alone, at any rate: no endpoint is left out for more than a sliver of the time.
    #[test]
    fn equal_endpoints_are_hardly_ever_left_out(seed in any::<u64>(), percent in 0u32..=100, count in 2u64..6) {
        use retryguard_core::Chance as _;
        let mut chance = SplitMix(seed);
        let mut endpoints = Endpoints::new(Some(Settings::default()));
        (0..count).for_each(|_| { endpoints.add(); });
        let mut left_out = 0;
        for turn in 0..2000 {
            let ask = Selection { repeatable: true, ..Selection::default() };
            let sent = endpoints.choose(ask, at(turn), &mut chance).unwrap();
            let outcome = if chance.happens(Ratio::percent(percent)) {
                Outcome::Failure(Failure::new(FailureKind::Overload))
            } else {
                Outcome::Success
            };
            endpoints.on_end(sent, &outcome, &call::Settings::default(), at(turn));
            let changes = endpoints.changes();
            left_out += changes.iter().filter(|change| change.out_for.is_some()).count();
        }
        prop_assert!(left_out <= 2, "{left_out} times at {percent} %");
    }

    /// One of several endpoints always fails: it is found within a few of its own attempts, and its peers are not harmed.
    #[test]
    fn a_broken_endpoint_is_found_soon(seed in any::<u64>(), percent in 0u32..=20, count in 2u64..8) {
        use retryguard_core::Chance as _;
        let mut chance = SplitMix(seed);
        let mut endpoints = Endpoints::new(Some(Settings::default()));
        (0..count).for_each(|_| { endpoints.add(); });
        let mut sent_to_it = 0;
        for turn in 0..2900 {
            let ask = Selection { repeatable: true, ..Selection::default() };
            let sent = endpoints.choose(ask, at(turn), &mut chance).unwrap();
            let broken = sent.endpoint() == Id(0);
            sent_to_it += u32::from(broken);
            let outcome = if broken || chance.happens(Ratio::percent(percent)) {
                Outcome::Failure(Failure::new(FailureKind::Unreachable))
            } else {
                Outcome::Success
            };
            endpoints.on_end(sent, &outcome, &call::Settings::default(), at(turn));
        }
        // Beside one peer that fails by chance as well, an unlucky run needs 35.
        prop_assert!(sent_to_it <= 60, "{sent_to_it} attempts at {percent} % of {count}");
        let state = endpoints.status(at(2900)).next().map(|status| status.state);
        prop_assert!(matches!(state, Some(State::Out { .. })), "{state:?}");
    }
}
