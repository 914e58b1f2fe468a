//! Biconjugate gradients with an incomplete factor, and a proof of the digits.
//!
//! Sweeps creep where a target is rare, because each one carries news by a step; a Krylov method finds the few slow modes at once. Nothing
//! is believed that is not [proven](super::shares): where the bound is not good enough there is no answer.

use super::shares::{ACCEPTED, Shares};

/// The least residual, in parts of the value, that can be proven in spite of rounding.
const LAST_DIGIT: f64 = 4.0 * f64::EPSILON;
/// Steps for one right-hand side, over all rounds, where nothing else limits them.
pub(super) const STEPS: usize = 1_500;
/// Corrections of a solution by the solution for its residual.
const ROUNDS: usize = 12;
/// By how much a round shall shrink the residual.
const ROUND: f64 = 1e-6;
/// Sweeps, to and fro, that find the height of every value.
const FIRST: usize = 20;
/// Sweeps after which a value that is still 0 is too far from everything that is earned.
const LAST: usize = 400;

/// The system `x = P x + b`, and a factor.
pub(super) struct Gradients {
    shares: Shares,
    /// The incomplete factors of I - P, in the places of P.
    factors: Vec<f64>,
    /// One over the diagonal of the upper factor.
    diagonal: Vec<f64>,
}

impl Gradients {
    /// Bytes that so many states and transitions take while they are solved for, beside the entries of P: the factors, and twenty
    /// vectors.
    pub(super) fn bytes(states: usize, transitions: usize) -> u64 {
        (states as u64) * (8 * 20) + (transitions as u64) * 8
    }

    /// The shares as they were where no factor was found.
    pub(super) fn new(shares: Shares) -> Result<Gradients, Shares> {
        let mut made = Gradients {
            shares,
            factors: Vec::new(),
            diagonal: Vec::new(),
        };
        if made.factorise() {
            Ok(made)
        } else {
            Err(made.shares)
        }
    }

    pub(super) fn into_shares(self) -> Shares {
        self.shares
    }

    /// The incomplete factors: elimination that keeps only what falls on an entry of P.
    fn factorise(&mut self) -> bool {
        let (size, shares) = (self.shares.size(), &self.shares);
        self.factors = shares.values.iter().map(|share| -share).collect();
        self.diagonal = vec![1.0; size];
        let mut seat = vec![usize::MAX; size];
        for i in 0..size {
            let range = shares.starts[i]..shares.starts[i + 1];
            for at in range.clone() {
                seat[shares.columns[at] as usize] = at;
            }
            let mut own = 1.0;
            for at in range.clone() {
                let k = shares.columns[at] as usize;
                if k > i {
                    break;
                }
                let factor = self.factors[at] * self.diagonal[k];
                self.factors[at] = factor;
                for other in shares.starts[k]..shares.starts[k + 1] {
                    let j = shares.columns[other] as usize;
                    if j == i {
                        own -= factor * self.factors[other];
                    } else if j > k && seat[j] != usize::MAX {
                        self.factors[seat[j]] -= factor * self.factors[other];
                    }
                }
            }
            for at in range {
                seat[shares.columns[at] as usize] = usize::MAX;
            }
            if own.is_nan() || own <= 0.0 {
                return false;
            }
            self.diagonal[i] = 1.0 / own;
        }
        true
    }

    /// The solution of `x = P x + b` for `b` without a negative entry, where its digits could be proven: in every state, or where the
    /// solution is only wanted for sums over it, in each of `sums`. At most so many steps may be spent before it is near, and three times
    /// as many after that.
    pub(super) fn answer(&self, b: &[f64], most: usize, sums: &[Vec<f64>]) -> Option<Vec<f64>> {
        if b.iter().any(|b| *b < 0.0) {
            return None;
        }
        if b.iter().all(|b| *b == 0.0) {
            return Some(vec![0.0; b.len()]);
        }
        self.answer_from(self.first(b)?, b, most, sums)
    }

    /// The same from `x`, which is above 0 in every state, for a `b` that is nowhere below 0 and somewhere above.
    pub(super) fn answer_from(
        &self,
        x: Vec<f64>,
        b: &[f64],
        most: usize,
        sums: &[Vec<f64>],
    ) -> Option<Vec<f64>> {
        let x = self.near(x, b, most)?;
        let mut steps = 3 * most;
        let (x, _) = self.refine(b, x, ROUND, &mut steps)?;
        // What a residual of the height of x in every state adds up to: the v of the proof, a tenth is close enough.
        let (v, _) = self.refine(&x, self.first(&x)?, 0.1, &mut steps)?;
        // Where not even the last digit would do, the rest is not worth its steps; and no more digits are sought than will do.
        let reach = self.shares.reach(&v, &x, sums)?;
        if reach * LAST_DIGIT > ACCEPTED {
            return None;
        }
        let (x, residual) = self.refine(b, x, ACCEPTED / reach / 2.0, &mut steps)?;
        (self.shares.reach(&v, &x, sums)? * residual <= ACCEPTED).then_some(x)
    }

    /// A solution with about the right height in every state. Sweeps alone may leave states that are far from all that is earned lower by
    /// orders of magnitude, and lengths measured in parts of such heights lead astray: so the first lengths are the plain ones.
    fn near(&self, mut x: Vec<f64>, b: &[f64], most: usize) -> Option<Vec<f64>> {
        let mut r = vec![0.0; b.len()];
        self.shares.residual(b, &x, &mut r);
        let mut steps = most;
        let change = self.gradients(&r, vec![1.0; b.len()], 0.0, &mut steps);
        if steps == 0 {
            return None;
        }
        add_positive(&mut x, &change);
        // What the plain lengths do not see follows from its neighbours.
        for round in 0..4 {
            self.shares.sweep(b, &mut x, round % 2 == 1);
        }
        Some(x)
    }

