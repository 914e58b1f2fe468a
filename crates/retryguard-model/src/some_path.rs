//! Whether some path of linear time starts in a state, whatever its probability: what `E [ G F a ]` asks.
//!
//! After Clarke, Grumberg and Hamaguchi, "Another look at LTL model checking", Formal Methods in System Design 10(1), 1997. A state is paired with a promise
//! for each path operator: what the next state is to fulfil. A step leads to the pairs that keep the promises, and a path is one that goes on for ever
//! without an until that is promised again and again and never comes.

use crate::chain::{Chain, Memory, index};
use crate::elaborate::properties::Linear;
use crate::error::Error;
use crate::solve;

/// Path operators that one path may have. Each doubles the pairs.
const MAX_OPERATORS: u32 = 10;

/// Where some path is as described, or with `wanted` false some path that is not; `truths` says where each of its conditions holds, in the order of
/// the text.
pub(crate) fn exists(
    chain: &Chain,
    path: &Linear,
    truths: &[Vec<bool>],
    wanted: bool,
) -> Result<Vec<bool>, Error> {
    let mut operators = 0;
    let root = Node::of(path, &mut 0, &mut operators);
    if operators > MAX_OPERATORS {
        return Err(Error::Property {
            reason: format!("a path of {operators} operators: E and A take up to {MAX_OPERATORS}"),
        });
    }
    let promises = 1usize << operators;
    let pairs = chain.states() * promises;
    Memory::fits(
        chain.memory,
        pairs as u64 * 80 + chain.columns.len() as u64 * promises as u64 * 16,
    )?;
    if u32::try_from(pairs).is_err() {
        return Err(Memory::full(chain.memory));
    }
    // What a state before the pair must have promised.
    let kept: Vec<u32> = (0..pairs)
        .map(|pair| root.promised(truths, pair >> operators, pair & (promises - 1)))
        .collect();
    let mut steps = Chain {
        rows: vec![0],
        memory: chain.memory,
        ..Chain::default()
    };
    for state in 0..chain.states() {
        let mut leads: Vec<Vec<u32>> = vec![Vec::new(); promises];
        for (to, _) in chain.row(state) {
            for pair in to * promises..(to + 1) * promises {
                leads[kept[pair] as usize].push(index(pair));
            }
        }
        for found in leads {
            steps.columns.extend(found);
            steps.rows.push(steps.columns.len());
        }
    }
    steps.rates = vec![1.0; steps.columns.len()];
    // A component can be stayed in for ever if it has a step, and if every until comes in it or is not promised somewhere.
    let mut lasting = vec![false; pairs];
    for component in solve::cycles(&steps) {
        let fair = |until: &Node| {
            component.iter().any(|pair| {
                let (state, bits) = (*pair as usize >> operators, *pair as usize & (promises - 1));
                let Node::Until(_, _, right) = until else {
                    return true;
                };
                !until.holds(truths, state, bits) || right.holds(truths, state, bits)
            })
        };
        if root.all(&fair) {
            component.iter().for_each(|pair| lasting[*pair as usize] = true);
        }
    }
    let goes_on = solve::can_reach(&steps, &lasting, |_| true);
    Ok((0..chain.states())
        .map(|state| {
            (0..promises)
                .any(|bits| goes_on[state * promises + bits] && root.holds(truths, state, bits) == wanted)
        })
        .collect())
}

/// A path; `X` and `U` with the place of their promise.
enum Node {
    Label(usize),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Next(u32, Box<Node>),
    Until(u32, Box<Node>, Box<Node>),
}

impl Node {
    fn of(path: &Linear, labels: &mut usize, operators: &mut u32) -> Node {
        let mut part = |path: &Linear| Box::new(Node::of(path, labels, operators));
        match path {
            Linear::State(_) => {
                *labels += 1;
                Node::Label(*labels - 1)
            }
            Linear::Not(a) => Node::Not(part(a)),
            Linear::And(a, b) => Node::And(part(a), part(b)),
            Linear::Next(a) => {
                let a = part(a);
                *operators += 1;
                Node::Next(*operators - 1, a)
            }
            Linear::Until(a, b) => {
                let (a, b) = (part(a), part(b));
                *operators += 1;
                Node::Until(*operators - 1, a, b)
            }
        }
    }

    /// Whether the path from a pair is as described, if its promises are kept.
    fn holds(&self, truths: &[Vec<bool>], state: usize, promises: usize) -> bool {
        let of = |node: &Node| node.holds(truths, state, promises);
        match self {
            Node::Label(label) => truths[*label][state],
            Node::Not(a) => !of(a),
            Node::And(a, b) => of(a) && of(b),
            Node::Next(place, _) => promises >> place & 1 == 1,
            Node::Until(place, a, b) => of(b) || (of(a) && promises >> place & 1 == 1),
        }
    }

    /// The promises that a pair keeps to the state before it.
    fn promised(&self, truths: &[Vec<bool>], state: usize, promises: usize) -> u32 {
        let of = |node: &Node| node.promised(truths, state, promises);
        match self {
            Node::Label(_) => 0,
            Node::Not(a) => of(a),
            Node::And(a, b) => of(a) | of(b),
            Node::Next(place, a) => of(a) | u32::from(a.holds(truths, state, promises)) << place,
            Node::Until(place, a, b) => {
                of(a) | of(b) | u32::from(self.holds(truths, state, promises)) << place
            }
        }
    }

    /// Whether `test` holds for this node and for all its parts.
    fn all(&self, test: &impl Fn(&Node) -> bool) -> bool {
        test(self)
            && match self {
                Node::Label(_) => true,
                Node::Not(a) | Node::Next(_, a) => a.all(test),
                Node::And(a, b) | Node::Until(_, a, b) => a.all(test) && b.all(test),
            }
    }
}
