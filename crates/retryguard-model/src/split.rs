//! Paths of linear time, such as `G F a`, on a chain: path operators are taken away one by one, from the inside.
//!
//! After Courcoubetis and Yannakakis, "The complexity of probabilistic verification", Journal of the ACM 42(4), 1995, section 3.1. A state from which a
//! path may or may not fulfil `a U b` is split into two, one for the paths that do and one for those that do not; the steps of each are those of the
//! chain, given that. Then `a U b` is a condition on states. Only the order of steps counts, so rates may be scaled row by row.

use std::borrow::Cow;

use crate::chain::{Chain, Memory, index};
use crate::elaborate::properties::Linear;
use crate::error::Error;
use crate::solve;

/// The probability, from every state, of a path as described; `truths` says where each of its conditions holds, in the order of the text.
pub(crate) fn probability(chain: &Chain, path: &Linear, truths: Vec<Vec<bool>>) -> Result<Vec<f64>, Error> {
    let mut split = Split {
        chain: Cow::Borrowed(chain),
        origin: (0..chain.states()).map(index).collect(),
        weight: vec![1.0; chain.states()],
        labels: truths,
    };
    let mut node = Node::of(path, &mut 0);
    loop {
        split.settle(&mut node);
        let found = match &node {
            Node::Label(label) => split.labels[*label]
                .iter()
                .map(|holds| f64::from(u8::from(*holds)))
                .collect(),
            Node::Not(inner) if inner.step().is_some() => split.shares(inner.step())?.no,
            other if other.step().is_some() => split.shares(other.step())?.yes,
            _ => {
                let step = node.take_innermost(split.labels.len());
                split = split.by(step)?;
                continue;
            }
        };
        let mut values = vec![0.0; chain.states()];
        for (place, origin) in split.origin.iter().enumerate() {
            values[*origin as usize] += split.weight[place] * found[place];
        }
        return Ok(values.into_iter().map(|value: f64| value.min(1.0)).collect());
    }
}

/// A path over conditions that are known in every state.
enum Node {
    Label(usize),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Next(Box<Node>),
    Until(Box<Node>, Box<Node>),
}

/// One path operator over conditions.
#[derive(Clone, Copy)]
enum Step {
    Next(usize),
    Until(usize, usize),
}

impl Node {
    fn of(path: &Linear, next: &mut usize) -> Node {
        let mut part = |path: &Linear| Box::new(Node::of(path, next));
        match path {
            Linear::State(_) => {
                *next += 1;
                Node::Label(*next - 1)
            }
            Linear::Not(a) => Node::Not(part(a)),
            Linear::Next(a) => Node::Next(part(a)),
            Linear::And(a, b) => Node::And(part(a), part(b)),
            Linear::Until(a, b) => Node::Until(part(a), part(b)),
        }
    }

    fn label(&self) -> Option<usize> {
        match self {
            Node::Label(label) => Some(*label),
            _ => None,
        }
    }

    /// This node, if it is a path operator over conditions.
    fn step(&self) -> Option<Step> {
        match self {
            Node::Next(a) => Some(Step::Next(a.label()?)),
            Node::Until(a, b) => Some(Step::Until(a.label()?, b.label()?)),
            _ => None,
        }
    }

    /// Puts the condition `label` in place of a path operator over conditions, which is returned.
    fn take_innermost(&mut self, label: usize) -> Option<Step> {
        if let Some(step) = self.step() {
            *self = Node::Label(label);
            return Some(step);
        }
        match self {
            Node::Label(_) => None,
            Node::Not(a) | Node::Next(a) => a.take_innermost(label),
            Node::And(a, b) | Node::Until(a, b) => {
                a.take_innermost(label).or_else(|| b.take_innermost(label))
            }
        }
    }
}

/// The chain with its states split so far.
struct Split<'c> {
    chain: Cow<'c, Chain>,
    /// The state of the first chain that each was split from.
    origin: Vec<u32>,
    /// The share of the paths from that state.
    weight: Vec<f64>,
    labels: Vec<Vec<bool>>,
}

/// The probabilities that a path operator is fulfilled and that it is not, from every state. Each is solved by itself, so that small ones keep their digits.
struct Shares {
    yes: Vec<f64>,
    no: Vec<f64>,
}

