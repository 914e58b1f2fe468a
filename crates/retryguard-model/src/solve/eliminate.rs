//! Elimination of states, the stable kind.
//!
//! A state is taken out by giving its predecessors direct transitions to its successors. Its rate of leaving is summed from
//! what remains, never had by subtraction (the trick of Grassmann, Taksar and Heyman), so all numbers are sums and
//! products of positive ones and keep their relative precision however stiff the chain.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fronts::{Fronts, Square};
use super::lane::Lane;
use crate::chain::index;

/// Paths through the cheapest state at which states are no longer taken out one by one.
const CHEAP: usize = 36;

/// Bytes of an entry of a factor: a place and a value.
const ENTRY: u64 = 12;
/// Bytes of a transition while states are taken out: in a row, and in the list of its target's sources, both of which may have grown
/// to twice what they hold.
const WORKING: u64 = 40;
/// Bytes of a state then: two lists with what the allocator adds to each, its places in the queue and in the factor.
const STATE: u64 = 176;
/// Bytes of a state and of a transition that are left when the rest is planned: three lists, the cuts, and the nodes of the plan.
const PLANNED_STATE: u64 = 320;
const PLANNED_TRANSITION: u64 = 72;

/// The least bytes that an elimination takes, its rows included: asked before the rows are made.
pub(super) fn least_bytes(states: usize, transitions: usize) -> u64 {
    states as u64 * STATE + transitions as u64 * WORKING
}

/// How much an elimination may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Multiplications.
    pub(super) work: f64,
    pub(super) bytes: u64,
}

/// What came of an elimination.
pub(super) enum Made {
    Factor(Factor),
    /// It would take more multiplications than wanted.
    TooDear(Box<Planned>),
    /// It does not fit into memory.
    TooLarge,
}

/// An elimination of which the cheap part is done and the rest is planned.
pub(super) struct Planned {
    fronts: Fronts,
    /// The names of the states that are left.
    left: Vec<u32>,
    exit: Vec<f64>,
    factor: Factor,
}

impl Planned {
    /// Multiplications that are still to be made.
    pub(super) fn work(&self) -> f64 {
        self.fronts.plan.work
    }

    /// Bytes that it takes before it is finished.
    pub(super) fn bytes(&self) -> u64 {
        self.factor.bytes() + self.fronts.waiting()
    }

    /// Makes the rest of the factor; `None` where it does not fit.
    pub(super) fn finish(mut self, bytes: u64) -> Option<Factor> {
        if self.fronts.bytes() + self.bytes() > bytes {
            return None;
        }
        let entries = self.fronts.plan.entries();
        self.factor.lower.reserve(entries);
        self.factor.upper.reserve(entries);
        let (left, factor) = (&self.left, &mut self.factor);
        self.fronts
            .take_out(&mut self.exit, |square| square.record(left, factor));
        Some(self.factor)
    }
}

/// The record of an elimination: enough to solve for any right-hand side.
pub(super) struct Factor {
    order: Vec<u32>,
    /// For each eliminated state: one over its rate of leaving.
    scale: Vec<f64>,
    lower: Sparse,
    upper: Sparse,
}

#[derive(Default)]
struct Sparse {
    starts: Vec<usize>,
    places: Vec<u32>,
    values: Vec<f64>,
}

impl Sparse {
    fn push(&mut self, place: u32, value: f64) {
        self.places.push(place);
        self.values.push(value);
    }

    fn reserve(&mut self, entries: usize) {
        self.places.reserve_exact(entries);
        self.values.reserve_exact(entries);
    }

    fn close(&mut self) {
        self.starts.push(self.places.len());
    }

    fn row(&self, k: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.starts[k]..self.starts[k + 1];
        self.places[range.clone()]
            .iter()
            .zip(&self.values[range])
            .map(|(place, value)| (*place as usize, *value))
    }
}

impl Factor {
    /// Eliminates every state of a component. `rows` are the rates within it without self-loops, `exit` the rates out of it.
    pub(super) fn make(rows: Vec<Vec<(u32, f64)>>, exit: Vec<f64>, room: Room) -> Made {
        let transitions: usize = rows.iter().map(Vec::len).sum();
        if least_bytes(rows.len(), transitions) > room.bytes {
            return Made::TooLarge;
        }
        Elimination::new(rows, exit, transitions).run(room)
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.entries() as u64 * ENTRY
    }

