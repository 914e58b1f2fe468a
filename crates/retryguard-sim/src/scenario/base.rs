//! A scenario that begins with the world of another.

use retryguard_policy::reading::{Body, Mistakes, Node, read, scalar, shortened};

use super::{Load, Scenario};

/// What a file says of itself; it is not inherited.
const OWN: [&str; 4] = ["name", "claim", "source", "sweep"];

/// The file with every key that it does not write itself taken from the file under `base:`. Nothing where that
/// file cannot be used: whatever is missing then would only be told once more.
pub(super) fn filled(mut root: Node, load: Load<'_>, mistakes: &mut Mistakes) -> Option<Node> {
    let Body::Map(entries) = &mut root.body else {
        return Some(root);
    };
    let Some(place) = entries.iter().position(|entry| entry.key == "base") else {
        return Some(root);
    };
    let node = entries.remove(place).value;
    let base = based_on(&node, load, mistakes)?;
    if let Body::Map(others) = base.body {
        for other in others {
            let written = entries.iter().any(|entry| entry.key == other.key);
            if !written && !OWN.contains(&other.key.as_str()) {
                entries.push(other);
            }
        }
    }
    Some(root)
}

/// The base, once it is known to be free of mistakes: its lines are not those of the file that is read.
fn based_on(node: &Node, load: Load<'_>, mistakes: &mut Mistakes) -> Option<Node> {
    let (path, _) = scalar(node, "base", "the path of another scenario", mistakes)?;
    let text = match load(path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("the base `{}` cannot be read: {error}", shortened(path));
            mistakes.add(node.at, message, "a path counts from the scenario's own folder");
            return None;
        }
    };
    let base = read(&text, &mut Mistakes::default());
    if let Some(Body::Map(entries)) = base.as_ref().map(|base| &base.body)
        && entries.iter().any(|entry| entry.key == "base")
    {
        let message = format!("the base `{}` has a base of its own", shortened(path));
        mistakes.add(node.at, message, "name the file that holds the world itself");
        return None;
    }
    if let Err(wrong) = Scenario::parse(&text, path, load) {
        let first = &wrong.as_slice()[0];
        let message = format!("the base `{}` has mistakes, the first: {first}", shortened(path));
        mistakes.add(node.at, message, "correct that file first");
        return None;
    }
    base
}
