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
    within(amplification("all"), 1.0, 1.5);
    assert_eq!(amplification("none"), 1.0);
    // A breaker keeps most calls from being sent at all; how many depends on how often it probes.
    let attempts = |name: &str| of(&summaries, name).mean("attempts");
    assert!(attempts("breaker") < 0.7 * attempts("none"));
    // Shedding protects a server that works; one that is down sheds nothing.
    assert_eq!(amplification("shedding"), 27.0);
}