    pub(super) fn entries(&self) -> usize {
        self.lower.places.len() + self.upper.places.len()
    }

    /// Solves `rate(i) x(i) = b(i) + Σ q(i,j) x(j)` in place.
    pub(super) fn solve<L: Lane>(&self, b: &mut [L]) {
        for (k, state) in self.order.iter().enumerate() {
            let value = b[*state as usize];
            if !value.is_zero() {
                for (i, factor) in self.lower.row(k) {
                    b[i].add_scaled(factor, value);
                }
            }
        }
        for (k, state) in self.order.iter().enumerate().rev() {
            let mut value = b[*state as usize].scaled(self.scale[k]);
            for (j, factor) in self.upper.row(k) {
                value.add_scaled(factor, b[j]);
            }
            b[*state as usize] = value;
        }
    }

    /// Solves the transposed system in place: `b` is what flows in, the result the expected time in each state.
    pub(super) fn solve_transposed(&self, b: &mut [f64]) {
        for (k, state) in self.order.iter().enumerate() {
            let value = b[*state as usize];
            if value != 0.0 {
                for (j, factor) in self.upper.row(k) {
                    b[j] += factor * value;
                }
            }
        }
        for (k, state) in self.order.iter().enumerate().rev() {
            let state = *state as usize;
            let sum: f64 = self.lower.row(k).map(|(i, factor)| factor * b[i]).sum();
            b[state] = b[state] * self.scale[k] + sum;
        }
    }
}

impl Square<'_> {
    /// Writes down the states that were taken out; `names` are those of the states in the numbering of the fronts.
    fn record(&self, names: &[u32], factor: &mut Factor) {
        let name = |place: usize| names[self.states[place] as usize];
        for (k, scale) in self.scale.iter().enumerate() {
            factor.order.push(name(k));
            factor.scale.push(*scale);
            for place in k + 1..self.size() {
                let rate = self.rates[k * self.size() + place];
                if rate != 0.0 {
                    factor.upper.push(name(place), rate * scale);
                }
                let share = self.rates[place * self.size() + k];
                if share != 0.0 {
                    factor.lower.push(name(place), share);
                }
            }
            factor.upper.close();
            factor.lower.close();
        }
    }
}

/// The graph as it is while states are taken out.
struct Elimination {
    rows: Vec<Vec<(u32, f64)>>,
    /// Predecessors of each state that is left.
    sources: Vec<Vec<u32>>,
    exit: Vec<f64>,
    /// Where each column lies in the row being changed, plus one.
    seat: Vec<u32>,
    /// Transitions that are left.
    transitions: usize,
}

impl Elimination {
    fn new(rows: Vec<Vec<(u32, f64)>>, exit: Vec<f64>, transitions: usize) -> Elimination {
        let mut sources = vec![Vec::new(); rows.len()];
        for (state, row) in rows.iter().enumerate() {
            for (to, _) in row {
                sources[*to as usize].push(index(state));
            }
        }
        Elimination {
            seat: vec![0; rows.len()],
            rows,
            sources,
            exit,
            transitions,
        }
    }

    /// Takes out the state with the fewest paths through it, again and again.
    fn run(mut self, room: Room) -> Made {
        let count = self.rows.len();
        let mut factor = Factor {
            order: Vec::with_capacity(count),
            scale: Vec::with_capacity(count),
            lower: Sparse::default(),
            upper: Sparse::default(),
        };
        factor.lower.close();
        factor.upper.close();
        let mut gone = vec![false; count];
        let mut queue: BinaryHeap<Reverse<(usize, u32)>> =
            (0..count).map(|s| Reverse((self.cost(s), index(s)))).collect();
        while let Some(Reverse((cost, state))) = queue.pop() {
            let k = state as usize;
            if gone[k] {
                continue;
            }
            // The queue is lazy: a state that has become dearer goes back.
            let now = self.cost(k);
            if now > cost {
                queue.push(Reverse((now, state)));
                continue;
            }
            if now > CHEAP {
                return self.finish(&gone, factor, room);
            }
            // Taking it out makes one transition for each path through it, at the most.
            let next = (self.rows[k].len() + self.sources[k].len()) as u64 * ENTRY;
            if factor.bytes() + next + least_bytes(count, self.transitions + now) > room.bytes {
                return Made::TooLarge;
            }
            gone[k] = true;
            self.take_out(k, &mut factor);
            for (to, _) in &self.rows[k] {
                queue.push(Reverse((self.cost(*to as usize), *to)));
            }
            self.rows[k] = Vec::new();
        }
        Made::Factor(factor)
    }

