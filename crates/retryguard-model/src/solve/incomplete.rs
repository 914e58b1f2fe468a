//! The rates of a closed component, and incomplete factors of them.

use crate::chain::{Chain, index};

/// The least pivot, in parts of the diagonal. The whole matrix is singular, so exact factors would end in a pivot of 0.
const LEAST_PIVOT: f64 = 1e-6;
/// The part of what falls on no entry that is taken from the diagonal (Gustafsson 1978). Without it the number of steps grows with the
/// length of a mesh; with all of it, factors of some chains are far off.
const KEPT: f64 = 0.9;

/// -Q for the states of a closed component, row by row without the diagonal, and factors L U of it: elimination that keeps what
/// falls on an entry or on the diagonal. The factors are those of the rows divided by their diagonal, in single precision: they only lead the way.
pub(super) struct Incomplete {
    starts: Vec<usize>,
    columns: Vec<u32>,
    rates: Vec<f64>,
    /// The diagonal.
    pub(super) leaving: Vec<f64>,
    factors: Vec<f32>,
    /// One over the diagonal of U.
    pivots: Vec<f32>,
}

impl Incomplete {
    /// Bytes for so many states and transitions, with the scratch of the elimination.
    pub(super) fn bytes(states: usize, transitions: usize) -> u64 {
        (states as u64) * (8 + 8 + 4 + 4) + (transitions as u64) * (4 + 8 + 4)
    }

    /// Of `states`, in their order.
    pub(super) fn new(chain: &Chain, states: &[u32]) -> Incomplete {
        let mut local = vec![u32::MAX; chain.states()];
        for (place, state) in states.iter().enumerate() {
            local[*state as usize] = index(place);
        }
        let transitions = states.iter().map(|s| chain.targets(*s as usize).len()).sum();
        let mut made = Incomplete {
            starts: Vec::with_capacity(states.len() + 1),
            columns: Vec::with_capacity(transitions),
            rates: Vec::with_capacity(transitions),
            leaving: Vec::with_capacity(states.len()),
            factors: Vec::new(),
            pivots: Vec::new(),
        };
        made.starts.push(0);
        let mut row = Vec::new();
        for state in states {
            let others = chain
                .row(*state as usize)
                .filter(|(to, _)| *to != *state as usize);
            row.clear();
            row.extend(others.map(|(to, rate)| (local[to], rate)));
            row.sort_unstable_by_key(|(to, _)| *to);
            made.columns.extend(row.iter().map(|(to, _)| *to));
            made.rates.extend(row.iter().map(|(_, rate)| *rate));
            made.leaving.push(row.iter().map(|(_, rate)| rate).sum());
            made.starts.push(made.columns.len());
        }
        drop(local);
        made.factorise();
        made
    }

    pub(super) fn size(&self) -> usize {
        self.leaving.len()
    }

    /// The states to which the one at place `i` leads, with the rates.
    pub(super) fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.starts[i]..self.starts[i + 1];
        let columns = &self.columns[range.clone()];
        columns
            .iter()
            .zip(&self.rates[range])
            .map(|(to, rate)| (*to as usize, *rate))
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the factors are meant to have single precision"
    )]
    fn factorise(&mut self) {
        let size = self.size();
        let mut factors = vec![0f32; self.rates.len()];
        let mut pivots = vec![0f32; size];
        let mut seat = vec![u32::MAX; size];
        for i in 0..size {
            let start = self.starts[i];
            let row = &self.columns[start..self.starts[i + 1]];
            for (place, column) in row.iter().enumerate() {
                seat[*column as usize] = index(place);
                factors[start + place] = -(self.rates[start + place] / self.leaving[i]) as f32;
            }
            let (mut own, mut lost) = (1.0f64, 0.0);
            for (place, column) in row.iter().enumerate() {
                let k = *column as usize;
                if k > i {
                    break;
                }
                let factor = factors[start + place] * pivots[k];
                factors[start + place] = factor;
                for other in self.starts[k]..self.starts[k + 1] {
                    let j = self.columns[other] as usize;
                    let change = factor * factors[other];
                    if j == i {
                        own -= f64::from(change);
                    } else if j > k && seat[j] != u32::MAX {
                        factors[start + seat[j] as usize] -= change;
                    } else if j > k {
                        lost += f64::from(change);
                    }
                }
            }
            for column in row {
                seat[*column as usize] = u32::MAX;
            }
            pivots[i] = (1.0 / (own - KEPT * lost).max(LEAST_PIVOT)) as f32;
        }
        self.factors = factors;
        self.pivots = pivots;
    }

    /// `to = (L U)⁻¹ from`.
    pub(super) fn undo(&self, from: &[f64], to: &mut [f64]) {
        let row = |i: usize| {
            let range = self.starts[i]..self.starts[i + 1];
            self.columns[range.clone()].iter().zip(&self.factors[range])
        };
        for i in 0..from.len() {
            let mut value = from[i] / self.leaving[i];
            for (k, factor) in row(i) {
                let k = *k as usize;
                if k > i {
                    break;
                }
                value -= f64::from(*factor) * to[k];
            }
            to[i] = value;
        }
        for i in (0..from.len()).rev() {
            let mut value = to[i];
            for (j, factor) in row(i).rev() {
                let j = *j as usize;
                if j < i {
                    break;
                }
                value -= f64::from(*factor) * to[j];
            }
            to[i] = value * f64::from(self.pivots[i]);
        }
    }
}
