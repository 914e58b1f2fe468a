//! What is earned until a path of linear time is fulfilled, such as `F (a & X b)`.
//!
//! After Bacchus and Kabanza, "Planning for temporally extended goals", Annals of Mathematics and Artificial Intelligence 22, 1998: what is left of a path after a state is
//! again a path. A state of the chain is paired with what is left, and the reward is that of reaching a pair with nothing left.

use rustc_hash::FxHashMap;

use crate::chain::{Chain, Memory, index};
use crate::elaborate::properties::Linear;
use crate::error::Error;
use crate::solve;

/// Different remainders that one path may come to.
const MAX_REMAINDERS: usize = 10_000;

/// The expected reward from every state until the path is fulfilled, infinite where it may not be; `truths` says where each of its conditions holds, in
/// the order of the text, and `earned` what each state earns per unit of time.
pub(crate) fn rewards(
    chain: &Chain,
    path: &Linear,
    truths: &[Vec<bool>],
    earned: &[f64],
) -> Result<Vec<f64>, Error> {
    let mut automaton = Automaton::of(path, truths);
    let mut pairs = Pairs::default();
    let whole = automaton.number(vec![vec![automaton.root]])?;
    let mut starts = Vec::with_capacity(chain.states());
    for state in 0..chain.states() {
        let left = automaton.after(whole, state)?;
        starts.push(pairs.number(state, left, chain)?);
    }
    let mut product = Chain {
        rows: vec![0],
        memory: chain.memory,
        ..Chain::default()
    };
    let mut next = 0;
    while let Some(&(state, left)) = pairs.known.get(next) {
        next += 1;
        // What follows a path that is fulfilled, or cannot be any more, does not count.
        if left != FULFILLED && left != LOST {
            for (to, rate) in chain.row(state as usize) {
                let after = automaton.after(left, to)?;
                product.columns.push(pairs.number(to, after, chain)?);
                product.rates.push(rate);
            }
        } else {
            product.columns.push(index(next - 1));
            product.rates.push(1.0);
        }
        product.rows.push(product.columns.len());
        if next % 4_096 == 0 {
            Memory::fits(chain.memory, pairs.bytes() + product.columns.len() as u64 * 24)?;
        }
    }
    let bytes = pairs.bytes() + product.columns.len() as u64 * 24;
    Memory::fits(chain.memory, bytes)?;
    product.memory = chain.memory.map(|memory| Memory {
        used: memory.used + bytes,
        ..memory
    });
    let fulfilled: Vec<bool> = pairs.known.iter().map(|(_, left)| *left == FULFILLED).collect();
    let earned: Vec<f64> = pairs
        .known
        .iter()
        .map(|(state, _)| earned[*state as usize])
        .collect();
    let values = solve::reach_rewards(&product, &fulfilled, &earned)?;
    Ok(starts.into_iter().map(|start| values[start as usize]).collect())
}

/// States of the chain, each with what is left of the path.
#[derive(Default)]
struct Pairs {
    known: Vec<(u32, u32)>,
    numbers: FxHashMap<(u32, u32), u32>,
}

impl Pairs {
    fn number(&mut self, state: usize, left: u32, chain: &Chain) -> Result<u32, Error> {
        let pair = (index(state), left);
        if let Some(number) = self.numbers.get(&pair) {
            return Ok(*number);
        }
        let number = u32::try_from(self.known.len()).map_err(|_| Memory::full(chain.memory))?;
        self.known.push(pair);
        self.numbers.insert(pair, number);
        Ok(number)
    }

    /// The list and the table of the pairs, each with room to grow.
    fn bytes(&self) -> u64 {
        self.known.len() as u64 * (16 + 32 + 24)
    }
}

/// One way to fulfil what is left: parts that the next state must begin to fulfil, in order. None is the way of a path that is fulfilled.
type Way = Vec<usize>;

/// What is left of a path, as the ways to fulfil it, in order. None of them contains another.
type Remainder = Vec<Way>;

/// The number of the remainder of which nothing is left, and of the one that cannot be fulfilled.
const FULFILLED: u32 = 0;
const LOST: u32 = 1;

/// Parts of a path, without negations but of conditions.
enum Part {
    Label(usize, bool),
    And(usize, usize),
    Or(usize, usize),
    Next(usize),
    Until(usize, usize),
}

struct Automaton<'t> {
    truths: &'t [Vec<bool>],
    parts: Vec<Part>,
    root: usize,
    remainders: Vec<Remainder>,
    numbers: FxHashMap<Remainder, u32>,
    /// What is left of a remainder after a state: the same after all states in which the same conditions hold.
    steps: FxHashMap<(u32, Vec<bool>), u32>,
}

