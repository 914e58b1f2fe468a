//! `retryguard check --policy` and `retryguard tune`: a policy's own numbers in the world of the resiliency patterns.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn policy(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    folder.join(name).display().to_string()
}

/// A service of the default policy at two availabilities.
fn payments(command: &str, more: &[&str]) -> Output {
    let policy = policy("default.yaml");
    let mut arguments = vec![command, "--policy", &policy, "--service", "payments"];
    arguments.extend(["--availability", "0.6:0.3:0.9"]);
    arguments.extend(more);
    run(&arguments)
}

/// A file of this test alone, beside what is built.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn json(output: &Output) -> Value {
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}

/// What the default policy has and the model has not.
const LOSSES: &[&str] = &[
    "Erlang delays",
    "not in the model: the deadline of a call",
    "not in the model: the breaker",
    "not in the model: the budget",
    "not in the model: the guard",
];

#[test]
fn tuned_parameters_keep_to_the_extra_time() {
    let mut contention = f64::INFINITY;
    for more in ["0", "10", "60"] {
        let found = json(&payments("tune", &["--json", "--more-time", more]));
        let limit =
            number(&found["withoutRetries"]["totalTime"]) * (1.0 + number(&found["moreTimePercent"]) / 100.0);
        let tuned = &found["tuned"];
        assert!(number(&tuned["totalTime"]) <= limit, "{more} %: {found}");
        assert!(number(&tuned["maxRetries"]) >= 0.0);
        assert!(number(&tuned["meanFirstWaitSeconds"]) > 0.0);
        assert!(number(&tuned["meanLargestWaitSeconds"]) >= number(&tuned["meanFirstWaitSeconds"]));
        // The policy as written is one of the candidates: where it keeps to the time, nothing worse may win.
        let written = &found["asWritten"];
        if number(&written["totalTime"]) <= limit {
            assert!(number(&tuned["contentionTime"]) <= number(&written["contentionTime"]));
        }
        // More time to spend leaves no fewer candidates.
        assert!(
            number(&tuned["contentionTime"]) <= contention,
            "{more} %: {found}"
        );
        contention = number(&tuned["contentionTime"]);
    }
}

/// The settings that `tune` names, given back to `check` as a policy, are worth what it said.
#[test]
fn a_policy_with_the_tuned_parameters_earns_them() {
    let found = json(&payments("tune", &["--json", "--response-time", "450ms"]));
    let tuned = &found["tuned"];
    let path = scratch("tuned.yaml");
    // Full jitter: the mean wait is half the delay.
    let micros = |key: &str| format!("{:.0}us", 2e6 * number(&tuned[key]));
    let text = format!(
        "services:\n  payments:\n    maxRetries: {}\n    attemptTimeout: 900ms\n    initialDelay: {}\n    maxDelay: {}\n",
        tuned["maxRetries"],
        micros("meanFirstWaitSeconds"),
        micros("meanLargestWaitSeconds")
    );
    std::fs::write(&path, text).expect("a file");
    let path = path.display().to_string();
    let checked = json(&run(&[
        "check",
        "--json",
        "--policy",
        &path,
        "--service",
        "payments",
        "--availability",
        "0.6:0.3:0.9",
        "--pattern",
        "retry",
    ]));
    for (name, key) in [("total", "totalTime"), ("contention", "contentionTime")] {
        let values: Vec<f64> = results(&checked)
            .iter()
            .filter(|result| result["name"] == name)
            .map(|result| number(&result["value"]))
            .collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        // Delays are written in whole microseconds.
        assert!(
            (mean / number(&tuned[key]) - 1.0).abs() < 1e-4,
            "{name}: {mean} {tuned}"
        );
    }
}

