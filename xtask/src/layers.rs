//! The layering check: dependencies between our crates point down the table only.

use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// Crate → the crates of ours that it may use. The copy for readers stands in ARCHITECTURE.md.
const ALLOWED: &[(&str, &[&str])] = &[
    ("retryguard-core", &[]),
    ("retryguard-model", &[]),
    ("retryguard-policy", &["retryguard-core"]),
    ("retryguard", &["retryguard-core", "retryguard-policy"]),
    ("retryguard-store", &["retryguard-core"]),
    (
        "retryguard-sim",
        &["retryguard-core", "retryguard-policy", "retryguard-translate"],
    ),
    (
        "retryguard-tune",
        &[
            "retryguard-core",
            "retryguard-model",
            "retryguard-policy",
            "retryguard-report",
            "retryguard-sim",
        ],
    ),
    (
        "retryguard-report",
        &["retryguard-core", "retryguard-policy", "retryguard-sim"],
    ),
    ("retryguard-translate", &["retryguard-core", "retryguard-policy"]),
    (
        "retryguard-play",
        &[
            "retryguard-policy",
            "retryguard-report",
            "retryguard-sim",
            "retryguard-translate",
        ],
    ),
    ("retryguard-controller", &["retryguard-core", "retryguard-policy"]),
    (
        "retryguard-lab",
        &[
            "retryguard",
            "retryguard-core",
            "retryguard-store",
            "retryguard-policy",
        ],
    ),
    (
        "retryguard-cli",
        &[
            "retryguard",
            "retryguard-controller",
            "retryguard-core",
            "retryguard-lab",
            "retryguard-model",
            "retryguard-play",
            "retryguard-policy",
            "retryguard-report",
            "retryguard-sim",
            "retryguard-store",
            "retryguard-translate",
            "retryguard-tune",
        ],
    ),
    (
        "retryguard-bench",
        &["retryguard", "retryguard-core", "retryguard-policy"],
    ),
    (
        "retryguard-examples",
        &["retryguard", "retryguard-core", "retryguard-policy"],
    ),
    ("retryguard-evidence", EVIDENCE),
    ("retryguard-parts", &[]),
    ("xtask", &[]),
];

/// The ring around the product.
const EVIDENCE_CRATES: &[&str] = &["retryguard-bench", "retryguard-evidence"];

/// What proves the product may use all of it; nothing may use what proves it.
const EVIDENCE: &[&str] = &[
    "retryguard",
    "retryguard-controller",
    "retryguard-core",
    "retryguard-lab",
    "retryguard-model",
    "retryguard-policy",
    "retryguard-report",
    "retryguard-sim",
    "retryguard-store",
    "retryguard-tune",
    "xtask",
];

/// Reads `cargo metadata` and fails on a forbidden edge, an unknown crate, or a core with a dependency.
pub fn check() -> anyhow::Result<()> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version=1", "--no-deps"])
        .output()
        .context("cannot run `cargo metadata`")?;
    if !output.status.success() {
        bail!(
            "`cargo metadata` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")?;
    let found = violations(&metadata);
    if !found.is_empty() {
        bail!("layering:\n  {}", found.join("\n  "));
    }
    eprintln!("== layering: every edge is allowed");
    Ok(())
}

fn violations(metadata: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            found.push(format!(
                "{name} is not in the table: add it to xtask/src/layers.rs and ARCHITECTURE.md"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().unwrap_or_default();
            if EVIDENCE_CRATES.contains(&to) && !EVIDENCE_CRATES.contains(&name) {
                found.push(format!("{name} must not depend on {to}, not even in its tests"));
                continue;
            }
            // Tests may look at more than the product: only what ships is layered.
            if dependency["kind"].as_str() == Some("dev") {
                continue;
            }
            let ours = to == "retryguard" || to == "xtask" || to.starts_with("retryguard-");
            if ours && !allowed.contains(&to) {
                found.push(format!("{name} must not depend on {to}"));
            }
            if name == "retryguard-core" {
                found.push(format!("retryguard-core has no dependency, yet it names {to}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<Value> = dependencies
            .iter()
            .map(|(name, kind)| serde_json::json!({"name": name, "kind": kind}))
            .collect();
        serde_json::json!({"packages": [{"name": name, "dependencies": dependencies}]})
    }

    #[test]
    fn an_upward_edge_is_named() {
        let found = violations(&package("retryguard-policy", &[("retryguard", None)]));
        assert_eq!(found, ["retryguard-policy must not depend on retryguard"]);
    }

    #[test]
    fn the_core_may_use_nothing_but_test_tools() {
        assert!(violations(&package("retryguard-core", &[("proptest", Some("dev"))])).is_empty());
        assert_eq!(
            violations(&package("retryguard-core", &[("serde", None)])).len(),
            1
        );
    }

    #[test]
    fn simulator_and_model_never_meet() {
        assert_eq!(
            violations(&package("retryguard-sim", &[("retryguard-model", None)])).len(),
            1
        );
        assert_eq!(
            violations(&package("retryguard-model", &[("retryguard-sim", None)])).len(),
            1
        );
    }

    #[test]
    fn the_product_never_uses_the_evidence() {
        for kind in [None, Some("dev")] {
            let found = violations(&package("retryguard-cli", &[("retryguard-evidence", kind)]));
            assert_eq!(found.len(), 1, "{kind:?}");
        }
        assert!(violations(&package("retryguard-evidence", &[("retryguard-sim", None)])).is_empty());
    }

    #[test]
    fn an_unknown_crate_is_an_error() {
        assert_eq!(violations(&package("retryguard-extra", &[])).len(), 1);
    }
}
