//! Files of fleets, well written and not.

use retryguard_core::{Ratio, backoff::Growth};

use super::*;

#[test]
fn a_fleet_is_read_with_what_the_file_has_for_all() {
    let fleets = Fleets::parse(
        "clients: 500
period: 5m
fleets:
  - name: one
    start: after-a-wait
    pace: jittered
    retry: {delay: 10s, multiplier: 2, jitter: factor, stopBeyond: 300s}
    failures: [{share: 25%, from: 10m}]
    expect: [{from: 0s, until: 150s, rate: 0, within: 0}]
  - {name: two, clients: 7, carried: cohorts}
",
        "test",
    )
    .unwrap();
    let [one, two] = fleets.fleets.as_slice() else {
        unreachable!("two fleets")
    };
    assert_eq!((one.fleet.clients, two.fleet.clients), (500, 7));
    let retry = one.fleet.behaviour.retry.unwrap();
    assert_eq!(retry.growth, Growth::Exponential(Ratio::percent(200)));
    assert_eq!(retry.stop_beyond, Some(Duration::from_secs(300)));
    assert_eq!(one.fleet.failure_at(Instant::from_secs(3000)), 0.25);
    assert_eq!(
        (two.carried, two.fleet.behaviour.pace),
        (Carried::Cohorts, Pace::Slots)
    );
    let verdict = one.expect[0].check(&one.run(Seed(1)));
    assert!(verdict.holds(), "{verdict:?}");
}

#[test]
fn every_mistake_is_told_at_once_with_its_line_and_its_cure() {
    let told = Fleets::parse(
        "clients: 0
fleets:
  - name: one
    pace: jitered
    factor: [1.5, 0.5]
    retry: {multiplier: 2}
  - pace: fixed
    step: 7s
    carried: cohorts
    failures: [{from: 1s}]
    expect: [{from: 5s, until: 2s, rate: 1, within: 0.1}, {rate: 1}]
    plot: {step: 2s}
    sped: 1
",
        "test",
    )
    .unwrap_err()
    .to_string();
    for expected in [
        "line 1, column 10: `clients` is `0`; write a whole number from 1 to 4294967295",
        "line 4, column 11: `pace` is `jitered`; did you mean `jittered`?",
        "write the smaller one first",
        "`retry` has no `delay`",
        "`a fleet` has no `name`",
        "cannot be carried as cohorts; the step must divide the period",
        "`failures` has no `share`",
        "an expectation of no time",
        "half an expectation",
        "a plot finer than the steps of the fleet",
        "line 13, column 5: unknown key `sped`",
    ] {
        assert!(told.contains(expected), "{expected:?} is missing in:\n{told}");
    }
}

#[test]
fn times_that_no_run_can_hold_are_refused() {
    let told = Fleets::parse(
        "period: 0s\nfleets: [{name: one, duration: 30d, step: 1ms}]",
        "test",
    );
    let told = told.unwrap_err().to_string();
    assert!(
        told.contains("`period` is too short; write a duration of at least 1ms"),
        "{told}"
    );
    assert!(
        told.contains("more steps than can be kept; choose a longer `step`"),
        "{told}"
    );
}

/// The example of the reference runs, and keeps its promise.
#[test]
fn the_example_of_the_reference_is_a_file_of_fleets() {
    let page = include_str!("../../../../../docs/fleets.md");
    let example = page
        .split("```yaml")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let fleets = Fleets::parse(example.unwrap(), "example").unwrap();
    let proposed = &fleets.fleets[1];
    assert!(proposed.expect[0].check(&proposed.run(Seed(1))).holds());
    // Every key that is read is explained.
    for key in [
        "start",
        "pace",
        "factor",
        "retry",
        "failures",
        "expect",
        "plot",
        "stopBeyond",
        "multiplier",
        "cap",
    ] {
        assert!(page.contains(&format!("| `{key}`")), "{key}");
    }
}

#[test]
fn a_file_of_fleets_is_known_by_its_key() {
    assert!(Fleets::stand_in("fleets: []"));
    assert!(!Fleets::stand_in("services: {}"));
    assert!(!Fleets::stand_in("- fleets"));
    assert!(!Fleets::stand_in("fleets: ["));
}

#[test]
fn a_fleet_is_chosen_by_name() {
    let text = "clients: 100\nfleets:\n  - {name: one, duration: 10m}\n  - {name: two, duration: 10m}\n";
    let mut file = Fleets::parse(text, "small").unwrap();
    file.choose(&["two".to_owned()]).unwrap();
    assert_eq!(file.fleets.len(), 1);
    assert_eq!(file.choose(&["three".to_owned()]), Err("three"));
}
