//! Every key of a policy changes what the simulator reports, or is named as one that does not.

use std::{collections::BTreeSet, fmt::Write as _};

use retryguard_policy::{Policy, reading::Node};
use retryguard_sim::{
    client_policy::{ClientPolicy, WITHOUT_EFFECT},
    engine,
    scenario::Scenario,
    streams::Seed,
};

/// A world in which something of everything happens: errors of two kinds, an overload that is shed, an outage, slow work, and
/// requests that must not be done twice.
const WORLD: &str = "
duration: 60s
services:
  front: {replicas: 2, workers: 50, time: 1ms, calls: [store, ledger, audit]}
  store: {replicas: 2, workers: 4, queue: 40, time: {exponential: 40ms}, errors: 3%, errorKind: overload, shedding: policy}
  ledger: {workers: 20, time: {exponential: 10ms}, errors: 2%, effects: policy}
  audit: {workers: 20, time: 2ms, errors: 5%, errorKind: request}
clients:
  readers: {calls: front, rate: [{at: 0s, rate: 60}, {at: 20s, rate: 240}, {at: 26s, rate: 60}], clients: 2, deadline: 2s}
  writers: {calls: ledger, rate: 60, clients: 2, deadline: 2s, idempotent: false}
faults:
  - {service: store, outage: true, from: 8s, until: 12s}
  - {service: store, slow: 4, from: 34s, until: 44s}
  - {service: ledger, errors: 60%, from: 40s, until: 50s}
";

/// A world for the keys of endpoints: clients that know the replicas of a service, of which some are broken.
const REPLICAS: &str = "
duration: 60s
services:
  store: {replicas: 4, workers: 10, time: {exponential: 20ms}, errors: 1%}
clients:
  users: {calls: {to: store, endpoints: known}, rate: 100, deadline: 2s}
faults:
  - {service: store, brokenReplicas: 1, from: 5s, until: 20s}
  - {service: store, brokenReplicas: 1, from: 30s, until: 33s}
";