impl Split<'_> {
    /// Turns conditions joined by logic into conditions.
    fn settle(&mut self, node: &mut Node) {
        match node {
            Node::Label(_) => {}
            Node::Next(a) => self.settle(a),
            Node::Until(a, b) => {
                self.settle(a);
                self.settle(b);
            }
            Node::Not(a) => {
                self.settle(a);
                if let Some(a) = a.label() {
                    let made = self.labels[a].iter().map(|a| !a).collect();
                    *node = self.labelled(made);
                }
            }
            Node::And(a, b) => {
                self.settle(a);
                self.settle(b);
                if let (Some(a), Some(b)) = (a.label(), b.label()) {
                    let made = self.labels[a]
                        .iter()
                        .zip(&self.labels[b])
                        .map(|(a, b)| *a && *b)
                        .collect();
                    *node = self.labelled(made);
                }
            }
        }
    }

    fn labelled(&mut self, made: Vec<bool>) -> Node {
        self.labels.push(made);
        Node::Label(self.labels.len() - 1)
    }

    fn shares(&self, step: Option<Step>) -> Result<Shares, Error> {
        let chain = &*self.chain;
        match step {
            None => unreachable!("a path without operators is a condition"),
            Some(Step::Next(inner)) => {
                let inner = &self.labels[inner];
                let outside: Vec<bool> = inner.iter().map(|inner| !inner).collect();
                Ok(Shares {
                    yes: solve::next(chain, inner, 0.0, None),
                    no: solve::next(chain, &outside, 0.0, None),
                })
            }
            Some(Step::Until(left, right)) => {
                let (left, right) = (&self.labels[left], &self.labels[right]);
                solve::walk_fits(chain)?;
                let lost: Vec<bool> = solve::can_reach(chain, right, |s| left[s])
                    .iter()
                    .map(|can| !can)
                    .collect();
                let open: Vec<bool> = left
                    .iter()
                    .zip(right)
                    .map(|(left, right)| *left && !right)
                    .collect();
                Ok(Shares {
                    yes: solve::until(chain, left, right)?,
                    no: solve::until(chain, &open, &lost)?,
                })
            }
        }
    }

    /// The chain in which the path operator is a condition, the last one.
    fn by(self, step: Option<Step>) -> Result<Self, Error> {
        Memory::fits(self.chain.memory, self.chain.states() as u64 * 16)?;
        let Shares { yes, no } = self.shares(step)?;
        let chain = &*self.chain;
        // The two numbers of each state in the new chain: for the paths that fulfil the operator, and for those that do not.
        let mut numbers = vec![[u32::MAX; 2]; chain.states()];
        let mut parts: Vec<(u32, bool)> = Vec::new();
        for s in 0..chain.states() {
            for (place, share) in [(0, yes[s]), (1, no[s])] {
                if share > 0.0 {
                    numbers[s][place] = u32::try_from(parts.len()).map_err(|_| Memory::full(chain.memory))?;
                    parts.push((index(s), place == 0));
                }
            }
        }
        let steps = |s: usize, fulfils: bool| {
            // What a step must lead to: a state where the condition holds, and paths that fulfil the operator, or not.
            let (condition, kept) = match step {
                Some(Step::Next(inner)) => (Some(&self.labels[inner]), None),
                Some(Step::Until(left, right)) if self.labels[left][s] && !self.labels[right][s] => {
                    (None, Some(fulfils))
                }
                _ => (None, None),
            };
            let (yes, no, numbers) = (&yes, &no, &numbers);
            chain
                .row(s)
                .filter(move |(to, _)| condition.is_none_or(|inner| inner[*to] == fulfils))
                .flat_map(move |(to, rate)| [(to, 0, rate * yes[to]), (to, 1, rate * no[to])])
                .filter(move |(_, place, rate)| *rate > 0.0 && kept.is_none_or(|kept| kept == (*place == 0)))
                .map(move |(to, place, rate)| (numbers[to][place], rate))
                .filter(|(to, _)| *to != u32::MAX)
        };
        let transitions: usize = parts
            .iter()
            .map(|(s, fulfils)| steps(*s as usize, *fulfils).count())
            .sum();
        let bytes =
            parts.len() as u64 * (8 + 4 + 8 + 8 + self.labels.len() as u64 + 1) + transitions as u64 * 12;
        Memory::fits(chain.memory, bytes)?;
        let mut made = Chain {
            rows: vec![0],
            memory: chain.memory.map(|memory| Memory {
                used: memory.used + bytes,
                ..memory
            }),
            ..Chain::default()
        };
        made.rows.reserve_exact(parts.len());
        made.columns.reserve_exact(transitions);
        made.rates.reserve_exact(transitions);
        for (s, fulfils) in &parts {
            let total: f64 = steps(*s as usize, *fulfils).map(|(_, rate)| rate).sum();
            for (to, rate) in steps(*s as usize, *fulfils) {
                made.columns.push(to);
                made.rates.push(rate / total);
            }
            made.rows.push(made.columns.len());
        }
        let of = |label: &Vec<bool>| parts.iter().map(|(s, _)| label[*s as usize]).collect();
        let mut labels: Vec<Vec<bool>> = self.labels.iter().map(of).collect();
        labels.push(parts.iter().map(|(_, fulfils)| *fulfils).collect());
        let weight = |(s, fulfils): &(u32, bool)| {
            let s = *s as usize;
            self.weight[s] * if *fulfils { yes[s] } else { no[s] }
        };
        Ok(Split {
            origin: parts.iter().map(|(s, _)| self.origin[*s as usize]).collect(),
            weight: parts.iter().map(weight).collect(),
            labels,
            chain: Cow::Owned(made),
        })
    }
}
