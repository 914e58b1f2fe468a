//! Names to numbers, and the shape of the call graph.

use std::{collections::HashMap, time::Duration};

use retryguard_policy::{
    Position,
    reading::{Body, Mistakes, Node, entries, nearest, scalar, shortened},
};

use super::block::Block;
use crate::{
    distribution::Distribution,
    world::{Client, Edge, EdgePolicy, Service, Station},
};

/// The services by name, and the edges as they are found.
pub(super) struct Names {
    services: Vec<String>,
    by_name: HashMap<String, usize>,
    pub(super) edges: Vec<Edge>,
}

impl Names {
    /// How many services there are.
    pub(super) fn count(&self) -> usize {
        self.services.len()
    }

    pub(super) fn new(node: &Node, mistakes: &mut Mistakes) -> Option<Self> {
        let services: Vec<String> = entries(node, "services", mistakes)?
            .iter()
            .map(|entry| entry.key.clone())
            .collect();
        if services.is_empty() {
            mistakes.add(
                node.at,
                "there are no services",
                "write at least one under `services:`",
            );
            return None;
        }
        Some(Self {
            by_name: services
                .iter()
                .cloned()
                .enumerate()
                .map(|(index, name)| (name, index))
                .collect(),
            services,
            edges: Vec::new(),
        })
    }

    pub(super) fn service(&self, name: &str, at: Position, mistakes: &mut Mistakes) -> Option<usize> {
        let found = self.by_name.get(name).copied();
        if found.is_none() {
            let help = nearest(name, self.services.iter().map(String::as_str)).map_or_else(
                || format!("known services: {}", self.services.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            mistakes.add(at, format!("there is no service `{}`", shortened(name)), help);
        }
        found
    }

    /// The edge that a value describes: a service's name, or a block with `to`.
    pub(super) fn edge(&mut self, from: &str, node: &Node, mistakes: &mut Mistakes) -> Option<usize> {
        if let Body::Map(_) = node.body {
            let mut block = Block::open(node, "calls", mistakes)?;
            let edge = self.edge_of(from, &mut block, mistakes);
            block.close(mistakes);
            return edge;
        }
        let (name, _) = scalar(node, "calls", "the name of a service", mistakes)?;
        let to = self.service(name, node.at, mistakes)?;
        Some(self.add(from, to, EdgeSettings::default()))
    }

    /// The edge that the keys of an open block describe.
    pub(super) fn edge_of(
        &mut self,
        from: &str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<usize> {
        let to = block.need("to", "the name of a service", mistakes);
        let way = way(block, mistakes);
        let node = to?;
        let (name, _) = scalar(node, "to", "the name of a service", mistakes)?;
        let to = self.service(name, node.at, mistakes)?;
        Some(self.add(from, to, way))
    }

    pub(super) fn add(&mut self, from: &str, to: usize, way: EdgeSettings) -> usize {
        self.edges.push(Edge {
            from: from.to_owned(),
            to,
            network: way.network,
            attempt_timeout: way.attempt_timeout,
            knows_endpoints: way.knows_endpoints,
            policy: way.policy,
        });
        self.edges.len() - 1
    }
}

/// What an edge says beside its ends.
#[derive(Clone)]
pub(super) struct EdgeSettings {
    network: Distribution,
    attempt_timeout: Option<Duration>,
    knows_endpoints: bool,
    policy: EdgePolicy,
}

impl Default for EdgeSettings {
    fn default() -> Self {
        Self {
            network: Distribution::NOTHING,
            attempt_timeout: None,
            knows_endpoints: false,
            policy: EdgePolicy::Compared,
        }
    }
}

pub(super) fn way(block: &mut Block<'_>, mistakes: &mut Mistakes) -> EdgeSettings {
    EdgeSettings {
        network: block
            .distribution("network", mistakes)
            .unwrap_or(Distribution::NOTHING),
        attempt_timeout: block.duration_or_off("attemptTimeout", mistakes).flatten(),
        knows_endpoints: block
            .word("endpoints", &[("known", true), ("unknown", false)], mistakes)
            .unwrap_or(false),
        policy: match block.text("policy", mistakes) {
            Some(name) => EdgePolicy::Fixed(name),
            None => EdgePolicy::Compared,
        },
    }
}

/// The service that lies furthest from the clients; of several the one that stands first. A service that
/// no client reaches is a mistake.
pub(super) fn deepest(
    services: &[Service],
    clients: &[Client],
    edges: &[Edge],
    at: Position,
    mistakes: &mut Mistakes,
) -> Option<usize> {
    let mut depth: Vec<Option<usize>> = vec![None; services.len()];
    for client in clients {
        depth[edges[client.edge].to] = Some(0);
    }
    // A path without a circle is shorter than the number of services.
    for _ in 0..services.len() {
        for (index, service) in services.iter().enumerate() {
            let Some(own) = depth[index] else { continue };
            for edge in service
                .steps
                .iter()
                .flat_map(|step| step.choices.iter().filter_map(|(_, edge)| *edge))
            {
                let to = edges[edge].to;
                depth[to] = Some(
                    depth[to]
                        .map_or(own + 1, |known| known.max(own + 1))
                        .min(services.len()),
                );
            }
        }
    }
    for (service, depth) in services.iter().zip(&depth) {
        if depth.is_none() {
            mistakes.add(
                at,
                format!("nothing calls the service `{}`", service.name),
                "name it under a client's or a service's `calls`, or remove it",
            );
        }
    }
    let most = depth.iter().flatten().max()?;
    depth.iter().position(|depth| depth.as_ref() == Some(most))
}

/// Only a service with replicas has endpoints that a caller can know.
pub(super) fn refuse_unknowable(services: &[Service], edges: &[Edge], at: Position, mistakes: &mut Mistakes) {
    for edge in edges.iter().filter(|edge| edge.knows_endpoints) {
        if let Some(service) = services.get(edge.to)
            && !matches!(service.station, Station::Workers { .. })
        {
            mistakes.add(
                at,
                format!(
                    "`endpoints: known` on the way to `{}`, which has no replicas",
                    service.name
                ),
                "give the service `replicas` and `workers`, or remove `endpoints`",
            );
        }
    }
}

/// A request that could come back to where it was would never end.
pub(super) fn refuse_circles(services: &[Service], edges: &[Edge], at: Position, mistakes: &mut Mistakes) {
    let below = |index: usize| {
        services[index].steps.iter().flat_map(|step| {
            step.choices
                .iter()
                .filter_map(|(_, edge)| edge.map(|edge| edges[edge].to))
        })
    };
    for start in 0..services.len() {
        let mut seen = vec![false; services.len()];
        let mut stack: Vec<usize> = below(start).collect();
        while let Some(index) = stack.pop() {
            if index == start {
                mistakes.add(
                    at,
                    format!(
                        "`{}` calls itself, directly or through others",
                        services[start].name
                    ),
                    "a request must end somewhere: remove one of the calls",
                );
                return;
            }
            if !std::mem::replace(&mut seen[index], true) {
                stack.extend(below(index));
            }
        }
    }
}
