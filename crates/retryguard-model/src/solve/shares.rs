//! Systems of the form `x = P x + b` with a P and a b that have no negative entry: sweeps over them, and the proof of digits.
//!
//! I - P is an M-matrix, thus (I - P) v >= |r| gives |error| <= v in every state. Such a v comes from a second system, and is checked
//! with room for rounding: a small residual does not mean a small error, least of all in a stiff chain.

use crate::chain::{Chain, index};

/// The proven relative error, in every state, of what is handed out.
pub(super) const ACCEPTED: f64 = 1e-9;
/// Sweeps, to and fro, within which a chain that is driven to its end settles.
const PAIRS: usize = 40;
/// Sweeps, to and fro, after which it is guessed how many it will take.
const LOOK: usize = 4;
/// The guess up to which biconjugate gradients settle in a few dozen steps.
const SOON: f64 = 400.0;
/// The relative change at which rounding is all that is left.
const STILL: f64 = 16.0 * f64::EPSILON;

/// The least value that is believed.
const LEAST: f64 = 1e-280;

/// What came of a few sweeps.
pub(super) enum Settled {
    /// The solution, with its digits proven.
    Solved(Vec<f64>),
    /// More sweeps would settle, but biconjugate gradients do so sooner.
    Soon,
    /// Sweeps creep, or nothing could be proven.
    No,
}

/// The entries of P, row by row.
#[derive(Default)]
pub(super) struct Shares {
    pub(super) starts: Vec<usize>,
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<f64>,
}

impl Shares {
    /// Bytes of the entries for so many states and transitions.
    pub(super) fn bytes(states: usize, transitions: usize) -> u64 {
        (states as u64 + 1) * 8 + (transitions as u64) * 12
    }

    /// The same while they are settled: with the vectors of the proof.
    pub(super) fn settling_bytes(states: usize, transitions: usize) -> u64 {
        Shares::bytes(states, transitions) + (states as u64) * (8 * 9)
    }

    /// What flows into each of `states`, a closed component, from each other one: the share that it has of the transitions of that one.
    /// Rows are sorted, because their entries come in the order of the states.
    pub(super) fn inwards(chain: &Chain, states: &[u32], leaving: &[f64]) -> Shares {
        let mut local = vec![u32::MAX; chain.states()];
        for (place, state) in states.iter().enumerate() {
            local[*state as usize] = index(place);
        }
        let others = |state: u32| {
            let row = chain.row(state as usize);
            row.filter(move |(to, _)| *to != state as usize)
        };
        // The start of each row stands one place too high until the row is full: then it is the end of the row before.
        let mut starts = vec![0usize; states.len() + 2];
        for state in states {
            for (to, _) in others(*state) {
                starts[local[to] as usize + 2] += 1;
            }
        }
        for place in 2..starts.len() {
            starts[place] += starts[place - 1];
        }
        let entries = *starts.last().expect("there are at least two");
        let (mut columns, mut values) = (vec![0u32; entries], vec![0.0; entries]);
        for ((place, state), leaving) in states.iter().enumerate().zip(leaving) {
            for (to, rate) in others(*state) {
                let at = &mut starts[local[to] as usize + 1];
                columns[*at] = index(place);
                values[*at] = rate / leaving;
                *at += 1;
            }
        }
        starts.pop();
        Shares {
            starts,
            columns,
            values,
        }
    }

    /// The component of `states`, whose rates of leaving are `leaving`.
    pub(super) fn within(chain: &Chain, states: &[u32], leaving: &[f64], local: &mut [u32]) -> Shares {
        for (place, state) in states.iter().enumerate() {
            local[*state as usize] = index(place);
        }
        let mut made = Shares {
            starts: vec![0],
            ..Shares::default()
        };
        let mut row = Vec::new();
        for (state, leaving) in states.iter().zip(leaving) {
            let others = chain
                .row(*state as usize)
                .filter(|(to, _)| *to != *state as usize && local[*to] != u32::MAX);
            row.clear();
            row.extend(others.map(|(to, rate)| (local[to], rate / leaving)));
            made.push(&mut row);
        }
        for state in states {
            local[*state as usize] = u32::MAX;
        }
        made
    }

    fn push(&mut self, row: &mut [(u32, f64)]) {
        row.sort_unstable_by_key(|(to, _)| *to);
        let start = self.columns.len();
        for (to, share) in row {
            if self.columns.len() > start && self.columns.last() == Some(to) {
                *self.values.last_mut().expect("as many shares as columns") += *share;
            } else {
                self.columns.push(*to);
                self.values.push(*share);
            }
        }
        self.starts.push(self.columns.len());
    }

