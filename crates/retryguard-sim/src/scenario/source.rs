//! What the source of a scenario reports, to stand beside our numbers.

use retryguard_policy::reading::{Body, Mistakes, Node, entries, scalar};

use super::block::Block;

/// The numbers of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Where they stand.
    pub title: String,
    /// The bill is shown as a share of this policy's.
    pub relative_to: Option<String>,
    /// The numbers, by policy and column, as they are printed there.
    pub values: Vec<Quoted>,
    /// What a reader should know: silent parameters, numbers that cannot be had.
    pub notes: Vec<String>,
}

/// One printed number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted {
    /// The policy.
    pub policy: String,
    /// The column, by its key in the results.
    pub column: String,
    /// The number, as printed.
    pub value: String,
}

pub(super) fn source(node: &Node, mistakes: &mut Mistakes) -> Option<Source> {
    let mut block = Block::open(node, "source", mistakes)?;
    let title = block.text("title", mistakes).unwrap_or_default();
    let relative_to = block.text("relativeTo", mistakes);
    let table = block.take("values");
    let notes = block.take("notes");
    block.close(mistakes);
    let mut values = Vec::new();
    if let Some(table) = table {
        for policy in entries(table, "values", mistakes)? {
            for column in entries(&policy.value, &policy.key, mistakes)? {
                let (value, _) = scalar(&column.value, &column.key, "a number", mistakes)?;
                values.push(Quoted {
                    policy: policy.key.clone(),
                    column: column.key.clone(),
                    value: value.to_owned(),
                });
            }
        }
    }
    let notes = match notes.map(|node| &node.body) {
        None => Vec::new(),
        Some(Body::List(items)) => items
            .iter()
            .filter_map(|item| scalar(item, "notes", "a text", mistakes).map(|(text, _)| text.to_owned()))
            .collect(),
        Some(_) => {
            mistakes.add(node.at, "`notes` is not a list", "write a list of texts");
            Vec::new()
        }
    };
    Some(Source {
        title,
        relative_to,
        values,
        notes,
    })
}