/// A key, what stands beside it so that it matters, and two values that must differ in their effect.
const CHANGES: &[(&str, &str, &str, &str)] = &[
    ("maxRetries", "", "0", "3"),
    ("initialDelay", "", "100ms", "400ms"),
    ("maxDelay", "initialDelay: 200ms", "200ms", "2s"),
    ("multiplier", "maxRetries: 4", "2", "4"),
    ("growth", "maxRetries: 4", "exponential", "constant"),
    ("jitter", "", "full", "none"),
    ("jitterFactor", "", "0.1", "0.9"),
    ("stopBeyond", "maxRetries: 6", "off", "150ms"),
    ("attemptTimeout", "", "off", "60ms"),
    ("deadline", "", "10s", "300ms"),
    ("leastAttempt", "", "1ms", "1500ms"),
    ("retryRetried", "budget: off, guard: off", "false", "true"),
    ("retryNonIdempotent", "", "false", "true"),
    ("retryOn", "", "[]", "[400]"),
    ("neverRetryOn", "", "[]", "[fault]"),
    ("rejections", "", "[]", "[500]"),
    ("notRejections", "", "[]", "[503, unreachable, timeout]"),
    ("quota", "", "[]", "[503]"),
    ("tags", "", "true", "false"),
    ("budget", "guard: off", "on", "off"),
    ("budget.form", "guard: off", "ratio", "quota"),
    ("budget.percent", "", "20%", "5%"),
    ("budget.interval", "", "10s", "1s"),
    (
        "budget.minRetryRate",
        "budget.percent: 1%",
        "{count: 0}",
        "{count: 100}",
    ),
    ("budget.minRetryRate.count", "budget.percent: 1%", "1", "100"),
    (
        "budget.minRetryRate.interval",
        "budget.percent: 1%",
        "10s",
        "200ms",
    ),
    ("budget.minPercent", "budget.form: adaptive", "0%", "30%"),
    ("budget.maxPercent", "budget.form: adaptive", "10%", "50%"),
    ("budget.capacity", "budget.form: quota", "5", "500"),
    (
        "budget.retryCost",
        "budget.form: quota, budget.capacity: 20",
        "1",
        "20",
    ),
    (
        "budget.timeoutCost",
        "budget.form: quota, budget.capacity: 20, attemptTimeout: 60ms",
        "1",
        "20",
    ),
    (
        "budget.successGain",
        "budget.form: quota, budget.capacity: 20",
        "0",
        "20",
    ),
    ("guard", "", "on", "off"),
    ("guard.mode", "", "hysteresis", "algorithm1"),
    (
        "guard.signal",
        "guard.mode: hysteresis",
        "rejections",
        "retries-per-call",
    ),
    ("guard.interval", "guard.mode: hysteresis", "1s", "100ms"),
    (
        "guard.offAbove",
        "guard.mode: hysteresis, guard.onBelow: 2%",
        "20%",
        "90%",
    ),
    ("guard.onBelow", "guard.mode: hysteresis", "1%", "19%"),
    ("guard.samples", "guard.mode: hysteresis", "5", "1"),
    ("guard.minimumCalls", "guard.mode: hysteresis", "20", "100000"),
    ("guard.coolDown", "guard.mode: hysteresis", "1s", "20s"),
    (
        "guard.coolDownAtMost",
        "guard.mode: hysteresis, guard.coolDown: 200ms, guard.stepFor: 200ms, guard.offAbove: 4%, guard.samples: 2",
        "200ms",
        "1m",
    ),
    (
        "guard.rampSteps",
        "guard.mode: hysteresis, guard.coolDown: 1s",
        "0",
        "6",
    ),
    (
        "guard.stepFor",
        "guard.mode: hysteresis, guard.coolDown: 1s",
        "200ms",
        "10s",
    ),
    (
        "guard.quietAfter",
        "guard.mode: hysteresis, guard.minimumCalls: 300, guard.coolDown: 1s",
        "1s",
        "1h",
    ),
    ("guard.threshold", "guard.mode: algorithm1", "5%", "90%"),
    ("guard.price", "", "15%", "90%"),
    ("guard.limitedRetries", "", "2", "0"),
    ("guard.slot", "", "250ms", "2s"),
    ("guard.slotAtMost", "guard.slot: 20ms", "20ms", "4s"),
    ("breaker", "", "on", "off"),
    ("breaker.whenDown", "", "wait", "fail"),
    ("breaker.waiting", "", "1", "1000"),
    ("breaker.trip", "", "rate", "consecutive"),
    ("breaker.ratio", "", "80%", "10%"),
    ("breaker.minimumCalls", "breaker.ratio: 30%", "2", "1000000"),
    (
        "breaker.slowCall",
        "breaker.slowCallRatio: 20%, breaker.minimumCalls: 5",
        "10ms",
        "1h",
    ),
    (
        "breaker.slowCallRatio",
        "breaker.slowCall: 10ms, breaker.minimumCalls: 5",
        "10%",
        "100%",
    ),
    ("breaker.failures", "breaker.trip: consecutive", "2", "100000"),
    ("breaker.window", "breaker.ratio: 30%", "10s", "1s"),
    (
        "breaker.openFor",
        "breaker.ratio: 30%, breaker.window: 2s",
        "5s",
        "200ms",
    ),
    (
        "breaker.openForAtMost",
        "breaker.openFor: 300ms, breaker.ratio: 30%, breaker.window: 2s",
        "300ms",
        "10s",
    ),
    (
        "breaker.probes",
        "breaker.openFor: 300ms, breaker.ratio: 30%, breaker.window: 2s",
        "1",
        "50",
    ),
    (
        "breaker.closeAfter",
        "breaker.openFor: 300ms, breaker.ratio: 30%, breaker.window: 2s",
        "1",
        "50",
    ),
    ("throttle", "", "off", "{requestsPerAccept: 1.1, window: 5s}"),
    ("throttle.requestsPerAccept", "throttle: on", "1.1", "20"),
    (
        "throttle.window",
        "throttle: on, throttle.requestsPerAccept: 1.1",
        "1s",
        "2m",
    ),
    ("bulkhead", "", "off", "{limit: 2}"),
    ("bulkhead.form", "bulkhead.wait: 10ms", "fixed", "gradient"),
    ("bulkhead.late", "bulkhead.form: adaptive", "5%", "100%"),
    ("bulkhead.limit", "", "2", "100"),
    ("bulkhead.initial", "bulkhead.form: gradient", "2", "50"),
    ("bulkhead.least", "bulkhead.form: gradient", "1", "20"),
    (
        "bulkhead.most",
        "bulkhead.form: gradient, bulkhead.initial: 4",
        "4",
        "1000",
    ),
    ("bulkhead.tolerance", "bulkhead.form: gradient", "1.1", "3"),
    ("bulkhead.wait", "bulkhead.limit: 2", "0", "1s"),
    (
        "bulkhead.waiting",
        "bulkhead.limit: 2, bulkhead.wait: 1s",
        "1",
        "100",
    ),
    ("hedge", "", "off", "on"),
    ("hedge.after", "hedge: on", "50%", "99%"),
    ("hedge.atLeast", "hedge: on, hedge.after: 50%", "1ms", "500ms"),
    (
        "hedge.most",
        "hedge: on, hedge.after: 50%, hedge.atLeast: 1ms, budget: off",
        "1",
        "3",
    ),
    (
        "gate",
        "bulkhead: off, server.inFlight: 20",
        "{}",
        "{atMost: 100ms}",
    ),
    ("gate.atMost", "bulkhead: off, server.inFlight: 20", "100ms", "1m"),
    ("gate.spread", "bulkhead: off, server.inFlight: 20", "0%", "100%"),
    (
        "gate.scope",
        "bulkhead: off, server.inFlight: 20",
        "target",
        "call",
    ),
    ("idempotency", "", "{}", "{addKeys: true}"),
    ("idempotency.addKeys", "", "false", "true"),
    ("server", "bulkhead: off", "on", "off"),
    ("server.inFlight", "bulkhead: off", "20", "400"),
    ("endpoints", "", "on", "off"),
    ("endpoints.inARow", "endpoints.attempts: 1000", "5", "50"),
    ("endpoints.factor", "", "3", "100"),
    ("endpoints.attempts", "endpoints.inARow: 1000", "10", "100"),
    ("endpoints.outFor", "", "1s", "5s"),
    ("endpoints.outForAtMost", "", "3s", "30s"),
    ("endpoints.mostOut", "", "0%", "50%"),
    ("server.queueTime", "bulkhead: off", "1ms", "1s"),
    (
        "server.queueInterval",
        "bulkhead: off, server.queueTime: 1ms",
        "50ms",
        "5s",
    ),
    ("server.processor", "", "off", "30%"),
    (
        "server.retryAfter",
        "bulkhead: off, server.inFlight: 20",
        "50ms",
        "20s",
    ),
    (
        "server.spread",
        "bulkhead: off, server.inFlight: 20",
        "0%",
        "100%",
    ),
];

