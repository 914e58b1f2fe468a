//! Three layers of three attempts.

use super::{compared, of, scenario, within};

#[test]
fn one_call_becomes_27_and_each_solution_stops_it_in_its_way() {
    let mut scenario = scenario("amplification-27");
    // The storm itself: only what is sent while the database is down.
    scenario.world.measure.from = retryguard_core::Instant::from_secs(60);
    scenario.world.measure.until = retryguard_core::Instant::from_secs(119);
    let summaries = compared(&scenario);
    let amplification = |name: &str| of(&summaries, name).mean("amplification");
    assert_eq!(amplification("naive"), 27.0);
    // Waiting spreads the attempts out; the last of them meet a database that is back.
    within(amplification("backoff"), 25.0, 27.0);
    within(amplification("one-layer"), 3.0, 3.0);
    within(amplification("budget"), 1.0, 2.2);
    within(amplification("hedging"), 1.0, 1.1);
    // Each layer may add its budget's fifth to what the layer above sends, and its reserve. Most calls wait and send
    // nothing.
    within(amplification("all"), 1.0, 2.0);
    assert_eq!(amplification("none"), 1.0);
    // A breaker keeps calls from being sent at all: in each half minute only what trips it and its probes.
    let attempts = |name: &str| of(&summaries, name).mean("attempts");
    assert!(attempts("breaker") < 0.02 * attempts("none"));
    within(attempts("all") / attempts("none"), 0.0, 0.1);
    // Shedding protects a server that works; one that is down sheds nothing.
    assert_eq!(amplification("shedding"), 27.0);
}

/// A database that is slow and not down: hedges are load that no failure has asked for.
#[test]
fn a_slow_database_and_each_solution() {
    let summaries = compared(&scenario("amplification-slowdown"));
    let amplification = |name: &str| of(&summaries, name).mean("amplification");
    let success = |name: &str| of(&summaries, name).mean("successRate");
    assert!(amplification("naive") > 10.0 && amplification("backoff") > 10.0);
    within(amplification("breaker"), 1.0, 1.05);
    within(amplification("budget"), 1.0, 1.6);
    within(amplification("one-layer"), 1.5, 3.0);
    within(amplification("shedding"), 1.0, 3.0);
    within(amplification("all"), 1.0, 1.05);
    // Retries win nothing where there is no room; hedges keep the database slow after the fault has ended.
    for name in ["naive", "breaker", "budget", "one-layer"] {
        within(success(name) - success("none"), -0.03, 0.03);
    }
    within(success("shedding") - success("none"), 0.0, 0.08);
    // Calls wait before the database and not in its queue, so that what it does is still wanted.
    within(success("all") - success("none"), 0.08, 0.2);
    assert!(success("hedging") < success("none") - 0.1);
}
