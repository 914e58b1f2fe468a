//! Large components whose elimination would fill too much: biconjugate gradients with an incomplete factor, and a proof of the digits.
//!
//! Sweeps creep where a target is rare, because each one carries news by a step; a Krylov method finds the few slow modes at once. But a
//! small residual is no small error, and least of all in a stiff chain. So nothing is believed that is not proven: the matrix is an
//! M-matrix, thus A v >= |r| gives |error| <= v in every state. Such a v comes from a second system, is checked with room for rounding, and
//! where the bound is not good enough there is no answer, and the caller sweeps.

use crate::chain::{Chain, index};

/// The proven relative error, in every state, of what is handed out.
const ACCEPTED: f64 = 1e-9;
/// Steps of biconjugate gradients for one right-hand side, over all rounds.
const STEPS: usize = 1_500;
/// Corrections of a solution by the solution for its residual.
const ROUNDS: usize = 12;
/// By how much a round shall shrink the residual.
const ROUND: f64 = 1e-6;
/// Sweeps, to and fro, that find the height of every value.
const FIRST: usize = 20;
/// Sweeps after which a value that is still 0 is too far from everything that is earned.
const LAST: usize = 400;

/// A component made ready: `x = P x + b / leaving` over its states.
pub(super) struct Krylov {
    states: Vec<u32>,
    leaving: Vec<f64>,
    starts: Vec<usize>,
    columns: Vec<u32>,
    /// The entries of P: what part of the leaving goes where.
    shares: Vec<f64>,
    /// The incomplete factors of I - P, in the places of P.
    factors: Vec<f64>,
    /// One over the diagonal of the upper factor.
    diagonal: Vec<f64>,
}

impl Krylov {
    /// Bytes that a component of so many states and transitions takes while it is solved.
    pub(super) fn bytes(states: usize, transitions: usize) -> u64 {
        (states as u64) * (4 + 8 * 16) + (transitions as u64) * 20
    }

    /// `leaving` are the rates of leaving of `states`, in their order. `None` where no factor was found.
    pub(super) fn new(chain: &Chain, states: &[u32], leaving: &[f64], local: &mut [u32]) -> Option<Krylov> {
        // States in the order in which they were found have their neighbours near, which makes the factor better.
        let mut order: Vec<usize> = (0..states.len()).collect();
        order.sort_unstable_by_key(|place| states[*place]);
        let leaving: Vec<f64> = order.iter().map(|place| leaving[*place]).collect();
        let states: Vec<u32> = order.iter().map(|place| states[*place]).collect();
        for (place, state) in states.iter().enumerate() {
            local[*state as usize] = index(place);
        }
        let (mut starts, mut columns, mut shares) = (vec![0], Vec::new(), Vec::new());
        let mut row: Vec<(u32, f64)> = Vec::new();
        for (state, leaving) in states.iter().zip(&leaving) {
            row.clear();
            row.extend(
                chain
                    .row(*state as usize)
                    .filter(|(to, _)| *to != *state as usize && local[*to] != u32::MAX)
                    .map(|(to, rate)| (local[to], rate / leaving)),
            );
            row.sort_unstable_by_key(|(to, _)| *to);
            let start = columns.len();
            for (to, share) in &row {
                if columns.len() > start && columns.last() == Some(to) {
                    *shares.last_mut().expect("as many shares as columns") += share;
                } else {
                    columns.push(*to);
                    shares.push(*share);
                }
            }
            starts.push(columns.len());
        }
        for state in &states {
            local[*state as usize] = u32::MAX;
        }
        let mut made = Krylov {
            states,
            leaving,
            starts,
            columns,
            shares,
            factors: Vec::new(),
            diagonal: Vec::new(),
        };
        made.factorise().then_some(made)
    }