/// The breaker that `tune` names, given back to `check` as a policy, is worth what it said, and keeps to the time.
#[test]
fn a_tuned_breaker_keeps_to_the_extra_time_and_earns_what_it_promises() {
    let default = policy("default.yaml");
    let picture = scratch("breaker.svg");
    let world = [
        "--service",
        "payments",
        "--availability",
        "0.6",
        "--pattern",
        "breaker",
    ];
    let mut arguments = vec!["tune", "--json", "--response-time", "450ms", "--policy", &default];
    arguments.extend(world);
    let at = picture.display().to_string();
    arguments.extend(["--svg", &at]);
    let found = json(&run(&arguments));
    let tuned = &found["tuned"];
    assert!(
        number(&tuned["totalTime"]) <= 1.1 * number(&found["withoutBreaker"]["totalTime"]),
        "{found}"
    );
    assert!(
        number(&tuned["contentionTime"]) < number(&found["withoutBreaker"]["contentionTime"]),
        "{found}"
    );
    assert!(number(&found["candidates"]) > 100.0);
    let path = scratch("tuned-breaker.yaml");
    let micros = |key: &str| format!("{:.0}us", 1e6 * number(&tuned[key]));
    let text = format!(
        "services:\n  payments:\n    attemptTimeout: 900ms\n    breaker:\n      trip: consecutive\n      failures: {}\n      \
         openFor: {}\n      openForAtMost: {}\n      closeAfter: {}\n",
        tuned["failures"],
        micros("openForSeconds"),
        micros("openForAtMostSeconds"),
        tuned["closeAfter"]
    );
    std::fs::write(&path, text).expect("a file");
    let path = path.display().to_string();
    let mut arguments = vec!["check", "--json", "--response-time", "450ms", "--policy", &path];
    arguments.extend(world);
    let checked = json(&run(&arguments));
    for (name, key) in [("total", "totalTime"), ("contention", "contentionTime")] {
        let result = results(&checked).iter().find(|result| result["name"] == name);
        let value = number(&result.expect("an answer")["value"]);
        assert!(
            (value / number(&tuned[key]) - 1.0).abs() < 1e-4,
            "{name}: {value} {tuned}"
        );
    }
    let picture = std::fs::read_to_string(picture).expect("the picture is written");
    for name in ["without a breaker", "tuned", "time allowed"] {
        assert!(picture.contains(name), "{name}");
    }
}

/// `tune` once proposed breakers and retries that `lint` warned of.
#[test]
fn what_is_proposed_passes_the_linter() {
    for pattern in ["retry", "breaker"] {
        for more in ["5", "60"] {
            let arguments = [
                "--json",
                "--more-time",
                more,
                "--pattern",
                pattern,
                "--response-time",
                "450ms",
            ];
            let found = json(&payments("tune", &arguments));
            let proposed = found["policy"].as_str().expect("keys of a service");
            let keys: String = proposed.lines().map(|line| format!("    {line}\n")).collect();
            let retries = if pattern == "breaker" {
                "    maxRetries: 1\n"
            } else {
                ""
            };
            let text = format!("services:\n  payments:\n    attemptTimeout: 900ms\n{retries}{keys}");
            let path = scratch(&format!("proposed-{pattern}-{more}.yaml"));
            std::fs::write(&path, &text).expect("a file");
            let linted = run(&["lint", "--deny", "warnings", &path.display().to_string()]);
            let said = String::from_utf8_lossy(&linted.stdout).into_owned();
            assert!(linted.status.success(), "{text}\n{said}");
        }
    }
}

#[test]
fn the_trade_off_is_a_picture() {
    let path = scratch("front.svg");
    let output = payments("tune", &["--svg", &path.display().to_string()]);
    assert!(output.status.success());
    let picture = std::fs::read_to_string(&path).expect("the picture is written");
    assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains("extra total time") && !picture.contains("NaN"));
}

#[test]
fn tune_lists_what_the_model_leaves_out() {
    let output = payments("tune", &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in ["without retries: ", "as written: 1 retries", "tuned: "] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
    }
    let last = text.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("Compared with the policy as written, the tuned one takes ") && last.ends_with('.'),
        "{last}"
    );
    let found = json(&payments("tune", &["--json"]));
    let listed = found["losses"].to_string();
    for loss in LOSSES {
        assert!(listed.contains(loss), "{listed}");
        assert!(
            text.lines()
                .any(|line| line.starts_with("# ") && line.contains(loss)),
            "{text}"
        );
    }
}

#[test]
fn check_lists_what_the_model_leaves_out() {
    let output = payments("check", &["--json"]);
    let found = json(&output);
    let (listed, talk) = (
        found["losses"].to_string(),
        String::from_utf8_lossy(&output.stderr),
    );
    for loss in LOSSES {
        assert!(listed.contains(loss) && talk.contains(loss), "{listed}\n{talk}");
    }
    // Three questions at two availabilities; a target that is there more often is waited for less.
    let results = results(&found);
    assert_eq!(results.len(), 6);
    for name in ["total", "contention", "failing"] {
        let values: Vec<f64> = results
            .iter()
            .filter(|result| result["name"] == name)
            .map(|result| number(&result["value"]))
            .collect();
        assert!(values[0] > values[1], "{name}: {values:?}");
    }
}

