//! `retryguard simulate`, as it is used from outside.

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

fn retryguard(arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .arg("simulate")
        .args(arguments)
        .output()
        .expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is text");
    (text(output.stdout), text(output.stderr), output.status.code())
}

fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a scratch folder can be made");
    folder
}

/// A file of the test's own: tests run side by side.
fn small(test: &str) -> String {
    let path = scratch("simulate").join(format!("{test}.yaml"));
    fs::write(
        &path,
        "claim: small\nduration: 30s\nservices:\n  store: {workers: 2, queue: 4, time: {exponential: 100ms}, price: \
         {millionRequests: 1}}\nclients:\n  people: {calls: store, rate: 25, deadline: 2s}\npolicies: [none, immediate]\n",
    )
    .expect("a scratch file can be written");
    path.to_string_lossy().into_owned()
}

#[test]
fn the_json_has_every_promised_key_with_its_confidence() {
    let file = small("json");
    let (text, _, code) = retryguard(&[&file, "--json", "--seed", "7", "--replications", "3"]);
    assert_eq!(code, Some(0));
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["seed"], 7);
    let policies = result["policies"].as_array().unwrap();
    assert_eq!(policies[1]["name"], "immediate");
    for key in [
        "calls",
        "attempts",
        "retriesPerCall",
        "amplification",
        "successRate",
        "rejectionRate",
        "meanMs",
        "p50Ms",
        "p95Ms",
        "p99Ms",
        "bill",
    ] {
        for policy in policies {
            assert!(policy[key]["mean"].is_number(), "{key}: {}", policy[key]);
            assert_eq!(policy[key]["ci95"].as_array().unwrap().len(), 2, "{key}");
        }
    }
    let (again, _, _) = retryguard(&[&file, "--json", "--seed", "7", "--replications", "3"]);
    assert_eq!(text, again);
    let (other, _, _) = retryguard(&[&file, "--json", "--seed", "8", "--replications", "3"]);
    assert_ne!(text, other);
}

#[test]
fn policies_can_be_chosen_by_name_and_by_path() {
    let file = small("chosen");
    let policy = scratch("simulate").join("mine.yaml");
    fs::write(&policy, "defaults: {maxRetries: 1}\n").unwrap();
    let (text, _, code) = retryguard(&[
        &file,
        "--csv",
        "--policy",
        "none",
        "grpc",
        &policy.to_string_lossy(),
    ]);
    assert_eq!(code, Some(0));
    let names: Vec<&str> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(2).unwrap())
        .collect();
    assert_eq!(names, ["none", "grpc", "mine"]);
    let (_, talk, code) = retryguard(&[&file, "--policy", "nonesuch"]);
    assert_eq!(code, Some(2));
    assert!(
        talk.contains("there is no policy nonesuch; give one of none, immediate"),
        "{talk}"
    );
}

#[test]
fn a_report_stands_alone() {
    let folder = scratch("simulate").join("report");
    let (_, _, code) = retryguard(&[&small("report"), "--out", &folder.to_string_lossy()]);
    assert_eq!(code, Some(0));
    let page = fs::read_to_string(folder.join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("prefers-color-scheme: dark"));
    assert!(
        !page.contains("src=") && !page.contains("href="),
        "nothing is fetched from elsewhere"
    );
    for name in [
        "README.md",
        "result.json",
        "result.csv",
        "rates.svg",
        "attempts.svg",
        "latency.svg",
    ] {
        assert!(folder.join(name).exists(), "{name}");
    }
}

