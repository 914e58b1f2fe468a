//! The generated pages in `docs/` are what the crate generates. With `RETRYGUARD_REGENERATE=1` they are written
//! anew instead.

use retryguard_policy::{key_reference, lint_reference, schema};

const BEGIN: &str = "<!-- generated: keys -->\n\n";
const END: &str = "<!-- end of generated -->";

fn compare(name: &str, expected: &str) {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("RETRYGUARD_REGENERATE").is_some() {
        std::fs::write(&path, expected).expect("the docs can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/{name} is out of date: run `RETRYGUARD_REGENERATE=1 cargo test -p retryguard-policy generated`"
    );
}

#[test]
fn the_schema_is_up_to_date() {
    compare("policy.schema.json", &schema());
}

#[test]
fn the_lint_page_is_up_to_date() {
    compare("lint.md", &lint_reference());
}

/// The reference of keys is a part of a page that is otherwise written by hand.
#[test]
fn the_policy_page_is_up_to_date() {
    let path = format!("{}/../../docs/policy.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the mark before the keys");
    let (_, after) = rest.split_once(END).expect("the mark after the keys");
    compare(
        "policy.md",
        &format!("{before}{BEGIN}{}{END}{after}", key_reference()),
    );
}

/// Every policy in the page on policies is one.
#[test]
fn the_policies_in_the_page_parse() {
    let path = format!("{}/../../docs/policy.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(path).unwrap();
    let policies: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```").map(|(policy, _)| policy))
        .collect();
    assert!(policies.len() >= 3, "{}", policies.len());
    for policy in policies {
        retryguard_policy::Policy::parse(policy).unwrap_or_else(|mistakes| panic!("{policy}\n{mistakes}"));
    }
}
