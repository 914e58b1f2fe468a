//! The generated pages in `docs/` are what the crate generates.

use retryguard_parts::{committed, root};
use retryguard_policy::{key_reference, lint_reference, schema};

const BEGIN: &str = "<!-- generated: keys -->\n\n";
const END: &str = "<!-- end of generated -->";

#[test]
fn the_schema_is_up_to_date() {
    committed("docs/policy.schema.json", &schema());
}

#[test]
fn the_lint_page_is_up_to_date() {
    committed("docs/lint.md", &lint_reference());
}

/// The reference of keys is a part of a page that is otherwise written by hand.
#[test]
fn the_policy_page_is_up_to_date() {
    let page = std::fs::read_to_string(root().join("docs/policy.md")).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the mark before the keys");
    let (_, after) = rest.split_once(END).expect("the mark after the keys");
    committed(
        "docs/policy.md",
        &format!("{before}{BEGIN}{}{END}{after}", key_reference()),
    );
}

/// Every policy in the page on policies is one.
#[test]
fn the_policies_in_the_page_parse() {
    let page = std::fs::read_to_string(root().join("docs/policy.md")).unwrap();
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
