//! The policy file from the outside: what parses, what is refused and how, and what never happens.

mod defaults;
mod extremes;
mod files;
mod generated;
mod layers;
mod mistakes;
mod robustness;

/// The text of a file in `policies/`.
fn policy_file(name: &str) -> String {
    let path = format!("{}/../../policies/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
