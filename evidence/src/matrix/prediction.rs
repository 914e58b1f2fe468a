//! What the simulator says of the same runs: the same policies, by the same files, in its own worlds.

use std::collections::BTreeMap;

use retryguard_lab::{
    Configuration, Name,
    experiment::{Rule, Trouble, recovery},
};
use retryguard_policy::Policy;
use retryguard_sim::{
    client_policy::ClientPolicy,
    comparison::{Plan, Summary, compare},
    scenario::Scenario,
    streams::Seed,
};
use serde::{Deserialize, Serialize};

/// When faults begin in the simulator's worlds, in seconds.
const FAULT: usize = 60;

const BASE: &str = include_str!("../../scenarios/recovery-payment-errors.yaml");
const CALM: &str =
    "name: recovery-none\nclaim: Nothing is broken.\nbase: recovery-payment-errors.yaml\nfaults: []\n";

/// A run as it is predicted: means over the scenario's replications.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Predicted {
    pub(super) success: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) amplification: f64,
    /// None in the spike's world, whose focus is the gateway, which users call without a breaker.
    pub(super) breaker_open: Option<f64>,
    pub(super) duplicate_rate: f64,
    /// Of the first replication.
    pub(super) recovery_s: Option<f64>,
}

/// Runs by fault and configuration.
pub(super) type Predictions = BTreeMap<(Trouble, Configuration), Predicted>;

/// Success and amplification by workers and rule.
pub(super) type Swept = BTreeMap<(usize, &'static str), (f64, f64)>;

/// Predictions of runs.
pub(super) fn all(
    configurations: &[Configuration],
    faults: &[Trouble],
    seed: u64,
) -> anyhow::Result<Predictions> {
    let mut client_policies = Vec::new();
    for configuration in configurations {
        let policy = Policy::parse(configuration.policy())
            .map_err(|mistakes| anyhow::anyhow!("{configuration} has mistakes:\n{mistakes}"))?;
        let outbox = policy.service(Name::Notifications.as_str()).idempotency.add_keys;
        let mut client_policy = ClientPolicy::of_policy(configuration.letter(), policy);
        client_policy.outbox = outbox;
        client_policies.push(client_policy);
    }
    let mut predicted = BTreeMap::new();
    for trouble in faults {
        let scenario = parse(text_of(*trouble))?;
        let summaries = compare(
            &scenario.world,
            &client_policies,
            &scenario.fixed,
            &plan(seed, scenario.replications),
            &|_| {},
        );
        for (configuration, summary) in configurations.iter().zip(&summaries) {
            predicted.insert((*trouble, *configuration), of(*trouble, summary));
        }
    }
    Ok(predicted)
}

/// The capacity sweep, by the policies of the laboratory's own.
pub(super) fn sweep(seed: u64) -> anyhow::Result<Swept> {
    let scenario = parse(include_str!("../../scenarios/recovery-capacity.yaml"))?;
    let mut client_policies = Vec::new();
    for rule in Rule::ALL {
        let policy = Policy::parse(rule.policy())
            .map_err(|mistakes| anyhow::anyhow!("{} has mistakes:\n{mistakes}", rule.as_str()))?;
        let mut client_policy = ClientPolicy::of_policy(rule.as_str(), policy);
        // The driver gives an order up silently, and the policies set no deadline: payments receive none.
        client_policy.propagates = false;
        client_policies.push(client_policy);
    }
    let mut predicted = BTreeMap::new();
    for (label, world) in scenario.sweep.iter().flat_map(|sweep| &sweep.worlds) {
        let Some(workers) = label
            .rsplit(|letter: char| !letter.is_ascii_digit())
            .next()
            .and_then(|digits| digits.parse().ok())
        else {
            anyhow::bail!("the sweep's label `{label}` does not end in a number of workers");
        };
        let plan = plan(seed, scenario.replications);
        let summaries = compare(world, &client_policies, &scenario.fixed, &plan, &|_| {});
        for (rule, summary) in Rule::ALL.into_iter().zip(&summaries) {
            let both = (
                summary.mean("successRate"),
                for_each_call(summary, Name::Payments),
            );
            predicted.insert((workers, rule.as_str()), both);
        }
    }
    Ok(predicted)
}

const fn text_of(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::None => CALM,
        Trouble::PaymentErrors => BASE,
        Trouble::PaymentSlow => include_str!("../../scenarios/recovery-payment-slow.yaml"),
        Trouble::InventoryLock => include_str!("../../scenarios/recovery-inventory-lock.yaml"),
        Trouble::RetryStorm => include_str!("../../scenarios/recovery-retry-storm.yaml"),
        Trouble::GatewayOverload => {
            include_str!("../../scenarios/recovery-gateway-overload.yaml")
        }
    }
}

/// The scenarios name their base and policies of their own by path; the latter are not used here, but must be read.
fn parse(text: &str) -> anyhow::Result<Scenario> {
    let mut load = |path: &str| match path {
        "recovery-payment-errors.yaml" => Ok(BASE.to_owned()),
        _ => Ok(Configuration::A.policy().to_owned()),
    };
    Scenario::parse(text, "prediction", &mut load)
        .map_err(|mistakes| anyhow::anyhow!("a scenario has mistakes:\n{mistakes}"))
}

fn plan(seed: u64, replications: u32) -> Plan {
    Plan {
        seed: Seed(seed),
        replications,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Requests that arrived at a service for each call of a user, those that never left their client included.
fn for_each_call(summary: &Summary, name: Name) -> f64 {
    let service = summary
        .services
        .iter()
        .find(|service| service.name == name.as_str());
    service.map_or(f64::NAN, |service| service.attempts.mean) / summary.mean("calls")
}

fn of(trouble: Trouble, summary: &Summary) -> Predicted {
    let seconds: Vec<(u64, u64)> = summary
        .first
        .lines
        .steps
        .iter()
        .map(|step| {
            (
                u64::from(step.successes + step.failures),
                u64::from(step.successes),
            )
        })
        .collect();
    Predicted {
        success: summary.mean("successRate"),
        p95_ms: summary.mean("p95Ms"),
        p99_ms: summary.mean("p99Ms"),
        amplification: for_each_call(summary, trouble.focus()),
        breaker_open: (trouble != Trouble::GatewayOverload).then(|| summary.mean("breakerOpen")),
        duplicate_rate: summary.mean("duplicateRate"),
        recovery_s: recovery(&seconds, FAULT),
    }
}
