use super::*;

fn parse(text: &str) -> Result<Scenario, Diagnostics> {
    Scenario::parse(text, "test", &mut |path| Err(format!("no file {path}")))
}

const SMALL: &str = "
duration: 1m
services:
  web: {workers: 4, time: 20ms, calls: [store]}
  store: {capacity: {perSecond: 50, burst: 10s}, time: {exponential: 5ms}}
clients:
  people: {users: 20, think: {uniform: [0.5s, 1.5s]}, calls: web}
policies: [none, aws-standard, {name: mine, policy: {maxRetries: 1}}]
";

#[test]
fn a_small_world_is_read() {
    let scenario = parse(SMALL).unwrap();
    assert_eq!(scenario.world.services.len(), 2);
    assert_eq!(scenario.world.services[scenario.world.focus].name, "store");
    let names: Vec<&str> = scenario
        .policies
        .iter()
        .map(|policy| policy.name.as_str())
        .collect();
    assert_eq!(names, ["none", "aws-standard", "mine"]);
    assert_eq!(scenario.policies[2].settings("store").call.retries, 1);
}

#[test]
fn every_mistake_is_told_at_once_with_its_line_and_its_cure() {
    let told = parse(
        "duration: 1m
services:
  web: {wrkers: 4, calls: [stor]}
  store: {time: 5, effects: keyd}
clients:
  people: {rate: 10, users: 5, calls: web}
faults:
  - {service: store, errors: 20, from: 5s}
policies: [aws-standart]
sweep: {key: services.web.time, values: [1ms]}
",
    )
    .unwrap_err()
    .to_string();
    for expected in [
        "line 3, column 9: unknown key `wrkers` in `web`; did you mean `workers`?",
        "there is no service `stor`; did you mean `store`?",
        "`time` is `5`; write a duration",
        "did you mean `keyed`?",
        "line 6, column 11: `people` has no arrivals, or two kinds of them",
        "write a share from 0% to 100%, such as 20% or 0.2",
        "line 9, column 12: there is no policy `aws-standart`; did you mean `aws-standard`?",
    ] {
        assert!(told.contains(expected), "{expected:?} is missing in:\n{told}");
    }
}

#[test]
fn a_circle_is_refused() {
    let told = parse(
        "duration: 1m
services: {a: {calls: [b]}, b: {calls: [a]}}
clients: {c: {rate: 1, calls: a}}
",
    )
    .unwrap_err()
    .to_string();
    assert!(told.contains("calls itself"), "{told}");
}

#[test]
fn a_sweep_changes_one_value() {
    let text = format!("{SMALL}sweep: {{key: services.web.workers, values: [1, 2]}}\n");
    let sweep = parse(&text).unwrap().sweep.unwrap();
    let workers: Vec<String> = sweep
        .worlds
        .iter()
        .map(|(_, world)| format!("{:?}", world.services[0].station.per_second()))
        .collect();
    assert_eq!(workers, ["Some(50.0)", "Some(100.0)"]);
    let wrong = format!("{SMALL}sweep: {{key: services.wep.workers, values: [1, 2]}}\n");
    let told = parse(&wrong).unwrap_err().to_string();
    assert!(told.contains("did you mean `web`?"), "{told}");
}

#[test]
fn a_guard_can_stand_over_a_foreign_policy() {
    let text = SMALL.replace(
        "aws-standard,",
        "{name: guarded, use: aws-legacy, guard: on, shared: true},",
    );
    let scenario = parse(&text).unwrap();
    let guarded = &scenario.policies[1];
    assert!(guarded.shared && guarded.settings("store").guard.is_some());
    assert_eq!(guarded.settings("store").call.retries, 4);
}

#[test]
fn a_base_gives_what_the_file_does_not_write() {
    let based = |text: &str| {
        Scenario::parse(text, "test", &mut |path| match path {
            "small.yaml" => Ok(SMALL.to_owned()),
            "wrong.yaml" => Ok("duration: 1m\nservces: {}\n".to_owned()),
            "based.yaml" => Ok("base: small.yaml\n".to_owned()),
            _ => Err(format!("no file {path}")),
        })
    };
    let scenario = based("base: small.yaml\nduration: 5m\nclaim: other\npolicies: [none]\n").unwrap();
    assert_eq!(scenario.world.duration, Duration::from_secs(300));
    assert_eq!((scenario.world.services.len(), scenario.policies.len()), (2, 1));
    let swept = based("base: small.yaml\nsweep: {key: services.web.workers, values: [1, 2]}\n").unwrap();
    assert_eq!(swept.sweep.unwrap().worlds.len(), 2);
    for (text, expected) in [
        (
            "claim: a\nbase: none.yaml",
            "line 2, column 7: the base `none.yaml` cannot be read: no file",
        ),
        (
            "base: wrong.yaml",
            "the base `wrong.yaml` has mistakes, the first: line 1, column 1: `the scenario` has no `services`",
        ),
        (
            "base: based.yaml",
            "has a base of its own; name the file that holds the world itself",
        ),
        ("base: [a]", "write the path of another scenario"),
    ] {
        let told = based(text).unwrap_err().to_string();
        assert!(told.contains(expected), "{expected:?} is missing in:\n{told}");
    }
}

/// As in a policy: `true` and `false`, and `off`.
#[test]
fn words_are_those_of_a_policy() {
    let client = |keys: &str| {
        parse(&format!(
            "duration: 1m\nservices: {{a: {{}}}}\nclients: {{c: {{rate: 1, calls: a, {keys}}}}}\n"
        ))
    };
    assert!(client("idempotent: false, deadline: off").is_ok());
    for (keys, expected) in [
        ("idempotent: yes", "`idempotent` is `yes`; write true"),
        ("idempotent: off", "`idempotent` is `off`; write false"),
        ("deadline: none", "`deadline` is `none`; write off"),
    ] {
        let told = client(keys).unwrap_err().to_string();
        assert!(told.contains(expected), "{expected:?} is missing in:\n{told}");
    }
}

#[test]
fn an_outbox_is_a_word_or_a_block() {
    let with = |outbox: &str| {
        parse(&SMALL.replace(
            "calls: [store]",
            &format!("calls: [{{to: store, outbox: {outbox}}}]"),
        ))
    };
    let rule = |outbox: &str| with(outbox).unwrap().world.services[0].steps[0].outbox.unwrap();
    assert!(rule("always").always && !rule("policy").always);
    assert_eq!(rule("{by: always, poll: 1s, batch: 7}").batch, 7);
    for (outbox, expected) in [
        (
            "sometimes",
            "write policy, always, or a block such as {by: policy, poll: 200ms}",
        ),
        ("{poll: 0s}", "`poll` is nothing; write at least 1ms"),
        ("{redelivered: 100%}", "write a share below 100%"),
        ("{pol: 1s}", "did you mean `poll`?"),
    ] {
        let told = with(outbox).unwrap_err().to_string();
        assert!(told.contains(expected), "{expected:?} is missing in:\n{told}");
    }
}

/// The reader looked up the places of services among those without mistakes, and panicked.
#[test]
fn a_service_with_a_mistake_is_reported_alone() {
    let text = "duration: 1s\nservices: {a: {workers: 1, capacity: {perSecond: 1}}}\nclients: {c: {calls: a, rate: 1}}\n";
    let told = parse(text).unwrap_err();
    assert_eq!(told.as_slice().len(), 1, "{told}");
}