    /// A better solution than `x`, and the largest part that its residual, with rounding, has of it (while it is wanted to the last
    /// digits) or of `b` (while a rough one will do, and `b` has no zeros).
    fn refine(&self, b: &[f64], mut x: Vec<f64>, wanted: f64, steps: &mut usize) -> Option<(Vec<f64>, f64)> {
        let rough = wanted > ROUND;
        let mut r = vec![0.0; b.len()];
        let mut best = (Vec::new(), f64::INFINITY);
        for _ in 0..ROUNDS {
            let scale: Vec<f64> = match rough {
                true => b.to_vec(),
                false => x.clone(),
            };
            let size = self.shares.distance(b, &x, &scale, &mut r);
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
            let change = self.gradients(&r, scale, wanted / 2.0, steps);
            add_positive(&mut x, &change);
            self.shares.sweep(b, &mut x, true);
        }
        best.1.is_finite().then_some(best)
    }

    /// Values of the right height: sweeps from 0 rise to the solution, and each state that earns something at last is above 0.
    fn first(&self, b: &[f64]) -> Option<Vec<f64>> {
        let mut x = vec![0.0; b.len()];
        for round in 0..LAST {
            self.shares.sweep(b, &mut x, round % 2 == 0);
            if round >= FIRST && x.iter().all(|x| *x > 0.0) {
                return Some(x);
            }
        }
        None
    }

    /// Undoes the incomplete factors.
    fn precondition(&self, from: &[f64], to: &mut [f64]) {
        let (size, shares) = (from.len(), &self.shares);
        let row = |i: usize| {
            let range = shares.starts[i]..shares.starts[i + 1];
            shares.columns[range.clone()].iter().zip(&self.factors[range])
        };
        for i in 0..size {
            let mut value = from[i];
            for (k, factor) in row(i) {
                let k = *k as usize;
                if k > i {
                    break;
                }
                value -= factor * to[k];
            }
            to[i] = value;
        }
        for i in (0..size).rev() {
            let mut value = to[i];
            for (j, factor) in row(i).rev() {
                let j = *j as usize;
                if j < i {
                    break;
                }
                value -= factor * to[j];
            }
            to[i] = value * self.diagonal[i];
        }
    }

    /// `to = A x`, and `seen` of each of its values.
    fn apply(&self, x: &[f64], to: &mut [f64], mut seen: impl FnMut(usize, f64)) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = x[i] - self.shares.spread(i, x);
            seen(i, *to);
        }
    }

    /// Biconjugate gradients, stabilised, for `A d = r`, until little of the residual is left or its length will do. Lengths are measured
    /// in parts of `scale`, so that a state with a value of 1e-12 is as near to its digits as one with 1.
    fn gradients(&self, residual: &[f64], scale: Vec<f64>, will_do: f64, steps: &mut usize) -> Vec<f64> {
        let size = residual.len();
        let mut weights = scale;
        for weight in &mut weights {
            *weight = 1.0 / (*weight * *weight);
        }
        let mut r = residual.to_vec();
        // The shadow is only met in sums, with its weights.
        let shadow: Vec<f64> = r.iter().zip(&weights).map(|(r, w)| r * w).collect();
        let mut next: f64 = r.iter().zip(&shadow).map(|(r, shadow)| r * shadow).sum();
        let goal = f64::max(next * ROUND * ROUND, will_do * will_do);
        let (mut found, mut p, mut v) = (vec![0.0; size], vec![0.0; size], vec![0.0; size]);
        let (mut ready, mut t) = (vec![0.0; size], vec![0.0; size]);
        let (mut rho, mut alpha, mut omega) = (1.0, 1.0, 1.0);
        while *steps > 0 {
            *steps -= 1;
            let beta = next / rho * (alpha / omega);
            rho = next;
            for i in 0..size {
                p[i] = r[i] + beta * (p[i] - omega * v[i]);
            }
            self.precondition(&p, &mut ready);
            let mut along = 0.0;
            self.apply(&ready, &mut v, |i, v| along += shadow[i] * v);
            alpha = rho / along;
            if !alpha.is_finite() {
                break;
            }
            for i in 0..size {
                found[i] += alpha * ready[i];
                r[i] -= alpha * v[i];
            }
            self.precondition(&r, &mut ready);
            let (mut along, mut length) = (0.0, 0.0);
            self.apply(&ready, &mut t, |i, t| {
                let weighted = weights[i] * t;
                along += weighted * r[i];
                length += weighted * t;
            });
            omega = along / length;
            if !omega.is_finite() || omega == 0.0 {
                break;
            }
            let mut left = 0.0;
            next = 0.0;
            for i in 0..size {
                found[i] += omega * ready[i];
                r[i] -= omega * t[i];
                left += weights[i] * r[i] * r[i];
                next += shadow[i] * r[i];
            }
            if left <= goal || !left.is_finite() {
                break;
            }
        }
        found
    }
}

/// Adds a change where the value stays above 0.
fn add_positive(x: &mut [f64], change: &[f64]) {
    for (x, change) in x.iter_mut().zip(change) {
        let value = *x + change;
        if value > 0.0 {
            *x = value;
        }
    }
}