    /// The incomplete factors: elimination that keeps only what falls on an entry of P.
    fn factorise(&mut self) -> bool {
        let size = self.states.len();
        self.factors = self.shares.iter().map(|share| -share).collect();
        self.diagonal = vec![1.0; size];
        let mut seat = vec![usize::MAX; size];
        for i in 0..size {
            let range = self.starts[i]..self.starts[i + 1];
            for at in range.clone() {
                seat[self.columns[at] as usize] = at;
            }
            let mut own = 1.0;
            for at in range.clone() {
                let k = self.columns[at] as usize;
                if k > i {
                    break;
                }
                let factor = self.factors[at] * self.diagonal[k];
                self.factors[at] = factor;
                for other in self.starts[k]..self.starts[k + 1] {
                    let j = self.columns[other] as usize;
                    if j == i {
                        own -= factor * self.factors[other];
                    } else if j > k && seat[j] != usize::MAX {
                        self.factors[seat[j]] -= factor * self.factors[other];
                    }
                }
            }
            for at in range {
                seat[self.columns[at] as usize] = usize::MAX;
            }
            if own.is_nan() || own <= 0.0 {
                return false;
            }
            self.diagonal[i] = 1.0 / own;
        }
        true
    }

    /// Solves in place for the component, or leaves `x` as it was: `x` holds the right-hand side there, and known values elsewhere.
    pub(super) fn solve(&self, chain: &Chain, x: &mut [f64]) -> bool {
        let mut own = vec![false; x.len()];
        for s in &self.states {
            own[*s as usize] = true;
        }
        let b: Vec<f64> = self
            .states
            .iter()
            .zip(&self.leaving)
            .map(|(s, leaving)| {
                let outside = chain.row(*s as usize).filter(|(to, _)| !own[*to]);
                (x[*s as usize] + outside.map(|(to, rate)| rate * x[to]).sum::<f64>()) / leaving
            })
            .collect();
        let Some(found) = self.answer(&b) else {
            return false;
        };
        for (s, value) in self.states.iter().zip(found) {
            x[*s as usize] = value;
        }
        true
    }

    /// The solution of `x = P x + b` for `b` without a negative entry, where its digits could be proven.
    fn answer(&self, b: &[f64]) -> Option<Vec<f64>> {
        if b.iter().any(|b| *b < 0.0) {
            return None;
        }
        if b.iter().all(|b| *b == 0.0) {
            return Some(vec![0.0; b.len()]);
        }
        let mut steps = STEPS;
        let (x, residual) = self.refine(b, f64::EPSILON, &mut steps)?;
        // What a value of the height of x in every state adds up to: the v of the proof, a tenth is close enough.
        let (v, rest) = self.refine(&x, 0.1, &mut steps)?;
        if rest > 0.5 {
            return None;
        }
        let proven = v.iter().zip(&x).all(|(v, x)| 2.0 * residual * v <= ACCEPTED * x);
        proven.then_some(x)
    }

    /// A solution, and the largest part that its residual, with rounding, has of `x` (while it is the solution itself that is wanted to
    /// the last digit) or of `b` (while a rough one will do, and `b` has no zeros).
    fn refine(&self, b: &[f64], wanted: f64, steps: &mut usize) -> Option<(Vec<f64>, f64)> {
        let rough = wanted > f64::EPSILON;
        let mut x = self.first(b)?;
        let mut r = vec![0.0; b.len()];
        let mut best = (Vec::new(), f64::INFINITY);
        for _ in 0..ROUNDS {
            let noise = self.residual(b, &x, &mut r);
            let scale = if rough { b } else { x.as_slice() };
            let size = r
                .iter()
                .zip(&noise)
                .zip(scale)
                .map(|((r, noise), scale)| (r.abs() + noise) / scale)
                .fold(0.0, f64::max);
            if !size.is_finite() {
                return None;
            }
            let better = size < best.1 / 2.0;
            if size < best.1 {
                best = (x.clone(), size);
            }
            if size <= wanted || !better || *steps == 0 {
                break;
            }
            let change = self.gradients(&r, scale, steps);
            for (x, change) in x.iter_mut().zip(change) {
                let value = *x + change;
                if value > 0.0 {
                    *x = value;
                }
            }
            self.sweep(b, &mut x, true);
        }
        best.1.is_finite().then_some(best)
    }

    /// Values of the right height: sweeps from 0 rise to the solution, and each state that earns something at last is above 0.
    fn first(&self, b: &[f64]) -> Option<Vec<f64>> {
        let mut x = vec![0.0; b.len()];
        for round in 0..LAST {
            self.sweep(b, &mut x, round % 2 == 0);
            if round >= FIRST && x.iter().all(|x| *x > 0.0) {
                return Some(x);
            }
        }
        None
    }