    pub(super) fn size(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn entries(&self) -> usize {
        self.columns.len()
    }

    /// One row of P x.
    pub(super) fn spread(&self, i: usize, x: &[f64]) -> f64 {
        let range = self.starts[i]..self.starts[i + 1];
        self.columns[range.clone()]
            .iter()
            .zip(&self.values[range])
            .map(|(to, share)| share * x[*to as usize])
            .sum()
    }

    pub(super) fn sweep(&self, b: &[f64], x: &mut [f64], forth: bool) {
        let size = b.len();
        for step in 0..size {
            let i = if forth { step } else { size - 1 - step };
            x[i] = b[i] + self.spread(i, x);
        }
    }

    /// `r = b + P x - x`, and what rounding may have added to it or hidden, in its sums and in the shares and rates of leaving.
    pub(super) fn residual(&self, b: &[f64], x: &[f64], r: &mut [f64]) -> Vec<f64> {
        let mut noise = Vec::with_capacity(b.len());
        for i in 0..b.len() {
            let spread = self.spread(i, x);
            r[i] = (b[i] - x[i]) + spread;
            let terms = (self.starts[i + 1] - self.starts[i] + 4) as f64;
            noise.push(terms * f64::EPSILON / 2.0 * (b[i] + x[i].abs() + spread.abs()));
        }
        noise
    }

    /// The largest part that the residual of `x`, with rounding, has of `scale`.
    pub(super) fn distance(&self, b: &[f64], x: &[f64], scale: &[f64], r: &mut [f64]) -> f64 {
        let noise = self.residual(b, x, r);
        r.iter()
            .zip(&noise)
            .zip(scale)
            .map(|((r, noise), scale)| (r.abs() + noise) / scale)
            .fold(0.0, f64::max)
    }

    /// By how much a residual that is everywhere the same part of `x` may have changed `x`, for each unit of it: with A v >= c x and a
    /// residual of at most ρ x, no error is above ρ v / c. The change is that of the state where it is largest, in parts of its value, or
    /// where there are `sums`, weights that are not negative, that of the sum where it is.
    pub(super) fn reach(&self, v: &[f64], x: &[f64], sums: &[Vec<f64>]) -> Option<f64> {
        let mut negative = vec![0.0; v.len()];
        let noise = self.residual(&vec![0.0; v.len()], v, &mut negative);
        let least = negative
            .iter()
            .zip(&noise)
            .zip(x)
            .map(|((negative, noise), x)| (-negative - noise) / x)
            .fold(f64::INFINITY, f64::min);
        let most = if sums.is_empty() {
            v.iter().zip(x).map(|(v, x)| v / x).fold(0.0, f64::max)
        } else {
            let dot = |weights: &[f64], of: &[f64]| weights.iter().zip(of).map(|(w, of)| w * of).sum::<f64>();
            // A sum of nothing is 0/0, and right.
            sums.iter()
                .map(|weights| dot(weights, v) / dot(weights, x))
                .fold(0.0, f64::max)
        };
        (least > 0.0).then_some(most / least)
    }

    /// The solution by a few sweeps, where its digits could be proven: a chain that is driven to its end hands the news of it to every
    /// state within a few of them, however dear its elimination. Where it is not driven, that shows after the first ones.
    pub(super) fn settle(&self, b: &[f64]) -> Settled {
        if b.iter().any(|b| *b < 0.0) {
            return Settled::No;
        }
        if b.iter().all(|b| *b == 0.0) {
            return Settled::Solved(vec![0.0; b.len()]);
        }
        match self.sweeps(b, STILL) {
            Ok(x) => self.proven(b, x).map_or(Settled::No, Settled::Solved),
            Err(pairs) if pairs <= SOON => Settled::Soon,
            Err(_) => Settled::No,
        }
    }

    fn proven(&self, b: &[f64], x: Vec<f64>) -> Option<Vec<f64>> {
        // Numbers near the least that there are have fewer digits than the proof counts with.
        if x.iter().any(|x| *x < LEAST) {
            return None;
        }
        let v = self.sweeps(&x, 0.1).ok()?;
        let residual = self.distance(b, &x, &x, &mut vec![0.0; b.len()]);
        (self.reach(&v, &x, &[])? * residual <= ACCEPTED).then_some(x)
    }

    /// Sweeps to and fro from 0 until one pair changes no value by more than the part `wanted`. An error where that takes too many: how many
    /// it would take, as far as the last ones tell.
    fn sweeps(&self, b: &[f64], wanted: f64) -> Result<Vec<f64>, f64> {
        let mut x = vec![0.0; b.len()];
        let mut before = f64::INFINITY;
        for pair in 1..=PAIRS {
            self.sweep(b, &mut x, false);
            let mut change = 0.0;
            for i in 0..b.len() {
                let value = b[i] + self.spread(i, &x);
                change = f64::max(change, (value - x[i]).abs() / value);
                x[i] = value;
            }
            if change <= wanted {
                return Ok(x);
            }
            let factor = change / before;
            let more = (wanted / change).ln() / factor.ln();
            if pair >= LOOK && !(factor < 1.0 && pair as f64 + more <= PAIRS as f64) {
                return Err(if factor < 1.0 {
                    pair as f64 + more
                } else {
                    f64::INFINITY
                });
            }
            before = change;
        }
        Err(f64::INFINITY)
    }
}
