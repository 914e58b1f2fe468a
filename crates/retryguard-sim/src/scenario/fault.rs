//! The keys of a fault.

use retryguard_core::Instant;
use retryguard_policy::reading::{Body, Mistakes, Node, wrong};

use super::{
    block::{Block, number},
    graph::Names,
};
use crate::world::{Effect, Fault};

pub(super) fn faults(node: &Node, names: &Names, mistakes: &mut Mistakes) -> Vec<Fault> {
    let Body::List(items) = &node.body else {
        wrong(
            node,
            "faults",
            "a list, each entry with `service`, an effect, `from` and `until`",
            mistakes,
        );
        return Vec::new();
    };
    items
        .iter()
        .filter_map(|item| fault(item, names, mistakes))
        .collect()
}

fn fault(node: &Node, names: &Names, mistakes: &mut Mistakes) -> Option<Fault> {
    let mut block = Block::open(node, "a fault", mistakes)?;
    let at = block.at();
    let service = block
        .need("service", "the name of a service", mistakes)
        .and_then(|node| named(node, names, mistakes));
    let effects = [
        block
            .flag("outage", mistakes)
            .and_then(|on| on.then_some(Effect::Outage)),
        block.share("errors", mistakes).map(Effect::Errors),
        block
            .take("slow")
            .and_then(|node| number(node, "slow", 0.0..=1e6, mistakes))
            .map(Effect::Slow),
        block.distribution("delay", mistakes).map(Effect::Delay),
        block.share("capacity", mistakes).map(Effect::Capacity),
        block
            .count("brokenReplicas", 1..=1_000_000, mistakes)
            .map(Effect::BrokenReplicas),
    ];
    let from = block.duration("from", mistakes).unwrap_or_default();
    let until = block.duration("until", mistakes);
    let every = block.duration("every", mistakes);
    let on_for = block.duration("for", mistakes);
    block.close(mistakes);
    let mut effects = effects.into_iter().flatten();
    let (effect, more) = (effects.next(), effects.next());
    if effect.is_none() || more.is_some() {
        mistakes.add(
            at,
            "a fault has one effect",
            "write one of `outage: true`, `errors`, `slow`, `delay`, `capacity`, `brokenReplicas`",
        );
    }
    let rhythm = match (every, on_for) {
        (Some(every), Some(on_for)) if on_for < every => Some((every, on_for)),
        (None, None) => None,
        _ => {
            mistakes.add(
                at,
                "half a rhythm",
                "write both `every` and `for`, the second shorter",
            );
            None
        }
    };
    Some(Fault {
        service: service?,
        effect: effect?,
        from: Instant::ZERO.after(from),
        until: until.map_or(Instant::NEVER, |until| Instant::ZERO.after(until)),
        rhythm,
    })
}

fn named(node: &Node, names: &Names, mistakes: &mut Mistakes) -> Option<usize> {
    let (name, _) = retryguard_policy::reading::scalar(node, "service", "the name of a service", mistakes)?;
    names.service(name, node.at, mistakes)
}