/// A service is down for a third of the time: the breaker's strip says so, a policy without a breaker has none, and a
/// report in which nothing of the kind happened has no strips at all.
#[test]
fn strips_show_what_breakers_did_and_when() {
    let path = scratch("simulate").join("strips.yaml");
    fs::write(
        &path,
        "claim: strips\nduration: 60s\nstep: 1s\nservices:\n  store: {workers: 5, queue: 50, time: {exponential: \
         20ms}}\nclients:\n  people: {calls: store, rate: 40, deadline: 2s}\nfaults:\n  - {service: store, outage: \
         true, from: 20s, until: 40s}\npolicies:\n  - none\n  - name: breaks\n    policy: {maxRetries: 0, budget: off, \
         guard: off, breaker: {trip: count, failures: 3, window: 10s, openFor: 2s, openForAtMost: 2s, closeAfter: 2}}\n",
    )
    .unwrap();
    let folder = scratch("simulate").join("strips");
    let (_, talk, code) = retryguard(&[&path.to_string_lossy(), "--out", &folder.to_string_lossy()]);
    assert_eq!(code, Some(0), "{talk}");
    let strips = fs::read_to_string(folder.join("strips.svg")).unwrap();
    assert!(
        strips.contains("people → store: breaker") && !strips.contains(": guard<"),
        "{strips}"
    );
    assert!(
        strips.contains(">breaks<") && !strips.contains(">none<"),
        "{strips}"
    );
    let open = strips
        .split(">open ")
        .nth(1)
        .and_then(|rest| rest.split(" %").next())
        .unwrap();
    assert!((25..=42).contains(&open.parse::<u32>().unwrap()), "{open}");
    // Seconds 0 to 60 lie between 150 and 650: the first open stretch begins within a step of the outage.
    let block = strips
        .split("<rect fill=\"url(#strip-shut)\" x=\"")
        .nth(1)
        .unwrap();
    let left: f64 = block.split('"').next().unwrap().parse().unwrap();
    assert!(
        (left - 150.0 - 500.0 * 20.0 / 60.0).abs() < 500.0 / 60.0 + 0.1,
        "{left}"
    );
    let page = fs::read_to_string(folder.join("index.html")).unwrap();
    assert!(page.contains("Breakers and guards over time") && page.contains("half-open"));
    let quiet = scratch("simulate").join("quiet");
    let (_, _, code) = retryguard(&[&small("quiet"), "--out", &quiet.to_string_lossy()]);
    assert_eq!(code, Some(0));
    assert!(!quiet.join("strips.svg").exists());
}

#[test]
fn mistakes_are_told_with_their_lines() {
    let path = scratch("simulate").join("wrong.yaml");
    fs::write(
        &path,
        "duration: 30s\nservices:\n  store: {wokers: 2}\nclients: {}\n",
    )
    .unwrap();
    let (out, talk, code) = retryguard(&[&path.to_string_lossy()]);
    assert_eq!((out.as_str(), code), ("", Some(2)));
    assert!(
        talk.contains("wrong.yaml:3:11: unknown key `wokers` in `store`; did you mean `workers`?"),
        "{talk}"
    );
    assert!(talk.contains("there are no clients"), "{talk}");
}

#[test]
fn the_tournament_speaks_every_format() {
    let (text, _, code) = retryguard(&["tournament", "--policy", "none", "--json"]);
    assert_eq!(code, Some(0));
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["policies"][0]["name"], "none");
    assert!(result["policies"][0]["heldOut"]["goodput"].as_f64().unwrap() < 1.0);
    // Every policy is measured against the oracle.
    assert_eq!(result["policies"][1]["name"], "oracle");
    assert_eq!(result["policies"][1]["goodput"], 1.0);
    let (text, _, code) = retryguard(&["tournament", "--policy", "none", "--csv"]);
    assert_eq!(code, Some(0));
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("set,world,policy,successRate,goodput,cost,p95Ms")
    );
    assert!(lines.clone().any(|line| line.starts_with("tried,stable,none,")));
    assert!(lines.any(|line| line.starts_with("heldOut,one-errors,none,")));
}

#[test]
fn a_misspelt_policy_gets_the_name_that_was_meant() {
    let (_, talk, code) = retryguard(&[&small("misspelt"), "--policy", "imediate"]);
    assert_eq!(code, Some(2));
    assert!(talk.contains("did you mean immediate?"), "{talk}");
}

