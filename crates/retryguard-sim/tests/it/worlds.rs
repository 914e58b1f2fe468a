//! Parts of worlds that change what policies meet: the order of queues and clocks that are off.

use retryguard_sim::{
    client_policy::{ClientPolicy, named},
    engine::{self, Run},
    scenario::Scenario,
    streams::Seed,
};

fn run(text: &str, policy: &str) -> Run {
    let scenario = Scenario::parse(text, "world", &mut |path| Err(format!("{path} is not there")))
        .unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    let client_policy: ClientPolicy = named(policy).expect("a known name");
    engine::run(&scenario.world, &client_policy, &scenario.fixed, Seed(1))
}

/// One half more than 20 workers can do in 100 ms each, before a queue in which requests wait for longer than their callers.
fn overload(queue: &str) -> String {
    format!(
        "duration: 60s\nservices:\n  store: {{workers: 20, time: {{exponential: 100ms}}, dropsExpired: false, {queue}}}\n\
         clients:\n  people: {{calls: store, rate: 300, deadline: 1s}}\n"
    )
}

/// In order of arrival every request waits for too long; the newest first and CoDel serve what the workers can do.
#[test]
fn a_queue_that_serves_the_newest_or_drops_the_rest_outlives_an_overload() {
    let served = |queue: &str| run(&overload(queue), "none").success_rate();
    let [oldest, newest, codel] = [
        "queue: unlimited",
        "queueOrder: newest-first",
        "queueOrder: codel",
    ]
    .map(served);
    assert_eq!(oldest, served("queueOrder: oldest-first"));
    assert!(oldest < 0.1, "{oldest}");
    // The capacity is two thirds of what is asked.
    assert!(newest > 0.6 && newest < 0.7, "{newest}");
    assert!(codel > 0.55 && codel < 0.7, "{codel}");
    assert_ne!(
        codel,
        served("queueOrder: {codel: {target: 200ms, interval: 500ms}}")
    );
}

/// A full queue turns the newcomer away, and under `newest-first` the request that has waited longest.
#[test]
fn a_full_queue_of_the_newest_first_loses_its_oldest() {
    let short = |order: &str| run(&overload(&format!("queue: 20, queueOrder: {order}")), "none");
    let (oldest, newest) = (short("oldest-first"), short("newest-first"));
    for run in [&oldest, &newest] {
        assert!(
            (run.success_rate() - 0.667).abs() < 0.02,
            "{}",
            run.success_rate()
        );
        assert!(
            (run.rejection_rate() - 0.333).abs() < 0.02,
            "{}",
            run.rejection_rate()
        );
    }
    let median = |run: &Run| run.latency.quantile(0.5).unwrap();
    assert!(median(&newest) < median(&oldest));
    let none = run(&overload("queue: 0, queueOrder: newest-first"), "none");
    assert!(none.rejection_rate() > 0.3);
}

/// 200 clients under errors that retries mend, or under twice the load that the store can bear.
fn skewed(store: &str, rate: u32, skew: &str) -> String {
    format!(
        "duration: 120s\nservices:\n  store: {{workers: 20, queue: 40, time: {{exponential: 50ms}}, {store}}}\n\
         clients:\n  people: {{calls: store, rate: {rate}, clients: 200, deadline: 3s, {skew}}}\n"
    )
}

/// Clients that agree on the time measure what retries add in the same slots. Where their clocks are off they measure less
/// well; what they decide must still be good.
#[test]
fn clocks_that_are_off_cost_little() {
    for (store, rate) in [
        ("errors: 30%", 150),
        ("errors: 30%, errorKind: overload", 150),
        ("errors: 1%", 800),
        ("errors: 20%, errorKind: overload", 600),
    ] {
        let at = |skew: &str, policy: &str| {
            let run = run(&skewed(store, rate, skew), policy);
            (run.goodput(), run.services[0].attempts)
        };
        let agreed = at("replays: 0", "retryguard");
        assert_eq!(agreed, at("clockSkew: 0", "retryguard"));
        let without = at("replays: 0", "none");
        for skew in ["100ms", "{uniform: [0s, 100ms]}", "5s", "{uniform: [0s, 5s]}"] {
            let off = at(&format!("clockSkew: {skew}"), "retryguard");
            assert!(
                off.0 > 0.98 * agreed.0,
                "{store} at {rate}, {skew}: {off:?} for {agreed:?}"
            );
            assert!(
                off.1 * 2 < agreed.1 * 3,
                "{store} at {rate}, {skew}: {off:?} for {agreed:?}"
            );
            assert!(
                off.0 > 0.98 * without.0,
                "{store} at {rate}, {skew}: {off:?} for {without:?}"
            );
        }
    }
}

#[test]
fn mistakes_in_queue_order_and_clock_skew_are_told() {
    let mistakes = |text: &str| {
        Scenario::parse(text, "world", &mut |path| Err(format!("{path} is not there")))
            .err()
            .map(|mistakes| mistakes.to_string())
            .unwrap_or_else(|| panic!("{text} is accepted"))
    };
    for (text, told) in [
        (overload("queueOrder: backwards"), "newest-first"),
        (
            overload("queueOrder: {codel: {interval: 0}}"),
            "`interval` is nothing",
        ),
        (
            overload("queueOrder: newest-first").replace("workers: 20", "capacity: {perSecond: 200}"),
            "means nothing where no request waits",
        ),
        (skewed("errors: 1%", 10, "clockSkew: 200"), "clockSkew"),
        (skewed("errors: 1%", 10, "clockSkew: -5s"), "clockSkew"),
    ] {
        let found = mistakes(&text);
        assert!(found.contains(told), "{found}\n{text}");
    }
}
