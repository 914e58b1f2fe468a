//! The keys of a group of clients.

use retryguard_core::Criticality;
use retryguard_policy::reading::{Mistakes, Node, entries};

use super::{
    block::{Block, profile},
    graph::Names,
};
use crate::{
    distribution::Distribution,
    world::{Arrivals, Client},
};

const CRITICALITIES: &[(&str, Criticality)] = &[
    ("sheddable", Criticality::Sheddable),
    ("sheddable-plus", Criticality::SheddablePlus),
    ("critical", Criticality::Critical),
    ("critical-plus", Criticality::CriticalPlus),
];

pub(super) fn clients(node: &Node, names: &mut Names, mistakes: &mut Mistakes) -> Vec<Client> {
    let list = entries(node, "clients", mistakes).unwrap_or_default();
    if list.is_empty() {
        mistakes.add(
            node.at,
            "there are no clients",
            "write at least one under `clients:`",
        );
    }
    list.iter()
        .filter_map(|entry| client(&entry.key, &entry.value, names, mistakes))
        .collect()
}

fn client(name: &str, node: &Node, names: &mut Names, mistakes: &mut Mistakes) -> Option<Client> {
    let mut block = Block::open(node, name, mistakes)?;
    let edge = block
        .need("calls", "the name of a service", mistakes)
        .and_then(|node| names.edge(name, node, mistakes));
    let rate = block
        .take("rate")
        .and_then(|node| profile(node, "rate", 1e7, mistakes));
    let users = block
        .take("users")
        .and_then(|node| profile(node, "users", 1e7, mistakes));
    let random = block
        .word("spacing", &[("random", true), ("even", false)], mistakes)
        .unwrap_or(true);
    let think = block
        .distribution("think", mistakes)
        .unwrap_or(Distribution::NOTHING);
    let clients = block.count("clients", 1..=10_000_000, mistakes).unwrap_or(1);
    let criticality = block
        .word("criticality", CRITICALITIES, mistakes)
        .unwrap_or(Criticality::Critical);
    let idempotent = block.flag("idempotent", mistakes).unwrap_or(true);
    let clock_skew = block
        .distribution("clockSkew", mistakes)
        .unwrap_or(Distribution::NOTHING);
    let deadline = block.duration_or_off("deadline", mistakes).flatten();
    let replays = block.share("replays", mistakes).unwrap_or(0.0);
    let at = block.at();
    block.close(mistakes);
    let arrivals = match (rate, users) {
        (Some(rate), None) => Arrivals::Open { rate, random },
        (None, Some(users)) => Arrivals::Closed { users, think },
        _ => {
            mistakes.add(
                at,
                format!("`{name}` has no arrivals, or two kinds of them"),
                "write `rate:` for calls that come whatever happens, or `users:` and `think:` for people",
            );
            return None;
        }
    };
    Some(Client {
        name: name.to_owned(),
        edge: edge?,
        arrivals,
        clients,
        criticality,
        idempotent,
        clock_skew,
        deadline,
        replays,
    })
}