/// A policy for other services than the scenario's does nothing but its defaults, and must say so.
#[test]
fn a_policy_whose_services_are_not_there_is_warned_of() {
    let scenario = small("strangers");
    let policy = scratch("simulate").join("strangers-policy.yaml");
    for (text, warned) in [
        ("services: {shop: {maxRetries: 5}}", true),
        ("services: {store: {maxRetries: 1}, shop: {}}", false),
        ("defaults: {maxRetries: 1}", false),
    ] {
        fs::write(&policy, text).expect("a scratch file can be written");
        let (_, talk, code) = retryguard(&[&scenario, "--policy", &policy.to_string_lossy()]);
        assert_eq!(code, Some(0), "{talk}");
        assert_eq!(
            talk.contains("lists shop, and the scenario's services are store"),
            warned,
            "{talk}"
        );
    }
}

#[test]
fn the_table_fits_a_terminal_shows_goodput_and_ends_in_a_sentence() {
    let file = small("sentence");
    let (text, _, code) = retryguard(&[
        &file,
        "--policy",
        "none",
        "immediate",
        "aws-standard",
        "retryguard",
    ]);
    assert_eq!(code, Some(0));
    let table: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("policy"))
        .collect();
    assert!(
        table
            .iter()
            .all(|line| line.chars().count() <= 100 || line.ends_with('.')),
        "{text}"
    );
    assert!(table[0].contains("goodput/s"), "{text}");
    let last = text.lines().last().expect("a sentence");
    assert!(last.contains(" served ") && last.ends_with('.'), "{text}");
}

#[test]
fn differences_and_the_stopping_rule_are_asked_for_by_name() {
    let file = small("differences");
    let (text, talk, code) = retryguard(&[&file, "--replications", "4", "--against", "none"]);
    assert_eq!(code, Some(0), "{talk}");
    assert!(
        text.contains("paired differences") && text.contains("less none"),
        "{text}"
    );
    let (text, talk, code) = retryguard(&[&file, "--until-ci", "50%", "--json"]);
    assert_eq!(code, Some(0), "{talk}");
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&found["replications"], &found["untilCi"]),
        (&5.into(), &0.5.into())
    );
    for (arguments, told) in [
        (vec![file.as_str(), "--until-ci", "0%"], "give a share above 0"),
        (vec![file.as_str(), "--until-ci", "100%"], "give a share above 0"),
        (
            vec![file.as_str(), "--until-ci", "little"],
            "give a share above 0",
        ),
        (
            vec![file.as_str(), "--against", "nonesuch"],
            "give one of none, immediate",
        ),
        (
            vec!["tournament", "--until-ci", "1%"],
            "belong to a scenario file",
        ),
        (vec!["tournament", "--ablate"], "--draw"),
    ] {
        let (_, talk, code) = retryguard(&arguments);
        assert_eq!(code, Some(2), "{talk}");
        assert!(talk.contains(told), "{talk}");
    }
}

#[test]
fn an_ablation_prints_a_line_for_each_part() {
    let (text, talk, code) = retryguard(&["tournament", "--draw", "2", "--ablate"]);
    assert_eq!(code, Some(0), "{talk}");
    for part in [
        "retryguard ",
        "no slots",
        "no guard",
        "no adaptive limit",
        "with hedges",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("oracle "), "{text}");
}

#[test]
fn units_of_a_draw_joined_are_the_draw() {
    let folder = scratch("simulate").join("units");
    let _ = fs::remove_dir_all(&folder);
    let out = folder.to_string_lossy().into_owned();
    let draw = [
        "tournament",
        "--draw",
        "5",
        "--seed",
        "3",
        "--policies",
        "none,immediate",
    ];
    let unit = |number: &str| {
        let arguments = [&draw[..], &["--units", "2", "--unit", number, "--out", &out]].concat();
        retryguard(&arguments)
    };
    assert_eq!(unit("1").2, Some(0));
    let (_, talk, code) = retryguard(&["merge", &out]);
    assert_eq!(code, Some(2));
    assert!(talk.contains("1 of 2 units are missing: 0;"), "{talk}");
    assert_eq!(unit("0").2, Some(0));
    for form in [&[][..], &["--json"], &["--csv"]] {
        let (merged, talk, code) = retryguard(&[&["merge", &out][..], form].concat());
        assert_eq!(code, Some(0), "{talk}");
        assert_eq!(merged, retryguard(&[&draw[..], form].concat()).0);
    }
    for (arguments, told) in [
        (
            vec!["--units", "6", "--unit", "0", "--out", &out],
            "give a number from 1 to 5",
        ),
        (
            vec!["--units", "2", "--unit", "2", "--out", &out],
            "the units 0 to 1",
        ),
        (vec!["--units", "2", "--unit", "1"], "--out"),
    ] {
        let (_, talk, code) = retryguard(&[&draw[..], &arguments].concat());
        assert_eq!(code, Some(2), "{talk}");
        assert!(talk.contains(told), "{talk}");
    }
}

