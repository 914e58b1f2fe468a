//! The same world with one value changed.

use retryguard_policy::reading::{Body, Kind, Mistakes, Node, nearest, shortened};

use super::{Sweep, block::Block, world};

/// The key that holds the list of changes, and the keys that are not part of the world.
const OUTSIDE: [&str; 7] = [
    "name",
    "claim",
    "replications",
    "policies",
    "fixed",
    "source",
    "sweep",
];

pub(super) fn sweep(node: &Node, root: &Node, name: &str, mistakes: &mut Mistakes) -> Option<Sweep> {
    let mut block = Block::open(node, "sweep", mistakes)?;
    let key = block.text("key", mistakes);
    let values = block.need("values", "a list of values", mistakes);
    block.describe("values", Kind::Elsewhere);
    let at = block.at();
    block.close(mistakes);
    let key = key?;
    let Body::List(values) = &values?.body else {
        mistakes.add(at, "`values` is not a list", "write a list of values");
        return None;
    };
    let mut worlds = Vec::new();
    for value in values {
        let mut changed = root.clone();
        if let Err((part, near)) = replace(&mut changed, &key, value) {
            let help = near.map_or_else(
                || "write the path of a key that stands in this file, with dots".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            mistakes.add(
                at,
                format!("there is no key `{}` to sweep", shortened(&part)),
                help,
            );
            return None;
        }
        let mut block = Block::open(&changed, "the scenario", mistakes)?;
        for outside in OUTSIDE {
            block.take(outside);
        }
        let label = match &value.body {
            Body::Scalar { text, .. } => text.clone(),
            _ => format!("{}", worlds.len() + 1),
        };
        worlds.push((label, world(&mut block, name, mistakes)?));
    }
    Some(Sweep { key, worlds })
}

/// Puts a value in the place of another, by its path. Where there is none: the part that was not found, and
/// what may have been meant.
fn replace(node: &mut Node, path: &str, value: &Node) -> Result<(), (String, Option<String>)> {
    let Body::Map(entries) = &mut node.body else {
        return Err((path.to_owned(), None));
    };
    // A key may itself hold dots, so the longest that fits is tried first.
    let mut ends: Vec<usize> = path.match_indices('.').map(|(at, _)| at).collect();
    ends.push(path.len());
    for end in ends.into_iter().rev() {
        let (part, rest) = (&path[..end], path[end..].strip_prefix('.'));
        if let Some(entry) = entries.iter_mut().find(|entry| entry.key == part) {
            return match rest {
                None => {
                    entry.value = value.clone();
                    Ok(())
                }
                Some(rest) => replace(&mut entry.value, rest, value),
            };
        }
    }
    let part = path.split('.').next().unwrap_or(path);
    let near = nearest(part, entries.iter().map(|entry| entry.key.as_str()));
    Err((part.to_owned(), near.map(str::to_owned)))
}