/// The policy with keys such as `guard.mode` in their blocks.
fn policy(pairs: &[(&str, &str)]) -> String {
    #[derive(Default)]
    struct Tree(Vec<(String, Result<String, Tree>)>);
    fn put(tree: &mut Tree, key: &str, value: &str) {
        let Some((part, rest)) = key.split_once('.') else {
            // A part that has keys of its own is on already.
            if !tree.0.iter().any(|(known, _)| known == key) {
                tree.0.push((key.to_owned(), Ok(value.to_owned())));
            }
            return;
        };
        let place = match tree.0.iter().position(|(known, _)| known == part) {
            Some(place) => place,
            None => {
                tree.0.push((part.to_owned(), Err(Tree::default())));
                tree.0.len() - 1
            }
        };
        if tree.0[place].1.is_ok() {
            tree.0[place].1 = Err(Tree::default());
        }
        if let Err(inner) = &mut tree.0[place].1 {
            put(inner, rest, value);
        }
    }
    fn write(tree: &Tree, out: &mut String) {
        out.push('{');
        for (key, value) in &tree.0 {
            match value {
                Ok(value) => {
                    let _ = write!(out, "{key}: {value}, ");
                }
                Err(inner) => {
                    let _ = write!(out, "{key}: ");
                    write_inner(inner, out);
                }
            }
        }
        out.push('}');
    }
    fn write_inner(tree: &Tree, out: &mut String) {
        write(tree, out);
        out.push_str(", ");
    }
    let mut tree = Tree::default();
    for (key, value) in pairs {
        put(&mut tree, key, value);
    }
    let mut out = String::from("defaults: ");
    write(&tree, &mut out);
    out
}

/// Everything that a run reports, as text.
fn outcome(key: &str, text: &str) -> Result<String, String> {
    let policy = Policy::parse(text).map_err(|mistakes| format!("{text}\n{mistakes}"))?;
    let world = if key.starts_with("endpoints") {
        REPLICAS
    } else {
        WORLD
    };
    let scenario =
        Scenario::parse(world, "keys", &mut |_| Err(String::new())).expect("the world can be read");
    let run = engine::run(
        &scenario.world,
        &ClientPolicy::of_policy("p", policy),
        &[],
        Seed(1),
    );
    Ok(format!("{run:?}"))
}