#[test]
fn units_of_a_sweep_joined_are_the_sweep() {
    let folder = scratch("simulate").join("swept");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("swept.yaml");
    let text = "duration: 20s\nservices:\n  store: {workers: 2, time: {exponential: 50ms}, errors: 10%}\nclients:\n  people: {calls: store, rate: 20}\n\
                policies: [none, own.yaml]\nsweep: {key: clients.people.rate, values: [10, 30]}\n";
    fs::write(&file, text).unwrap();
    fs::write(folder.join("own.yaml"), "defaults: {maxRetries: 1}\n").unwrap();
    let (file, out) = (
        file.to_string_lossy().into_owned(),
        folder.join("results").to_string_lossy().into_owned(),
    );
    let asked = [file.as_str(), "--replications", "3", "--against", "none"];
    let (plan, talk, code) = retryguard(&[&asked[..], &["--units", "2"]].concat());
    assert_eq!(code, Some(0), "{talk}");
    assert!(
        plan.contains("unit 1: worlds 1 to 2 (clients.people.rate = 10 to clients.people.rate = 30)"),
        "{plan}"
    );
    for unit in ["1", "0"] {
        let unit = ["--units", "2", "--unit", unit, "--out", &out];
        let (_, talk, code) = retryguard(&[&asked[..], &unit].concat());
        assert_eq!(code, Some(0), "{talk}");
    }
    for form in [&[][..], &["--json"], &["--csv"]] {
        let (merged, talk, code) = retryguard(&[&["merge", &out][..], form].concat());
        assert_eq!(code, Some(0), "{talk}");
        assert_eq!(merged, retryguard(&[&asked[..], form].concat()).0);
    }
    let one = small("one-world");
    for (arguments, told) in [
        (vec![one.as_str(), "--units", "2"], "the file has no `sweep`"),
        (vec![&file, "--units", "4"], "give a number from 1 to 3"),
        (
            vec![&file, "--units", "2", "--policy", "none"],
            "write the policies into the file",
        ),
        (vec!["tournament", "--units", "2"], "--units belongs to --draw"),
    ] {
        let (_, talk, code) = retryguard(&arguments);
        assert_eq!(code, Some(2), "{talk}");
        assert!(talk.contains(told), "{talk}");
    }
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let file = small("threads");
    let fleets = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/safe-clients.yaml");
    let fleets = fleets.to_string_lossy();
    for arguments in [
        vec![file.as_str(), "--replications", "5", "--against", "none"],
        vec![
            "tournament",
            "--draw",
            "6",
            "--policies",
            "none,immediate",
            "--json",
        ],
        vec![&*fleets, "--json"],
    ] {
        let by = |threads: &str| {
            let (text, talk, code) = retryguard(&[&arguments[..], &["--threads", threads]].concat());
            assert_eq!(code, Some(0), "{talk}");
            text
        };
        let alone = by("1");
        assert_eq!(alone, by("2"));
        assert_eq!(alone, by("7"));
    }
    for threads in ["0", "1025"] {
        let (_, talk, code) = retryguard(&[&file, "--threads", threads]);
        assert_eq!(code, Some(2));
        assert!(talk.contains("1..=1024"), "{talk}");
    }
    let (_, talk, code) = retryguard(&[&file, "--threads", "1024"]);
    assert_eq!(code, Some(0), "{talk}");
}
