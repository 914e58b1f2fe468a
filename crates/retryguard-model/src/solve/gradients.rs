//! Biconjugate gradients with an incomplete factor, and a proof of the digits.
//!
//! Sweeps creep where a target is rare, because each one carries news by a step; a Krylov method finds the few slow modes at once. But a
//! small residual is no small error, and least of all in a stiff chain. So nothing is believed that is not proven: the matrix is an
//! M-matrix, thus A v >= |r| gives |error| <= v in every state. Such a v comes from a second system, is checked with room for rounding, and
//! where the bound is not good enough there is no answer.

/// The proven relative error, in every state, of what is handed out.
pub(super) const ACCEPTED: f64 = 1e-9;
/// The least residual, in parts of the value, that rounding lets anyone prove.
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

/// The system `x = P x + b` with a P that has no negative entry.
pub(super) struct Gradients {
    starts: Vec<usize>,
    columns: Vec<u32>,
    /// The entries of P.
    shares: Vec<f64>,
    /// The incomplete factors of I - P, in the places of P.
    factors: Vec<f64>,
    /// One over the diagonal of the upper factor.
    diagonal: Vec<f64>,
}

impl Gradients {
    /// Bytes that so many states and transitions take while they are solved for.
    pub(super) fn bytes(states: usize, transitions: usize) -> u64 {
        (states as u64) * (4 + 8 * 16) + (transitions as u64) * 20
    }

    /// Makes P ready row by row; each row is sorted here. `None` where no factor was found.
    pub(super) fn new<'r>(rows: impl Iterator<Item = &'r mut Vec<(u32, f64)>>) -> Option<Gradients> {
        let (mut starts, mut columns, mut shares) = (vec![0], Vec::new(), Vec::new());
        for row in rows {
            row.sort_unstable_by_key(|(to, _)| *to);
            let start = columns.len();
            for (to, share) in row.iter() {
                if columns.len() > start && columns.last() == Some(to) {
                    *shares.last_mut().expect("as many shares as columns") += share;
                } else {
                    columns.push(*to);
                    shares.push(*share);
                }
            }
            starts.push(columns.len());
        }
        let mut made = Gradients {
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
        let size = self.starts.len() - 1;
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

    /// The solution of `x = P x + b` for `b` without a negative entry, where its digits could be proven with at most so many steps.
    pub(super) fn answer(&self, b: &[f64], most: usize) -> Option<Vec<f64>> {
        if b.iter().any(|b| *b < 0.0) {
            return None;
        }
        if b.iter().all(|b| *b == 0.0) {
            return Some(vec![0.0; b.len()]);
        }
        let mut steps = most;
        let (x, _) = self.refine(b, self.first(b)?, ROUND, &mut steps)?;
        // What a value of the height of x in every state adds up to: the v of the proof, a tenth is close enough.
        let (v, _) = self.refine(&x, self.first(&x)?, 0.1, &mut steps)?;
        // Where not even the last digit would do, the rest is not worth its steps.
        if self.reach(&v, &x)? * LAST_DIGIT > ACCEPTED {
            return None;
        }
        let (x, residual) = self.refine(b, x, f64::EPSILON, &mut steps)?;
        (self.reach(&v, &x)? * residual <= ACCEPTED).then_some(x)
    }

    /// By how much a residual that is everywhere the same part of `x` may have changed `x`, for each unit of it: with A v >= c x and a
    /// residual of at most ρ x, no error is above ρ v / c.
    fn reach(&self, v: &[f64], x: &[f64]) -> Option<f64> {
        let mut negative = vec![0.0; v.len()];
        let noise = self.residual(&vec![0.0; v.len()], v, &mut negative);
        let least = negative
            .iter()
            .zip(&noise)
            .zip(x)
            .map(|((negative, noise), x)| (-negative - noise) / x)
            .fold(f64::INFINITY, f64::min);
        let most = v.iter().zip(x).map(|(v, x)| v / x).fold(0.0, f64::max);
        (least > 0.0).then_some(most / least)
    }

    /// A better solution than `x`, and the largest part that its residual, with rounding, has of it (while it is wanted to the last
    /// digits) or of `b` (while a rough one will do, and `b` has no zeros).
    fn refine(&self, b: &[f64], mut x: Vec<f64>, wanted: f64, steps: &mut usize) -> Option<(Vec<f64>, f64)> {
        let rough = wanted > ROUND;
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
