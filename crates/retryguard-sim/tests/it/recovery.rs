//! Configurations A to F under the five faults, as they are described and not as they were claimed.

use super::{compared, compared_in, of, scenario, within};

#[test]
fn random_errors_are_mended_by_retries_and_not_by_a_breaker() {
    let summaries = compared(&scenario("recovery-payment-errors"));
    let success = |name: &str| of(&summaries, name).mean("successRate");
    within(success("A"), 0.77, 0.83);
    assert!(success("B") > 0.99 && success("C") > 0.99);
    assert!(success("D") < 0.2, "{}", success("D"));
    within(of(&summaries, "B").mean("amplification"), 1.2, 1.32);
    // Replays of one request in ten are doubled payments, unless keys are honoured.
    within(of(&summaries, "A").mean("duplicateRate"), 0.05, 0.13);
    assert_eq!(of(&summaries, "F").mean("duplicateRate"), 0.0);
}

#[test]
fn timeouts_bound_the_wait_and_a_breaker_answers_at_once() {
    let summaries = compared(&scenario("recovery-payment-slow"));
    let p99 = |name: &str| of(&summaries, name).mean("p99Ms");
    assert!(p99("A") > 19_000.0 && p99("C") < 15_000.0);
    let mean = |name: &str| of(&summaries, name).mean("meanMs");
    assert!(mean("D") < 0.3 * mean("C"));
    assert!(of(&summaries, "D").mean("successRate") < of(&summaries, "C").mean("successRate"));
}

#[test]
fn a_lock_is_a_lock_for_everybody_at_this_load() {
    let summaries = compared(&scenario("recovery-inventory-lock"));
    for summary in &summaries {
        within(summary.mean("p95Ms"), 2400.0, 2900.0);
    }
}

#[test]
fn layers_of_retries_mend_random_errors_and_double_what_has_no_key() {
    let summaries = compared(&scenario("recovery-retry-storm"));
    assert!(of(&summaries, "B").mean("successRate") > 0.99);
    within(of(&summaries, "B").mean("amplification"), 1.2, 1.4);
    within(of(&summaries, "B").mean("duplicateRate"), 0.05, 0.15);
    assert_eq!(of(&summaries, "F").mean("duplicateRate"), 0.0);
}

#[test]
fn a_bound_on_what_is_in_flight_keeps_answers_fast() {
    let mut scenario = scenario("recovery-gateway-overload");
    scenario
        .policies
        .retain(|policy| ["A", "E"].contains(&policy.name.as_str()));
    let summaries = compared(&scenario);
    assert_eq!(of(&summaries, "A").mean("rejectionRate"), 0.0);
    assert!(of(&summaries, "E").mean("rejectionRate") > 0.3);
    assert!(of(&summaries, "E").mean("meanMs") < 0.5 * of(&summaries, "A").mean("meanMs"));
}

/// With room retries mend, without it they destroy: the sign flips between five and six workers.
#[test]
fn capacity_decides_whether_retries_help() {
    let scenario = scenario("recovery-capacity");
    let gain = |workers: &str| {
        let sweep = scenario.sweep.as_ref().unwrap();
        let (_, world) = sweep.worlds.iter().find(|(value, _)| value == workers).unwrap();
        let summaries = compared_in(world, &scenario);
        of(&summaries, "immediate").mean("successRate") - of(&summaries, "none").mean("successRate")
    };
    assert!(gain("4") < -0.3, "{}", gain("4"));
    assert!(gain("5") < -0.1, "{}", gain("5"));
    assert!(gain("6") > 0.15, "{}", gain("6"));
    assert!(gain("12") > 0.15, "{}", gain("12"));
}