/// What an engineer reads: seconds, shares and the assumption that matters most.
#[test]
fn check_answers_in_seconds_and_says_what_matters() {
    let output = payments("check", &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("100 calls of payments that succeed"), "{text}");
    assert!(
        text.contains("availability 0.6: ") && text.contains("availability 0.9: "),
        "{text}"
    );
    assert!(
        text.contains("% of it on attempts that fail; without retries "),
        "{text}"
    );
    assert!(
        text.contains("  availability of the target ") && text.contains("  retries "),
        "{text}"
    );
    let last = text.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("At an availability of 0.6 the calls take "),
        "{last}"
    );

    let picture = scratch("checked.svg");
    let found = json(&payments(
        "check",
        &["--json", "--svg", &picture.display().to_string()],
    ));
    let unit = number(&found["responseSeconds"]) / 5.0;
    let model = results(&found)
        .iter()
        .find(|result| result["name"] == "total")
        .expect("an answer");
    let written = &found["asWritten"][0];
    let seconds = number(&model["value"]) * unit;
    assert!(
        (number(&written["totalSeconds"]) / seconds - 1.0).abs() < 1e-9,
        "{found}"
    );
    assert!(number(&written["failingSeconds"]) < number(&written["networkSeconds"]));
    assert!(number(&written["networkSeconds"]) < number(&written["totalSeconds"]));
    assert!(number(&found["withoutRetries"][0]["totalSeconds"]) > 0.0);
    assert!(number(&found["tuned"][0]["totalSeconds"]) > 0.0 && found["policy"].is_string());
    let first = &found["influences"][0];
    assert!(number(&first["totalPercent"]).abs() > 0.1, "{found}");
    let picture = std::fs::read_to_string(picture).expect("the picture is written");
    assert!(picture.contains("as written") && picture.contains("tuned"));
}

#[test]
fn a_service_without_retries_is_judged_by_its_breaker() {
    let path = policy("default.yaml");
    let arguments = [
        "check",
        "--json",
        "--policy",
        &path,
        "--service",
        "recommendations",
    ];
    let found = json(&run(&arguments));
    assert!(results(&found)[0]["consts"].get("MAX_ERR").is_some(), "{found}");
}

fn results(found: &Value) -> &[Value] {
    found["results"].as_array().expect("a list")
}

#[test]
fn bad_input_exits_with_two_and_says_what_to_give() {
    let default = policy("default.yaml");
    let flat = policy("microservices.yaml");
    let missing = policy("missing.yaml");
    let with = |more: &[&'static str]| {
        let mut all = vec!["--policy", default.as_str(), "--service", "payments"];
        all.extend(more);
        all
    };
    let cases: Vec<(Vec<&str>, &str)> = vec![
        (
            vec!["--policy", &default, "--service", "paymnts"],
            "no service `paymnts`; did you mean payments? give --service with one of checkout, payments, recommendations",
        ),
        (vec!["--policy", &default], "give --service with one of checkout"),
        (
            vec!["--policy", &missing, "--service", "payments"],
            "cannot read the policy",
        ),
        (
            with(&["--availability", "1.5"]),
            "1.5 is not an availability: give a share of the time, above 0 and at most 1",
        ),
        (with(&["--availability", "0:0.5:1"]), "0 is not an availability"),
        (with(&["--availability", "often"]), "`often` is not a number"),
        (
            with(&["--availability", "0.9:0.1:0.5"]),
            "the range is empty: write from:step:to",
        ),
        (with(&["--response-time", "5"]), "write 50ms, 1.5s or 200us"),
        (
            with(&["--response-time", "0ms"]),
            "give --response-time, such as 50ms",
        ),
        // This policy leaves the attempt timeout open, from which the response time would be taken.
        (
            vec!["--policy", &flat, "--service", "payment-service"],
            "give --response-time",
        ),
        (vec![], "--policy"),
    ];
    for command in ["check", "tune"] {
        for (arguments, expected) in &cases {
            let mut all = vec![command];
            all.extend(arguments);
            let output = run(&all);
            let talk = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{all:?}: {talk}");
            assert!(output.stdout.is_empty(), "{all:?}");
            assert!(talk.contains(expected), "{all:?}: {talk}");
        }
    }
}