    /// Takes out all that is left, a dense square after the other: once rows are full, looking entries up costs more than zeros do.
    fn finish(mut self, gone: &[bool], factor: Factor, room: Room) -> Made {
        let left: Vec<u32> = (0..gone.len()).filter(|s| !gone[*s]).map(index).collect();
        let copied = left.len() as u64 * 48 + self.transitions as u64 * 16;
        let planned = left.len() as u64 * PLANNED_STATE + self.transitions as u64 * PLANNED_TRANSITION;
        let most = planned.max(copied + least_bytes(gone.len(), self.transitions));
        if factor.bytes() + most > room.bytes {
            return Made::TooLarge;
        }
        for (place, s) in left.iter().enumerate() {
            self.seat[*s as usize] = index(place);
        }
        let rows: Vec<Vec<(u32, f64)>> = left
            .iter()
            .map(|s| {
                let row = self.rows[*s as usize].iter();
                row.map(|(to, rate)| (self.seat[*to as usize], *rate)).collect()
            })
            .collect();
        let exit: Vec<f64> = left.iter().map(|s| self.exit[*s as usize]).collect();
        drop(self);
        let planned = Planned {
            fronts: Fronts::new(rows),
            left,
            exit,
            factor,
        };
        if planned.work() > room.work {
            return Made::TooDear(Box::new(planned));
        }
        planned.finish(room.bytes).map_or(Made::TooLarge, Made::Factor)
    }

    fn cost(&self, state: usize) -> usize {
        self.rows[state].len() * self.sources[state].len()
    }

    fn take_out(&mut self, k: usize, factor: &mut Factor) {
        let row = std::mem::take(&mut self.rows[k]);
        let leaving: f64 = row.iter().map(|(_, rate)| rate).sum::<f64>() + self.exit[k];
        let scale = 1.0 / leaving;
        factor.order.push(index(k));
        factor.scale.push(scale);
        for (to, rate) in &row {
            factor.upper.push(*to, rate * scale);
            let list = &mut self.sources[*to as usize];
            let place = list.iter().position(|s| *s as usize == k);
            list.swap_remove(place.expect("a transition is listed at both ends"));
        }
        factor.upper.close();
        self.transitions -= row.len() + self.sources[k].len();
        for source in std::mem::take(&mut self.sources[k]) {
            let i = source as usize;
            let target = &mut self.rows[i];
            let place = target.iter().position(|(to, _)| *to as usize == k);
            let (_, rate) = target.swap_remove(place.expect("a transition is listed at both ends"));
            let share = rate * scale;
            factor.lower.push(source, share);
            self.exit[i] += share * self.exit[k];
            self.pass_on(i, share, &row);
        }
        factor.lower.close();
        self.rows[k] = row;
    }

    /// Adds `share` of `row` to the row of `i`.
    fn pass_on(&mut self, i: usize, share: f64, row: &[(u32, f64)]) {
        let target = &mut self.rows[i];
        let long = target.len() > 8 && row.len() > 2;
        if long {
            for (place, (to, _)) in target.iter().enumerate() {
                self.seat[*to as usize] = index(place) + 1;
            }
        }
        for (to, rate) in row {
            if *to as usize == i {
                continue;
            }
            let known = if long {
                (self.seat[*to as usize] as usize).checked_sub(1)
            } else {
                target.iter().position(|(known, _)| known == to)
            };
            match known {
                Some(place) => target[place].1 += share * rate,
                None => {
                    target.push((*to, share * rate));
                    self.transitions += 1;
                    self.sources[*to as usize].push(index(i));
                }
            }
        }
        if long {
            for (to, _) in target {
                self.seat[*to as usize] = 0;
            }
        }
    }
}
