//! Which service calls which.

use std::collections::HashMap;

use super::Subject;

/// The services that are listed or called, with an edge for each declared call.
pub(super) struct Graph<'a> {
    pub(super) nodes: Vec<Node<'a>>,
}

pub(super) struct Node<'a> {
    pub(super) name: &'a str,
    /// What the policy says about it; that of the defaults where it is not listed.
    pub(super) subject: &'a Subject,
    pub(super) listed: bool,
    pub(super) calls: Vec<usize>,
    pub(super) callers: Vec<usize>,
}

impl<'a> Graph<'a> {
    /// `subjects` begins with the defaults.
    pub(super) fn new(subjects: &'a [Subject]) -> Self {
        let Some((defaults, listed)) = subjects.split_first() else {
            return Self { nodes: Vec::new() };
        };
        let mut nodes: Vec<Node<'a>> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut add = |name: &'a str, subject: &'a Subject, listed: bool| {
            *places.entry(name).or_insert_with(|| {
                nodes.push(Node {
                    name,
                    subject,
                    listed,
                    calls: Vec::new(),
                    callers: Vec::new(),
                });
                nodes.len() - 1
            })
        };
        for subject in listed {
            add(&subject.name, subject, true);
        }
        let mut edges = Vec::new();
        for subject in listed {
            let from = add(&subject.name, subject, true);
            for called in &subject.service.calls {
                edges.push((from, add(called, defaults, false)));
            }
        }
        for (from, to) in edges {
            nodes[from].calls.push(to);
            nodes[to].callers.push(from);
        }
        Self { nodes }
    }

    /// Every declared call, as caller and called.
    pub(super) fn edges(&self) -> impl Iterator<Item = (&Node<'a>, &Node<'a>)> {
        self.nodes
            .iter()
            .flat_map(move |from| from.calls.iter().map(move |to| (from, &self.nodes[*to])))
    }

    /// The nodes that no cycle leads to, each after all its callers. Counted down and not searched,
    /// because a chain as long as the file allows would exhaust the stack.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut waiting_for: Vec<usize> = self.nodes.iter().map(|node| node.callers.len()).collect();
        let mut order: Vec<usize> = (0..self.nodes.len())
            .filter(|node| waiting_for[*node] == 0)
            .collect();
        let mut next = 0;
        while let Some(node) = order.get(next) {
            next += 1;
            for called in self.nodes[*node].calls.clone() {
                waiting_for[called] -= 1;
                if waiting_for[called] == 0 {
                    order.push(called);
                }
            }
        }
        order
    }

    /// The cycles, each in the order of its calls. A service that is not in the order has a caller that is not in it
    /// either, so that walking up from it must meet a cycle.
    pub(super) fn cycles(&self) -> Vec<Vec<usize>> {
        let mut reached = vec![0u32; self.nodes.len()];
        for node in self.order() {
            reached[node] = u32::MAX;
        }
        let mut cycles = Vec::new();
        let mut walk = 0;
        for start in 0..self.nodes.len() {
            walk += 1;
            let mut path = Vec::new();
            let mut node = start;
            while reached[node] == 0 {
                reached[node] = walk;
                path.push(node);
                let caller = self.nodes[node]
                    .callers
                    .iter()
                    .find(|caller| reached[**caller] != u32::MAX);
                match caller {
                    Some(caller) => node = *caller,
                    None => break,
                }
            }
            if reached[node] == walk
                && let Some(begin) = path.iter().position(|met| *met == node)
            {
                let mut cycle = path.split_off(begin);
                cycle.reverse();
                cycles.push(cycle);
            }
        }
        cycles
    }
}