impl<'t> Automaton<'t> {
    fn of(path: &Linear, truths: &'t [Vec<bool>]) -> Automaton<'t> {
        let mut automaton = Automaton {
            truths,
            parts: Vec::new(),
            root: 0,
            remainders: vec![vec![Way::new()], Remainder::new()],
            numbers: FxHashMap::default(),
            steps: FxHashMap::default(),
        };
        automaton.numbers.insert(vec![Way::new()], FULFILLED);
        automaton.numbers.insert(Remainder::new(), LOST);
        automaton.root = automaton.part(path, true, &mut 0);
        automaton
    }

    fn part(&mut self, path: &Linear, wanted: bool, labels: &mut usize) -> usize {
        let part = match path {
            Linear::State(_) => {
                *labels += 1;
                Part::Label(*labels - 1, wanted)
            }
            Linear::Not(a) => return self.part(a, !wanted, labels),
            Linear::And(a, b) => {
                let (a, b) = (self.part(a, wanted, labels), self.part(b, wanted, labels));
                if wanted { Part::And(a, b) } else { Part::Or(a, b) }
            }
            Linear::Next(a) => Part::Next(self.part(a, wanted, labels)),
            Linear::Until(a, b) => {
                debug_assert!(wanted, "the resolver refuses the negation of an until");
                Part::Until(self.part(a, wanted, labels), self.part(b, wanted, labels))
            }
        };
        self.parts.push(part);
        self.parts.len() - 1
    }

    fn number(&mut self, remainder: Remainder) -> Result<u32, Error> {
        if let Some(number) = self.numbers.get(&remainder) {
            return Ok(*number);
        }
        if self.remainders.len() >= MAX_REMAINDERS {
            return Err(Error::Property {
                reason: format!(
                    "the path of a reward comes to more than {MAX_REMAINDERS} remainders: use fewer path operators"
                ),
            });
        }
        let number = index(self.remainders.len());
        self.remainders.push(remainder.clone());
        self.numbers.insert(remainder, number);
        Ok(number)
    }

    /// What is left of a remainder after a state.
    fn after(&mut self, remainder: u32, state: usize) -> Result<u32, Error> {
        let key = (
            remainder,
            self.truths
                .iter()
                .map(|truths| truths[state])
                .collect::<Vec<bool>>(),
        );
        if let Some(number) = self.steps.get(&key) {
            return Ok(*number);
        }
        let mut left = Remainder::new();
        for way in &self.remainders[remainder as usize] {
            let parts = way.iter().map(|part| self.left(*part, &key.1));
            left = either(left, parts.fold(vec![Way::new()], both));
        }
        let number = self.number(left)?;
        self.steps.insert(key, number);
        Ok(number)
    }

    /// What is left of a part after a state in which the conditions are so.
    fn left(&self, part: usize, holds: &[bool]) -> Remainder {
        match &self.parts[part] {
            Part::Label(label, wanted) if holds[*label] == *wanted => vec![Way::new()],
            Part::Label(..) => Remainder::new(),
            Part::And(a, b) => both(self.left(*a, holds), self.left(*b, holds)),
            Part::Or(a, b) => either(self.left(*a, holds), self.left(*b, holds)),
            Part::Next(a) => vec![vec![*a]],
            Part::Until(a, b) => {
                let goes_on = both(self.left(*a, holds), vec![vec![part]]);
                either(self.left(*b, holds), goes_on)
            }
        }
    }
}

fn both(a: Remainder, b: Remainder) -> Remainder {
    let mut ways = Remainder::new();
    for a in &a {
        for b in &b {
            let mut way: Way = a.iter().chain(b).copied().collect();
            way.sort_unstable();
            way.dedup();
            ways.push(way);
        }
    }
    least(ways)
}

fn either(mut a: Remainder, b: Remainder) -> Remainder {
    a.extend(b);
    least(a)
}

/// Without the ways that contain another: what fulfils them fulfils the other as well.
fn least(mut ways: Remainder) -> Remainder {
    ways.sort_unstable_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    ways.dedup();
    let mut kept = Remainder::new();
    for way in ways {
        let contains = |other: &Way| other.iter().all(|part| way.binary_search(part).is_ok());
        if !kept.iter().any(contains) {
            kept.push(way);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elaborate::properties::Formula;
    use crate::expr::Expr;

    /// Xorshift: the same cases in every run.
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }

        /// A path that comes true after finitely many steps, if wanted.
        fn path(&mut self, depth: u32, wanted: bool) -> Linear {
            let kind = if depth == 0 { 0 } else { self.below(6) };
            let mut part = |wanted| Box::new(self.path(depth - 1, wanted));
            match kind {
                1 => Linear::Not(part(!wanted)),
                2 => Linear::Next(part(wanted)),
                3 => Linear::And(part(wanted), part(wanted)),
                4 | 5 if wanted => Linear::Until(part(true), part(true)),
                _ => Linear::State(Formula::Plain(Expr::Bool(true))),
            }
        }
    }

    /// Whether the states of `trace` from `at` on are enough to know that the path is fulfilled (`wanted`), or that it is not.
    fn known(
        path: &Linear,
        labels: &mut usize,
        wanted: bool,
        truths: &[Vec<bool>],
        trace: &[usize],
        at: usize,
    ) -> bool {
        let first = *labels;
        let again = |path: &Linear, wanted: bool, labels: usize, at: usize| {
            let mut next = labels;
            let found = at < trace.len() && known(path, &mut next, wanted, truths, trace, at);
            (found, next)
        };
        let (found, next) = match path {
            Linear::State(_) => (truths[first][trace[at]] == wanted, first + 1),
            Linear::Not(a) => again(a, !wanted, first, at),
            Linear::Next(a) => again(a, wanted, first, at + 1),
            Linear::And(a, b) => {
                let (a, middle) = again(a, wanted, first, at);
                let (b, end) = again(b, wanted, middle, at);
                (if wanted { a && b } else { a || b }, end)
            }
            Linear::Until(a, b) => {
                let middle = first + a.parts().len();
                let end = middle + b.parts().len();
                let comes = (at..trace.len()).find(|place| again(b, true, middle, *place).0);
                (
                    comes.is_some_and(|comes| (at..comes).all(|place| again(a, true, first, place).0)),
                    end,
                )
            }
        };
        *labels = if let Linear::Next(a) | Linear::Not(a) = path {
            first + a.parts().len()
        } else {
            next
        };
        found
    }

    /// The reward along all traces, one by one: infinite where one of them does not fulfil the path.
    fn by_traces(
        chain: &Chain,
        path: &Linear,
        truths: &[Vec<bool>],
        earned: &[f64],
        trace: &mut Vec<usize>,
    ) -> f64 {
        if known(path, &mut 0, true, truths, trace, 0) {
            return 0.0;
        }
        // The last state of the chain is never left: after a few rounds nothing new can become known.
        let rounds = trace.iter().filter(|state| **state + 1 == chain.states()).count();
        if rounds > 8 {
            return f64::INFINITY;
        }
        let state = trace[trace.len() - 1];
        let exit: f64 = chain.row(state).map(|(_, rate)| rate).sum();
        let mut value = earned[state] / exit;
        for (to, rate) in chain.row(state) {
            trace.push(to);
            value += rate / exit * by_traces(chain, path, truths, earned, trace);
            trace.pop();
        }
        value
    }

    #[test]
    fn rewards_are_those_of_all_traces() {
        let mut draw = Draw(88_172_645_463_325_252);
        let (mut finite, mut infinite) = (0, 0);
        for _ in 0..600 {
            let states = 6;
            let mut chain = Chain {
                rows: vec![0],
                ..Chain::default()
            };
            for state in 0..states {
                for to in state + 1..states {
                    if to == state + 1 || draw.below(2) == 0 {
                        chain.columns.push(index(to));
                        chain.rates.push(1.0 + draw.below(4) as f64);
                    }
                }
                if state + 1 == states {
                    chain.columns.push(index(state));
                    chain.rates.push(1.0);
                }
                chain.rows.push(chain.columns.len());
            }
            let earned: Vec<f64> = (0..states)
                .map(|state| {
                    if state + 1 == states {
                        0.0
                    } else {
                        draw.below(5) as f64
                    }
                })
                .collect();
            let path = draw.path(3, true);
            let truths: Vec<Vec<bool>> = (0..path.parts().len())
                .map(|_| (0..states).map(|_| draw.below(3) > 0).collect())
                .collect();
            let values = rewards(&chain, &path, &truths, &earned).unwrap();
            for (state, value) in values.iter().enumerate() {
                let wanted = by_traces(&chain, &path, &truths, &earned, &mut vec![state]);
                assert!(
                    *value == wanted || (value - wanted).abs() < 1e-9,
                    "{value} and not {wanted} from {state}: {path:?} {truths:?}"
                );
                if wanted.is_finite() {
                    finite += u32::from(wanted > 0.0);
                } else {
                    infinite += 1;
                }
            }
        }
        assert!(
            finite > 100 && infinite > 100,
            "{finite} finite, {infinite} infinite"
        );
    }
}
