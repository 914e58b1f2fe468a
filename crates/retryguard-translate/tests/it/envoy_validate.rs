//! Envoy itself accepts what is rendered for it.

use std::process::Command;

use retryguard_policy::Policy;
use retryguard_translate::{Target, render};

fn policies() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all: Vec<(String, String)> = ["../../policies", "../retryguard-lab/policies"]
        .iter()
        .flat_map(|policies| std::fs::read_dir(folder.join(policies)).expect("policies"))
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|ending| ending == "yaml"))
        .map(|entry| {
            let text = std::fs::read_to_string(entry.path()).expect("a policy");
            (entry.path().display().to_string(), text)
        })
        .collect();
    all.push(("an empty file".to_owned(), String::new()));
    all.push((
        "every part".to_owned(),
        "services:\n  'odd name:8080/x':\n    maxRetries: 20\n    initialDelay: 0\n    maxDelay: 24h\n    attemptTimeout: 1ms\n    \
         deadline: 24h\n    retryOn: [5xx, 409, CANCELLED]\n    budget: {percent: 0%}\n    breaker: {trip: consecutive, \
         failures: 1, openFor: 1ms, openForAtMost: 1h}\n    bulkhead: {limit: 1000000}\n    gate: {scope: call, atMost: 1h}\n  \
         free: {budget: off, retryNonIdempotent: true, neverRetryOn: [overload, fault, timeout, disconnected, unreachable]}\n"
            .replace("name:8080", "name8080")
            .replace("odd ", "odd-"),
    ));
    all
}

#[test]
#[ignore = "needs Envoy"]
fn envoy_accepts_every_rendered_file() {
    let envoy = retryguard_parts::need("envoy");
    let folder = tempfile::tempdir().expect("a folder");
    for (index, (name, text)) in policies().into_iter().enumerate() {
        let policy = Policy::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let rendered = render(&policy, Target::Envoy);
        let path = folder.path().join(format!("{index}.yaml"));
        std::fs::write(&path, &rendered.text).expect("a file");
        let output = Command::new(&envoy)
            .args(["--mode", "validate", "--log-level", "error", "-c"])
            .arg(&path)
            .output()
            .expect("envoy runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}:\n{}\n{said}", rendered.text);
    }
}
