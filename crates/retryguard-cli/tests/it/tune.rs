//! `retryguard tune --scenario`: a policy file for a world, judged in replications and worlds that the search has not seen.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

const WORLD: &str = "name: evening\nduration: 40s\n\
    services: {store: {workers: 4, queue: 200, time: {exponential: 100ms}, dropsExpired: false, errors: 5%}}\n\
    clients: {people: {calls: {to: store, attemptTimeout: 1s}, rate: [{at: 0s, rate: 25}, {at: 10s, rate: 60}, {at: 25s, rate: 25}], deadline: 3s}}\n";
const OTHER: &str = "name: morning\nduration: 40s\n\
    services: {store: {workers: 8, queue: 300, time: {exponential: 120ms}, dropsExpired: false, errors: 3%}}\n\
    clients: {people: {calls: {to: store, attemptTimeout: 1s}, rate: 75, deadline: 3s}}\n";
const BAD: &str = "defaults: {maxRetries: 5, initialDelay: 10ms, growth: constant, jitter: none, budget: off, guard: off, \
    breaker: off, bulkhead: off, server: off}\n";

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    for (file, text) in [("world.yaml", WORLD), ("other.yaml", OTHER), ("bad.yaml", BAD)] {
        fs::write(folder.join(file), text).unwrap();
    }
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn a_bad_policy_becomes_one_that_passes_lint_and_serves_more_in_another_world() {
    let folder = folder("tune-scenario");
    let output = run(
        &folder,
        &[
            "tune",
            "--scenario",
            "world.yaml",
            "--policy",
            "bad.yaml",
            "--judge-in",
            "other.yaml",
            "--candidates",
            "20",
            "--replications",
            "3",
            "--held-out",
            "6",
            "--out",
            "tuned.yaml",
            "--svg",
            "picture.svg",
            "--json",
        ],
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for world in found["judged"].as_array().unwrap() {
        let gain = &world["goodputGain"];
        assert!(
            gain["significant"] == true && gain["mean"].as_f64().unwrap() > 0.0,
            "{world}"
        );
    }
    let picture = fs::read_to_string(folder.join("picture.svg")).unwrap();
    assert!(picture.contains("goodput lost against the best setting"));
    let lint = run(&folder, &["lint", "tuned.yaml", "--deny", "warnings"]);
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    // What is written is what was judged: the simulator finds it better too, and a second search begins with it.
    let output = run(
        &folder,
        &[
            "simulate",
            "other.yaml",
            "--policy",
            "bad.yaml",
            "tuned.yaml",
            "--json",
        ],
    );
    let simulated: Value = serde_json::from_slice(&output.stdout).unwrap();
    let goodput = |place: usize| {
        let policy = &simulated["policies"][place];
        policy["goodputPerSecond"]["mean"].as_f64().unwrap()
    };
    assert!(goodput(1) > goodput(0), "{simulated}");
}

#[test]
fn what_cannot_be_searched_is_refused_with_a_cure() {
    let folder = folder("tune-scenario-wrong");
    fs::write(
        folder.join("sweep.yaml"),
        format!("{WORLD}sweep: {{key: duration, values: [10s, 20s]}}\n"),
    )
    .unwrap();
    fs::write(
        folder.join("fleets.yaml"),
        "clients: 100\nfleets:\n  - {name: one, duration: 10m}\n",
    )
    .unwrap();
    let wrong = |arguments: &[&str]| {
        let output = run(&folder, &[&["tune", "--scenario"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(wrong(&["missing.yaml"]).contains("cannot read missing.yaml"));
    assert!(wrong(&["sweep.yaml"]).contains("remove the `sweep`"));
    assert!(wrong(&["fleets.yaml"]).contains("has no policy to tune"));
    assert!(wrong(&["world.yaml", "--judge-in", "bad.yaml"]).contains("bad.yaml has mistakes"));
    assert!(wrong(&["world.yaml", "--policy", "world.yaml"]).contains("mistakes"));
    assert!(
        wrong(&["world.yaml", "--policy", "bad.yaml", "--service", "store"]).contains("leave --service out")
    );
    assert!(wrong(&["world.yaml", "--within", "2"]).contains("give a share"));
    assert!(wrong(&["world.yaml", "--candidates", "0"]).contains("1..=10000"));
    assert!(wrong(&["world.yaml", "--more-time", "5"]).contains("cannot be used with"));
}
