//! The reader of the policy file, for other files of ours that want the same care: every mistake at once, each
//! with its line and its cure, and the nearest known key where one is misspelt.

mod block;
mod defaults;
mod keys;
mod shape;

use std::time::Duration;

use crate::{
    Policy, compile,
    written::{At, Document, Service, Written, duration},
};

pub use self::{
    block::Block,
    keys::{KeyText, KeyTexts},
    shape::Shape,
};
pub use crate::{
    classifier::GRPC_STATUS,
    diagnostics::Mistakes,
    kind::Kind,
    written::{entries, nearest, scalar, unknown_key, wrong},
    yaml::{Body, Entry, Node, read, shortened},
};

/// A duration such as `100ms`, `1.5s` or `1m30s`; `None` where the text is something else.
#[must_use]
pub fn span(text: &str) -> Option<Duration> {
    duration(text)
}

/// A policy written inside another file: as one block of a service's keys, or as a whole policy with its
/// `defaults` and `services`.
pub fn policy_block(node: &Node, key: &str, mistakes: &mut Mistakes) -> Policy {
    let whole = |entry: &Entry| matches!(entry.key.as_str(), "defaults" | "services");
    if matches!(&node.body, Body::Map(entries) if entries.iter().any(whole)) {
        let document = Document::read(node, key, &(), mistakes).unwrap_or_default();
        return compile::policy(&document, mistakes);
    }
    let defaults = Service::read(node, key, &(), mistakes).map(|value| At { value, at: node.at });
    let document = Document {
        defaults,
        ..Document::default()
    };
    compile::policy(&document, mistakes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_policy_inside_another_file_keeps_its_services() {
        let mut mistakes = Mistakes::default();
        let text = "defaults: {maxRetries: 1}\nservices: {a: {maxRetries: 0}}";
        let root = read(text, &mut mistakes).unwrap();
        let policy = policy_block(&root, "policy", &mut mistakes);
        assert_eq!(policy.service("a").target.call.retries, 0);
        assert_eq!(policy.service("b").target.call.retries, 1);
        mistakes.or(()).unwrap();
    }

    #[test]
    fn a_block_inside_another_file_is_a_policy_with_its_own_lines() {
        let mut mistakes = Mistakes::default();
        let root = read("policy:\n  maxRetries: 1\n  jiter: full", &mut mistakes).unwrap();
        let block = &entries(&root, "the file", &mut mistakes).unwrap()[0].value;
        let policy = policy_block(block, "policy", &mut mistakes);
        assert_eq!(policy.service("any").target.call.retries, 1);
        let told = mistakes.or(()).unwrap_err().to_string();
        assert!(
            told.starts_with("line 3, column 3: unknown key `jiter`"),
            "{told}"
        );
        assert!(told.contains("did you mean `jitter`?"), "{told}");
    }
}
