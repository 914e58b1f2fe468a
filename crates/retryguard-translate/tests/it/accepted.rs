//! Envoy and the Kubernetes API server accept what is rendered for them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use retryguard_parts::Kubernetes;
use retryguard_policy::Policy;
use retryguard_translate::{Target, import, render};
use serde_json::Value;

/// Every policy of the repository, edge cases, a file of each system as it is imported, and many services by chance.
fn policies() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
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
        "services:\n  short: {budget: {percent: 30%, interval: 100ms, minRetryRate: {count: 1000000, interval: 100ms}}}\n  \
         quick: {attemptTimeout: 5s, deadline: 1s, budget: {minRetryRate: {count: 0}}}\n  odd-name8080/x:\n    maxRetries: 20\n    initialDelay: 0\n    maxDelay: 24h\n    attemptTimeout: 1ms\n    \
         deadline: 24h\n    retryOn: [5xx, 409, CANCELLED]\n    budget: {percent: 0%}\n    breaker: {trip: consecutive, \
         failures: 1, openFor: 1ms, openForAtMost: 1h}\n    bulkhead: {limit: 1000000}\n    gate: {scope: call, atMost: 1h}\n  \
         free: {budget: off, retryNonIdempotent: true, neverRetryOn: [overload, fault, timeout, disconnected, unreachable]}\n"
            .to_owned(),
    ));
    for (format, text) in crate::judged::FILES {
        let imported = import(text, format).expect("a file of this format");
        all.push((format!("imported from {format}"), imported.policy));
    }
    all.push(("many services".to_owned(), crate::drawn::many(64)));
    all
}

fn rendered(name: &str, text: &str, target: Target) -> String {
    let policy = Policy::parse(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    render(&policy, target).text
}

#[test]
#[ignore = "needs Envoy"]
fn envoy_accepts_every_rendered_file() {
    let envoy = retryguard_parts::need("envoy");
    let folder = tempfile::tempdir().expect("a folder");
    for (index, (name, text)) in policies().into_iter().enumerate() {
        let file = rendered(&name, &text, Target::Envoy);
        let path = folder.path().join(format!("{index}.yaml"));
        std::fs::write(&path, &file).expect("a file");
        let output = Command::new(&envoy)
            .args(["--mode", "validate", "--log-level", "error", "-c"])
            .arg(&path)
            .output()
            .expect("envoy runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}:\n{file}\n{said}");
    }
}

/// The definitions come from the projects' public schemas, so the server checks types, patterns, limits and required keys, and drops
/// keys that the schema does not have.
#[test]
#[ignore = "needs Kubernetes"]
fn the_api_server_accepts_every_rendered_file() {
    let server = Kubernetes::start();
    let folder = tempfile::tempdir().expect("a folder");
    define(&server, &retryguard_parts::need("mesh-definitions"));
    let mut accepted = 0;
    for (name, text) in policies() {
        for target in [Target::Istio, Target::GatewayApi] {
            let file = rendered(&name, &text, target);
            for document in file.split("---\n") {
                let manifest = folder.path().join("document.yaml");
                std::fs::write(&manifest, document).expect("a file");
                let answer = asked(&server, document, &manifest);
                let stored: Value = serde_json::from_str(&answer)
                    .unwrap_or_else(|error| panic!("{name}: {error}: {answer}\n{document}"));
                assert_eq!(
                    stored["kind"],
                    value_of(document, "kind"),
                    "{name}:\n{answer}\n{document}"
                );
                rules(&stored);
                for key in keys(document) {
                    assert!(
                        answer.contains(&format!("\"{key}\":")),
                        "{name}: `{key}` is not in the schema:\n{answer}\n{document}"
                    );
                }
                accepted += 1;
            }
        }
    }
    assert!(accepted > 250, "only {accepted} documents were rendered");
}

/// The server with these definitions does refuse: otherwise the test above could not fail.
#[test]
#[ignore = "needs Kubernetes"]
fn the_api_server_refuses_wrong_files() {
    let server = Kubernetes::start();
    let folder = tempfile::tempdir().expect("a folder");
    define(&server, &retryguard_parts::need("mesh-definitions"));
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: shop}\nspec:\n  rules:\n  - retry: \
                 {attempts: 2, backoff: 100ms, codes: [503]}\n";
    let service = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: shop}\nspec:\n  hosts: [shop]\n  \
                   http:\n  - route: [{destination: {host: shop}}]\n    retries: {attempts: 2, perTryTimeout: 1s}\n";
    for (document, right, wrong) in [
        (route, "100ms", "0.1s"),
        (route, "[503]", "[700]"),
        (route, "attempts: 2", "attempts: two"),
        (route, "name: shop", "name: shop:80"),
        (service, "attempts: 2", "attempts: two"),
        (service, "{host: shop}", "{name: shop}"),
        (service, "[shop]", "shop"),
    ] {
        let manifest = folder.path().join("document.yaml");
        std::fs::write(&manifest, document).expect("a file");
        let answer = asked(&server, document, &manifest);
        assert!(!answer.contains("\"Failure\""), "{answer}");
        let changed = document.replace(right, wrong);
        assert_ne!(changed, document);
        std::fs::write(&manifest, &changed).expect("a file");
        let answer = asked(&server, &changed, &manifest);
        assert!(answer.contains("\"Failure\""), "{wrong} was accepted: {answer}");
    }
    // A key that the schema does not have is dropped: the test above looks for that.
    let manifest = folder.path().join("document.yaml");
    let unknown = service.replace("perTryTimeout", "perTryTimeouts");
    std::fs::write(&manifest, &unknown).expect("a file");
    assert!(!asked(&server, &unknown, &manifest).contains("perTryTimeouts"));
}