/// The keys of a schema, those under a part with a dot.
fn keys(schema: &Node, before: &str, found: &mut BTreeSet<String>) {
    use retryguard_policy::reading::Body;
    let Body::Map(entries) = &schema.body else { return };
    for entry in entries {
        match (entry.key.as_str(), &entry.value.body) {
            ("properties", Body::Map(properties)) => {
                for property in properties {
                    let key = format!("{before}{}", property.key);
                    keys(&property.value, &format!("{key}."), found);
                    found.insert(key);
                }
            }
            ("anyOf" | "oneOf", Body::List(items)) => items.iter().for_each(|item| keys(item, before, found)),
            _ => {}
        }
    }
}

fn schema_keys() -> BTreeSet<String> {
    use retryguard_policy::reading::{Body, Mistakes, read};
    let root = read(&retryguard_policy::schema(), &mut Mistakes::default()).expect("JSON is YAML");
    let at = |node: &Node, key: &str| match &node.body {
        Body::Map(entries) => entries
            .iter()
            .find(|it| it.key == key)
            .expect("a key of the schema")
            .value
            .clone(),
        _ => panic!("no {key}"),
    };
    let mut found = BTreeSet::new();
    keys(&at(&at(&root, "$defs"), "service"), "", &mut found);
    keys(&root, "", &mut found);
    found.remove("defaults");
    found.remove("services");
    found
}

#[test]
fn every_key_of_the_schema_is_tried_or_named_as_without_effect() {
    let named: BTreeSet<&str> = WITHOUT_EFFECT.iter().map(|(key, _)| *key).collect();
    let tried: BTreeSet<&str> = CHANGES.iter().map(|(key, ..)| *key).collect();
    let schema = schema_keys();
    assert!(schema.len() > 80, "{schema:?}");
    let missing: Vec<&String> = schema
        .iter()
        .filter(|key| !named.contains(key.as_str()) && !tried.contains(key.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "keys of a policy that the simulator may ignore in silence; add each to CHANGES with two values that differ in their \
         effect, or to WITHOUT_EFFECT with the reason: {missing:?}"
    );
    for key in named.iter().chain(&tried) {
        assert!(schema.contains(*key), "{key} is not a key of a policy");
    }
}

#[test]
fn a_change_of_a_key_changes_the_result() {
    let mut silent = Vec::new();
    for (key, beside, one, other) in CHANGES {
        let with = |value: &str| {
            let mut pairs: Vec<(&str, &str)> = beside
                .split(", ")
                .filter_map(|pair| pair.split_once(": "))
                .collect();
            pairs.push((*key, value));
            policy(&pairs)
        };
        match (outcome(key, &with(one)), outcome(key, &with(other))) {
            (Ok(one_run), Ok(other_run)) if one_run != other_run => {}
            (Ok(_), Ok(_)) => silent.push(format!("{key}: {one} or {other} come to the same")),
            (Err(wrong), _) | (_, Err(wrong)) => silent.push(format!("{key}: {wrong}")),
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn the_reference_names_every_key_without_effect() {
    let page = include_str!("../../../../docs/scenarios.md");
    for (key, why) in WITHOUT_EFFECT {
        let line = format!("| `{key}` | {why} |");
        assert!(page.contains(&line), "docs/scenarios.md lacks: {line}");
    }
}

#[test]
fn lists_of_failures_are_read_as_in_production() {
    let retries = |lists: &str| {
        let policy = Policy::parse(&format!(
            "defaults: {{budget: off, guard: off, breaker: off, {lists}}}"
        ))
        .unwrap();
        let world = "
duration: 30s
services: {store: {workers: 50, time: 10ms, errors: 30%}}
clients: {users: {calls: store, rate: 50}}
";
        let scenario =
            Scenario::parse(world, "lists", &mut |_| Err(String::new())).expect("the world can be read");
        engine::run(
            &scenario.world,
            &ClientPolicy::of_policy("p", policy),
            &[],
            Seed(1),
        )
        .retries_per_call()
    };
    assert!(retries("") > 0.3);
    for never in [
        "neverRetryOn: [fault]",
        "neverRetryOn: [500]",
        "neverRetryOn: [5xx]",
        "quota: [500]",
    ] {
        assert_eq!(retries(never), 0.0, "{never}");
    }
    assert!(retries("neverRetryOn: [503]") > 0.3);
}
