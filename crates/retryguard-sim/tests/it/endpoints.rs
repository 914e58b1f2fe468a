//! Clients that know the replicas of a service, beside clients that do not.

use retryguard_policy::Policy;
use retryguard_sim::{
    client_policy::{ClientPolicy, named},
    engine::{self, Run},
    scenario::Scenario,
    streams::Seed,
};

use super::within;

/// One of four replicas refuses everything for a minute; the others could serve all calls.
fn world(endpoints: &str, clients: u32) -> Scenario {
    let text = format!(
        "
duration: 120s
services:
  store: {{replicas: 4, workers: 10, queue: 100, time: {{exponential: 20ms}}}}
clients:
  users: {{calls: {{to: store, network: 1ms, endpoints: {endpoints}}}, rate: 200, clients: {clients}, deadline: 2s}}
faults:
  - {{service: store, brokenReplicas: 1, from: 30s, until: 90s}}
measure: {{from: 30s, until: 90s}}
"
    );
    Scenario::parse(&text, "endpoints", &mut |_| Err(String::new()))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn run(endpoints: &str, clients: u32, keys: &str) -> Run {
    let policy = Policy::parse(&format!("defaults: {{{keys}}}")).expect("the policy is right");
    let scenario = world(endpoints, clients);
    engine::run(
        &scenario.world,
        &ClientPolicy::of_policy("p", policy),
        &[],
        Seed(1),
    )
}

/// Attempts for each call that succeeded.
fn per_success(run: &Run) -> f64 {
    run.amplification() / run.success_rate()
}

#[test]
fn a_broken_replica_costs_clients_that_know_the_replicas_next_to_nothing() {
    for (clients, most) in [(1, 1.01), (10, 1.06)] {
        let (known, unknown) = (run("known", clients, ""), run("unknown", clients, ""));
        println!(
            "{clients} clients: known {:.4} at {:.3} requests per success, unknown {:.4} at {:.3}",
            known.success_rate(),
            per_success(&known),
            unknown.success_rate(),
            per_success(&unknown)
        );
        within(known.success_rate(), 0.998, 1.0);
        within(per_success(&known), 1.0, most);
        // One in four attempts fails, and a retry may meet the same replica.
        within(per_success(&unknown), 1.2, 1.5);
        assert!(known.success_rate() >= unknown.success_rate() - 0.001);
    }
}

/// Without leaving out, a retry still goes to another replica: one retry is always enough.
#[test]
fn a_retry_goes_to_another_replica() {
    let keys = "endpoints: off, maxRetries: 1, budget: off, guard: off, breaker: off";
    let (known, unknown) = (run("known", 1, keys), run("unknown", 1, keys));
    within(known.success_rate(), 0.9999, 1.0);
    within(unknown.success_rate(), 0.9, 0.96);
    // A replica that refuses at once looks idle, and the less busy of two is taken: without leaving it out it gets more than
    // its share.
    within(per_success(&known), 1.3, 1.6);
}

/// The replicas of a service that scales are followed, and a client that does not know them draws as before.
#[test]
fn policies_of_other_tools_do_not_know_the_replicas() {
    let client_policy = named("envoy").or_else(|| named("immediate")).unwrap();
    let of = |endpoints: &str| {
        let scenario = world(endpoints, 3);
        format!("{:?}", engine::run(&scenario.world, &client_policy, &[], Seed(1)))
    };
    assert_eq!(of("known"), of("unknown"));
}

#[test]
fn the_oracle_knows_which_replica_is_broken() {
    let scenario = world("known", 3);
    let run = engine::run(&scenario.world, &named("oracle").unwrap(), &[], Seed(1));
    within(run.success_rate(), 0.999, 1.0);
    within(run.amplification(), 1.0, 1.0);
}

#[test]
fn only_replicas_can_be_known() {
    let wrong = |service: &str, endpoints: &str| {
        let text = format!(
            "duration: 10s\nservices: {{a: {service}}}\nclients: {{b: {{calls: {{to: a, endpoints: {endpoints}}}, rate: 1}}}}"
        );
        Scenario::parse(&text, "wrong", &mut |_| Err(String::new()))
            .unwrap_err()
            .to_string()
    };
    let message = wrong("{capacity: {perSecond: 5}, time: 1ms}", "known");
    assert!(message.contains("which has no replicas"), "{message}");
    let message = wrong("{workers: 5, time: 1ms}", "maybe");
    assert!(message.contains("known"), "{message}");
}
