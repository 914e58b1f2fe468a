//! Which guards a target can have: one per signal, in the order in which they are wanted.

use retryguard_core::Ratio;
use retryguard_core::guard::{Mode, Settings, Signal};
use retryguard_policy::{
    Policy,
    reading::{Block, Body, Entry, Kind, Mistakes, Node, policy_block},
};

use crate::domain::gain::PRICE;

/// From the key `guard` of a target, one block or a list of them; from the policy where it is not written. With it comes the
/// least gain for which a retry is worth sending: `price`.
pub(super) fn read(
    block: &mut Block<'_>,
    service: &str,
    policy: &Policy,
    mistakes: &mut Mistakes,
) -> (Vec<Settings>, Ratio) {
    let node = block.take("guard");
    block.describe("guard", Kind::Elsewhere);
    let Some(node) = node else {
        return from_policy(service, policy);
    };
    let blocks = match &node.body {
        Body::List(items) => items.iter().collect(),
        _ => vec![node],
    };
    if blocks.is_empty() {
        mistakes.add(
            node.at,
            "a list of guards without a guard",
            "write a guard, or leave `guard` out for the one of the policy",
        );
    }
    let written: Vec<Settings> = blocks
        .into_iter()
        .filter_map(|node| {
            let guard = inline(node, mistakes);
            if guard.is_none() {
                mistakes.add(
                    node.at,
                    "a guard that is switched off",
                    "remove the target: one that is not watched need not stand here",
                );
            }
            guard
        })
        .collect();
    let price = written.iter().find_map(price).unwrap_or(PRICE);
    let guards: Vec<Settings> = written.into_iter().map(on_samples).collect();
    for (index, guard) in guards.iter().enumerate() {
        if guards[..index]
            .iter()
            .any(|earlier| earlier.signal == guard.signal)
        {
            mistakes.add(
                node.at,
                format!("two guards read the signal `{}`", guard.signal.as_str()),
                "keep one of them: the next in the list is for when the signal is missing",
            );
        }
    }
    (guards, price)
}

/// What the policy says, and after it the same rules on retries per call, for data planes that do not say what
/// was rejected. A delay has no such default: how slow is too slow, only the operator knows.
fn from_policy(service: &str, policy: &Policy) -> (Vec<Settings>, Ratio) {
    let written = policy.service(service).target.guard;
    let price = written.as_ref().and_then(price).unwrap_or(PRICE);
    let first = written.map(on_samples).unwrap_or_default();
    let mut guards = vec![first];
    if first.signal == Signal::Rejections && matches!(first.mode, Mode::Hysteresis(_)) {
        guards.push(Settings {
            signal: Signal::RetriesPerCall,
            ..first
        });
    }
    (guards, price)
}

/// A guard as it stands in a policy.
fn inline(node: &Node, mistakes: &mut Mistakes) -> Option<Settings> {
    let service = Node {
        at: node.at,
        body: Body::Map(vec![Entry {
            key: "guard".to_owned(),
            at: node.at,
            value: node.clone(),
        }]),
    };
    policy_block(&service, "guard", mistakes).service("").target.guard
}

/// What a guard says that a retry must bring, where its mode compares that.
fn price(guard: &Settings) -> Option<Ratio> {
    match &guard.mode {
        Mode::Response(rules) => Some(rules.price),
        _ => None,
    }
}

/// A guard that decides on the samples of a service. The mode `response` needs the start and the end of every attempt,
/// which no data plane reports: its place is taken by the thresholds.
fn on_samples(guard: Settings) -> Settings {
    match guard.mode {
        Mode::Response(_) => Settings::default(),
        _ => guard,
    }
}
