//! The policies of a scenario.

use std::time::Duration;

use retryguard_policy::reading::{
    Body, Kind, Mistakes, Node, nearest, policy_block, scalar, shortened, wrong,
};

use super::{Load, block::Block};
use crate::client_policy::{ClientPolicy, NAMES, Rules, named};

pub(super) fn list(node: &Node, load: Load<'_>, mistakes: &mut Mistakes) -> Vec<ClientPolicy> {
    let Body::List(items) = &node.body else {
        wrong(node, "policies", "a list of names, paths and blocks", mistakes);
        return Vec::new();
    };
    let mut all: Vec<ClientPolicy> = Vec::new();
    for item in items {
        let Some(client_policy) = policy(item, load, mistakes) else {
            continue;
        };
        if all.iter().any(|known| known.name == client_policy.name) {
            mistakes.add(
                item.at,
                format!("a second policy is named `{}`", shortened(&client_policy.name)),
                "give it a `name` of its own",
            );
        }
        all.push(client_policy);
    }
    if all.is_empty() {
        mistakes.add(
            node.at,
            "there are no policies",
            "list at least one, such as none",
        );
    }
    all
}

/// A name or a path, or a block with more.
fn policy(node: &Node, load: Load<'_>, mistakes: &mut Mistakes) -> Option<ClientPolicy> {
    let Body::Map(_) = node.body else {
        let (text, _) = scalar(node, "a policy", "a name or a path", mistakes)?;
        return by_name_or_path(text, node, load, mistakes);
    };
    let mut block = Block::open(node, "a policy", mistakes)?;
    let name = block.text("name", mistakes);
    let base = block.take("use");
    let inline = block.take("policy");
    let guard = block.take("guard");
    block.describe("policy", Kind::Elsewhere);
    block.describe("guard", Kind::Elsewhere);
    let shared = block.flag("shared", mistakes);
    let outbox = block.flag("outbox", mistakes);
    let retries = block.count("retries", 0..=250, mistakes);
    let attempt_timeout = block.duration_or_off("attemptTimeout", mistakes);
    let deadline = block.duration_or_off("deadline", mistakes);
    let at = block.at();
    block.close(mistakes);
    let mut client_policy = match (base, inline) {
        (Some(node), None) => {
            let (text, _) = scalar(node, "use", "a name or a path", mistakes)?;
            by_name_or_path(text, node, load, mistakes)?
        }
        (None, Some(node)) => {
            ClientPolicy::of_policy("policy", policy_block(node, "policy", mistakes)).noting(node)
        }
        _ => {
            mistakes.add(
                at,
                "a policy that is neither named nor written",
                "write `use:` with a name or a path, or `policy:` with a block of a policy's keys",
            );
            return None;
        }
    };
    if let Some(name) = name {
        client_policy.name = name;
    }
    let changes = guard.is_some() || retries.is_some() || attempt_timeout.is_some() || deadline.is_some();
    if changes && matches!(client_policy.rules, Rules::File(_)) {
        mistakes.add(
            at,
            "`guard`, `retries`, `attemptTimeout` and `deadline` change a foreign policy",
            "write what a policy of ours says under its own keys",
        );
    }
    if let Some(node) = guard {
        let settings = guard_of(node, mistakes);
        client_policy.change(|target| target.guard = settings);
    }
    client_policy.change(|target| {
        if let Some(retries) = retries {
            target.call.retries = u8::try_from(retries).unwrap_or(u8::MAX);
        }
        if let Some(timeout) = attempt_timeout {
            target.call.attempt_timeout = timeout.filter(|timeout: &Duration| !timeout.is_zero());
        }
        if let Some(deadline) = deadline {
            target.call.deadline = deadline;
        }
    });
    client_policy.shared = shared.unwrap_or(client_policy.shared);
    client_policy.outbox = outbox.unwrap_or(client_policy.outbox);
    Some(client_policy)
}

/// The guard that a block under `guard:` describes, read as a policy's own.
fn guard_of(node: &Node, mistakes: &mut Mistakes) -> Option<retryguard_core::guard::Settings> {
    let whole = Node {
        at: node.at,
        body: Body::Map(vec![retryguard_policy::reading::Entry {
            key: "guard".to_owned(),
            at: node.at,
            value: node.clone(),
        }]),
    };
    policy_block(&whole, "policy", mistakes).service("").target.guard
}

fn by_name_or_path(text: &str, node: &Node, load: Load<'_>, mistakes: &mut Mistakes) -> Option<ClientPolicy> {
    let is_path = text.ends_with(".yaml") || text.ends_with(".yml") || text.contains('/');
    if !is_path {
        let found = named(text);
        if found.is_none() {
            unknown(text, node, NAMES.iter().map(|(name, _)| *name), mistakes);
        }
        return found;
    }
    let file = match load(text) {
        Ok(file) => file,
        Err(error) => {
            let message = format!("the policy `{}` cannot be read: {error}", shortened(text));
            mistakes.add(node.at, message, "a path counts from the scenario's own folder");
            return None;
        }
    };
    let name = text.rsplit('/').next().unwrap_or(text);
    let name = name.trim_end_matches(".yaml").trim_end_matches(".yml");
    match ClientPolicy::of_text(name, &file) {
        Ok(client_policy) => Some(client_policy),
        Err(wrong) => {
            let first = &wrong.as_slice()[0];
            let message = format!(
                "the policy `{}` has mistakes, the first: {first}",
                shortened(text)
            );
            mistakes.add(
                node.at,
                message,
                "correct the policy; `retryguard lint` shows all of them",
            );
            None
        }
    }
}

fn unknown<'k>(
    text: &str,
    node: &Node,
    known: impl Iterator<Item = &'k str> + Clone,
    mistakes: &mut Mistakes,
) {
    let help = nearest(text, known.clone()).map_or_else(
        || {
            format!(
                "known: {}; or a path to a policy file",
                known.clone().collect::<Vec<_>>().join(", ")
            )
        },
        |near| format!("did you mean `{near}`?"),
    );
    mistakes.add(node.at, format!("there is no policy `{}`", shortened(text)), help);
}

/// An edge's own policy must be a known one.
pub(super) fn check_name(
    name: &str,
    compared: &[ClientPolicy],
    fixed: &[ClientPolicy],
    root: &Node,
    mistakes: &mut Mistakes,
) {
    let known = fixed
        .iter()
        .chain(compared)
        .any(|client_policy| client_policy.name == name);
    if !known && named(name).is_none() {
        let all = fixed
            .iter()
            .map(|it| it.name.as_str())
            .chain(NAMES.iter().map(|(name, _)| *name));
        unknown(name, root, all, mistakes);
    }
}