/// The rules of the Gateway API that stand in its definitions as expressions, which Kubernetes evaluates since 1.25.
fn rules(stored: &Value) {
    let none = Vec::new();
    for rule in stored["spec"]["rules"].as_array().unwrap_or(&none) {
        let timeouts = &rule["timeouts"];
        if let (Some(request), Some(backend)) =
            (millis(&timeouts["request"]), millis(&timeouts["backendRequest"]))
        {
            assert!(backend <= request, "{rule}");
        }
        for backend in rule["backendRefs"].as_array().unwrap_or(&none) {
            assert!(backend["port"].is_u64(), "{rule}");
        }
    }
    let constraint = &stored["spec"]["retryConstraint"];
    if let Some(interval) = millis(&constraint["budget"]["interval"]) {
        assert!((1000..=3_600_000).contains(&interval), "{constraint}");
    }
    if let Some(interval) = millis(&constraint["minRetryRate"]["interval"]) {
        assert!((1..=3_600_000).contains(&interval), "{constraint}");
    }
}

/// A duration of the Gateway API (GEP-2257), such as `1m30s`.
fn millis(value: &Value) -> Option<u64> {
    let (mut total, mut number, mut rest) = (0, 0, value.as_str()?);
    while let Some(letter) = rest.chars().next() {
        let unit = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit));
        if let Some((unit, factor)) = unit {
            total += number * factor;
            number = 0;
            rest = &rest[unit.len()..];
        } else {
            number = number * 10 + u64::from(letter.to_digit(10).expect("a digit"));
            rest = &rest[1..];
        }
    }
    Some(total)
}

/// Creates every definition of the folder, and waits until the server serves it.
fn define(server: &Kubernetes, folder: &Path) {
    let mut defined = 0;
    for entry in std::fs::read_dir(folder).expect("the definitions") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let answer = server.create(definitions, &path);
        let made: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(made["kind"], "CustomResourceDefinition", "{answer}");
        let spec = &made["spec"];
        let version = &spec["versions"][0]["name"];
        let api = format!("{}/{}", text(&spec["group"]), text(version));
        let kind = text(&spec["names"]["kind"]).to_owned();
        let document = format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: none}}\n");
        let manifest = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(manifest.path(), &document).expect("a file");
        // Without a spec it is refused once the kind is known, and not found before.
        let served = retryguard_parts::until(Duration::from_secs(60), || {
            asked(server, &document, manifest.path()).contains("spec: Required")
        });
        assert!(served, "{}", asked(server, &document, manifest.path()));
        defined += 1;
    }
    assert_eq!(defined, 4, "{}", folder.display());
}

/// Asks the server to store a document.
fn asked(server: &Kubernetes, document: &str, manifest: &Path) -> String {
    let plural = match value_of(document, "kind") {
        "VirtualService" => "virtualservices",
        "DestinationRule" => "destinationrules",
        "HTTPRoute" => "httproutes",
        "XBackendTrafficPolicy" => "xbackendtrafficpolicies",
        other => panic!("`{other}` in\n{document}"),
    };
    let api = value_of(document, "apiVersion");
    server.dry_run(&format!("/apis/{api}/namespaces/default/{plural}"), manifest)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// The value of a key that stands at the beginning of a line.
fn value_of<'a>(document: &'a str, key: &str) -> &'a str {
    document
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        .unwrap_or_else(|| panic!("no `{key}` in\n{document}"))
        .trim_matches('"')
}

/// The keys of a document in block style.
fn keys(document: &str) -> impl Iterator<Item = &str> {
    document
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.trim_start_matches([' ', '-']))
        .filter_map(|line| Some(line.split_once(": ").or_else(|| line.split_once(':'))?.0))
        .filter(|key| key.chars().all(char::is_alphanumeric))
}
