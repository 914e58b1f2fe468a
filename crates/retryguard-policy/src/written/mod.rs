//! The written form.

use crate::{diagnostics::Mistakes, yaml::Body, yaml::Node};

/// A policy file as it is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {}

pub(crate) fn document(root: &Node, mistakes: &mut Mistakes) -> Document {
    if let Body::Map(entries) = &root.body {
        for entry in entries {
            mistakes.add(entry.at, format!("unknown key `{}`", entry.key), "remove it");
        }
    }
    Document {}
}
