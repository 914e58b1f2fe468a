use super::*;

/// Overload, and a policy that makes it worse: many retries at once, and nothing that bounds them.
const OVERLOAD: &str = "name: overload\nduration: 60s\n\
    services: {store: {workers: 4, queue: 200, time: {exponential: 100ms}, dropsExpired: false, errors: 5%}}\n\
    clients: {people: {calls: {to: store, attemptTimeout: 1s}, rate: [{at: 0s, rate: 25}, {at: 20s, rate: 60}, {at: 40s, rate: 25}], deadline: 3s}}\n";
/// Another world: other load, other speed, and an outage.
const UNSEEN: &str = "name: unseen\nduration: 60s\n\
    services: {store: {workers: 8, queue: 300, time: {exponential: 120ms}, dropsExpired: false, errors: 3%}}\n\
    clients: {people: {calls: {to: store, attemptTimeout: 1s}, rate: 75, deadline: 3s}}\n\
    faults: [{service: store, errors: 100%, from: 20s, until: 25s}]\n";
const BAD: &str = "defaults: {maxRetries: 5, initialDelay: 10ms, growth: constant, jitter: none, budget: off, guard: off, \
    breaker: off, bulkhead: off, server: off}\n";

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text, "world", &mut |path| Err(format!("{path} is not there"))).unwrap()
}

fn effort() -> Effort {
    Effort {
        seed: Seed(1),
        candidates: 24,
        replications: 3,
        held_out: 6,
        within: 0.01,
        threads: 2,
    }
}

#[test]
fn a_bad_policy_improves_in_seeds_and_worlds_that_were_not_seen() {
    let start = Start {
        text: BAD,
        service: None,
    };
    let found = improve(&scenario(OVERLOAD), start, &[scenario(UNSEEN)], &effort(), &|| ()).unwrap();
    assert_eq!(found.judged.len(), 2);
    for judged in &found.judged {
        let gain = judged
            .tuned
            .difference(&judged.written, "goodputPerSecond")
            .unwrap();
        assert!(
            retryguard_sim::comparison::is_significant(&gain)
                && gain.mean > 0.2 * judged.written.mean("goodputPerSecond"),
            "{}: {gain:?} over {}\n{}",
            judged.name,
            judged.written.mean("goodputPerSecond"),
            found.policy
        );
    }
    assert!(
        !found.changes.is_empty() && found.findings.is_empty(),
        "{}",
        found.policy
    );
    assert!(codes(&found.policy).is_empty());
    let drawn = found.svg();
    assert!(drawn.starts_with("<svg") && drawn.contains("tuned"));
    assert!(found.text(true).contains("with 95 % confidence") && found.text(true).ends_with(&found.policy));
    let text = found.text(false);
    let last = text.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("Tuned, the policy serves ") && last.ends_with("a second more than as written."),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&found.json()).unwrap();
    assert_eq!(json["judged"][1]["world"], "unseen");
    assert_eq!(json["judged"][1]["goodputGain"]["significant"], true);
}

#[test]
fn the_result_does_not_depend_on_the_threads() {
    let start = Start {
        text: BAD,
        service: None,
    };
    let short = OVERLOAD.replace("60s\n", "20s\n");
    let with = |threads| {
        let effort = Effort {
            threads,
            candidates: 8,
            ..effort()
        };
        let found = improve(&scenario(&short), start, &[], &effort, &|| ()).unwrap();
        (found.policy.clone(), found.runs, found.svg())
    };
    assert_eq!(with(1), with(2));
}

#[test]
fn what_the_search_cannot_mend_is_reported_and_does_not_stop_it() {
    // The linter warns of a retry of requests that are not idempotent; that key is not searched.
    let text = "defaults: {retryNonIdempotent: true, maxRetries: 2}\n";
    let start = Start { text, service: None };
    let short = OVERLOAD.replace("60s\n", "10s\n");
    let effort = Effort {
        candidates: 6,
        replications: 1,
        held_out: 1,
        ..effort()
    };
    let found = improve(&scenario(&short), start, &[], &effort, &|| ()).unwrap();
    assert!(
        found.findings.iter().all(|finding| finding.code == "RG011"),
        "{:?}",
        found.findings
    );
    assert!(found.policy.contains("retryNonIdempotent: true"));
}

#[test]
fn mistakes_say_what_to_do() {
    let world = scenario(OVERLOAD);
    let wrong = |text: &str, service: Option<&str>| {
        improve(&world, Start { text, service }, &[], &effort(), &|| ())
            .unwrap_err()
            .to_string()
    };
    assert!(wrong("defaults: {maxRetrys: 1}", None).contains("did you mean `maxRetries`?"));
    assert!(wrong("services: {store: {}}", Some("stor")).contains("did you mean `store`?"));
    assert!(wrong("services: {other: {}}", Some("other")).contains("the called services are store"));
    let fixed = scenario(&OVERLOAD.replace("attemptTimeout: 1s}", "attemptTimeout: 1s, policy: none}"));
    let start = Start {
        text: "",
        service: None,
    };
    let wrong = improve(&fixed, start, &[], &effort(), &|| ()).unwrap_err();
    assert!(matches!(wrong, Problem::NoComparedEdge));
}