    fn sweep(&self, b: &[f64], x: &mut [f64], forth: bool) {
        let size = b.len();
        for step in 0..size {
            let i = if forth { step } else { size - 1 - step };
            x[i] = b[i] + self.spread(i, x);
        }
    }

    /// One row of P x.
    fn spread(&self, i: usize, x: &[f64]) -> f64 {
        let range = self.starts[i]..self.starts[i + 1];
        self.columns[range.clone()]
            .iter()
            .zip(&self.shares[range])
            .map(|(to, share)| share * x[*to as usize])
            .sum()
    }

    /// `r = b + P x - x`, and what rounding may have added to it or hidden, in its sums and in the shares and rates of leaving.
    fn residual(&self, b: &[f64], x: &[f64], r: &mut [f64]) -> Vec<f64> {
        let mut noise = Vec::with_capacity(b.len());
        for i in 0..b.len() {
            let spread = self.spread(i, x);
            r[i] = (b[i] - x[i]) + spread;
            let terms = (self.starts[i + 1] - self.starts[i] + 4) as f64;
            noise.push(terms * f64::EPSILON / 2.0 * (b[i] + x[i].abs() + spread.abs()));
        }
        noise
    }

    /// Undoes the incomplete factors.
    fn precondition(&self, from: &[f64], to: &mut [f64]) {
        let size = from.len();
        for i in 0..size {
            let mut value = from[i];
            for at in self.starts[i]..self.starts[i + 1] {
                let k = self.columns[at] as usize;
                if k > i {
                    break;
                }
                value -= self.factors[at] * to[k];
            }
            to[i] = value;
        }
        for i in (0..size).rev() {
            let mut value = to[i];
            for at in (self.starts[i]..self.starts[i + 1]).rev() {
                let j = self.columns[at] as usize;
                if j < i {
                    break;
                }
                value -= self.factors[at] * to[j];
            }
            to[i] = value * self.diagonal[i];
        }
    }

    fn apply(&self, x: &[f64], to: &mut [f64]) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = x[i] - self.spread(i, x);
        }
    }

    /// Biconjugate gradients, stabilised, for `A d = r`. Lengths are measured in parts of `scale`, so that a state with a value of 1e-12
    /// is as near to its digits as one with 1.
    fn gradients(&self, wanted: &[f64], scale: &[f64], steps: &mut usize) -> Vec<f64> {
        let size = wanted.len();
        let weights: Vec<f64> = scale.iter().map(|scale| 1.0 / (scale * scale)).collect();
        let dot = |a: &[f64], b: &[f64]| -> f64 {
            a.iter().zip(b).zip(&weights).map(|((a, b), w)| a * b * w).sum()
        };
        let mut r = wanted.to_vec();
        let shadow = r.clone();
        let goal = dot(&r, &r) * ROUND * ROUND;
        let (mut found, mut p, mut v) = (vec![0.0; size], vec![0.0; size], vec![0.0; size]);
        let (mut ready, mut t) = (vec![0.0; size], vec![0.0; size]);
        let (mut rho, mut alpha, mut omega) = (1.0, 1.0, 1.0);
        while *steps > 0 {
            *steps -= 1;
            let next = dot(&shadow, &r);
            let beta = next / rho * (alpha / omega);
            rho = next;
            for i in 0..size {
                p[i] = r[i] + beta * (p[i] - omega * v[i]);
            }
            self.precondition(&p, &mut ready);
            self.apply(&ready, &mut v);
            alpha = rho / dot(&shadow, &v);
            if !alpha.is_finite() {
                break;
            }
            for i in 0..size {
                found[i] += alpha * ready[i];
                r[i] -= alpha * v[i];
            }
            self.precondition(&r, &mut ready);
            self.apply(&ready, &mut t);
            omega = dot(&t, &r) / dot(&t, &t);
            if !omega.is_finite() || omega == 0.0 {
                break;
            }
            for i in 0..size {
                found[i] += omega * ready[i];
                r[i] -= omega * t[i];
            }
            let left = dot(&r, &r);
            if left <= goal || !left.is_finite() {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
