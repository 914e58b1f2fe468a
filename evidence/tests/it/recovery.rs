//! Configurations A to F under the five faults, as they are described and not as they were claimed.

use super::{compared, compared_in, of, replicated, scenario, within};

#[test]
fn random_errors_are_mended_by_retries_and_not_by_a_breaker() {
    let summaries = compared(&scenario("recovery-payment-errors"));
    let success = |name: &str| of(&summaries, name).mean("successRate");
    within(success("A"), 0.77, 0.83);
    assert!(success("B") > 0.99 && success("C") > 0.99);
    // Below the retries it counts attempts; `where_a_breaker_stands_decides_what_it_counts` has the other order.
    assert!(success("D") < 0.2, "{}", success("D"));
    within(of(&summaries, "B").mean("amplification"), 1.2, 1.32);
    // Replays of one request in ten are doubled payments, unless keys are honoured.
    within(of(&summaries, "A").mean("duplicateRate"), 0.05, 0.13);
    assert_eq!(of(&summaries, "F").mean("duplicateRate"), 0.0);
}

/// Five failures are soon counted among attempts and seldom among calls that three attempts could not mend.
#[test]
fn where_a_breaker_stands_decides_what_it_counts() {
    let mut scenario = scenario("recovery-breaker-order");
    scenario.replications = 20;
    let summaries = replicated(&scenario);
    let success = |name: &str| of(&summaries, name).mean("successRate");
    within(success("counts-attempts"), 0.005, 0.06);
    within(success("counts-calls"), 0.46, 0.68);
    within(success("no-breaker"), 0.988, 0.996);
    within(success("none"), 0.78, 0.82);
    within(of(&summaries, "no-breaker").mean("amplification"), 1.22, 1.26);
}

/// An outbox keeps failures of notifications away from orders; keys prevent second notifications.
#[test]
fn notifications_through_an_outbox_neither_slow_nor_fail_an_order() {
    let summaries = compared(&scenario("recovery-notifications"));
    for name in ["A", "C", "E"] {
        assert!(of(&summaries, name).mean("successRate") < 0.05, "{name}");
    }
    for name in ["outbox-without-keys", "F"] {
        let summary = of(&summaries, name);
        assert_eq!(summary.mean("successRate"), 1.0, "{name}");
        within(summary.mean("p95Ms"), 150.0, 180.0);
        assert_eq!(summary.mean("undelivered"), 0.0, "{name}");
        // They waited for the end of the outage.
        assert!(summary.mean("deliveryP95Ms") > 60_000.0, "{name}");
    }
    assert_eq!(of(&summaries, "F").mean("duplicateRate"), 0.0);
    within(
        of(&summaries, "outbox-without-keys").mean("duplicateRate"),
        0.08,
        0.13,
    );
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
fn a_lock_is_a_lock_for_every_policy_at_this_load() {
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
