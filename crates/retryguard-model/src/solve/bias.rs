//! The long-run average of a large closed component, by the bias of its states.
//!
//! The average g and the bias h of the states solve the Poisson equation r + Q h = g. For any h, the average lies between the least and
//! the largest of r + Q h, because the stationary distribution weighs Q h to 0 (Odoni 1969). So an approximate h encloses g, and the
//! proof costs one look at every transition. Unlike the stationary distribution, whose values may be too small for a double, h has
//! about the same height everywhere.
//!
//! h is determined up to a constant. The constant is chosen so that g is a multiple of h at home, a likely state. The system then is
//! (-Q + γ 1 eᵀ) h = r, with e the unit vector of home, and g = γ h(home).

use super::incomplete::Incomplete;
use super::order::{likely, towards};
use super::shares::ACCEPTED;
use crate::chain::Chain;

/// Steps of biconjugate gradients for a component that is too large for anything else.
pub(super) const STEPS: usize = 2_000;
/// Corrections of a solution by the solution for its residual.
const ROUNDS: usize = 12;
/// By how much a round shall shrink the residual.
const ROUND: f64 = 1e-6;
/// Steps without a better solution after which a round ends.
const PATIENCE: usize = 200;

/// Bytes for a component of so many of the states: the transitions with their factors, a dozen vectors, and the order of the states.
pub(super) fn bytes(states: usize, size: usize, transitions: usize) -> u64 {
    Incomplete::bytes(size, transitions) + (size as u64) * (8 * 9 + 4) + (states as u64) * 16
}

/// The long-run average of `values` in a closed component of at least two states, with at most so many steps. `None` where the digits
/// were not proven.
pub(super) fn average(chain: &Chain, component: &[u32], values: &[f64], steps: usize) -> Option<f64> {
    let states = towards(chain, component, likely(chain, component[0]));
    let wanted: Vec<f64> = states.iter().map(|s| values[*s as usize]).collect();
    Poisson::new(Incomplete::new(chain, &states)).average(&wanted, steps)
}

/// The Poisson equation with home, the last state, as above.
struct Poisson {
    rates: Incomplete,
    /// γ.
    pin: f64,
    /// What the incomplete factors make of a vector of ones.
    ones: Vec<f64>,
}

impl Poisson {
    fn new(rates: Incomplete) -> Poisson {
        let mut ones = vec![0.0; rates.size()];
        rates.undo(&vec![1.0; rates.size()], &mut ones);
        Poisson {
            pin: rates.leaving[rates.size() - 1],
            ones,
            rates,
        }
    }

    fn average(&self, wanted: &[f64], mut steps: usize) -> Option<f64> {
        let mut h = vec![0.0; wanted.len()];
        let mut residual = vec![0.0; wanted.len()];
        let mut width = f64::INFINITY;
        for _ in 0..ROUNDS {
            let (low, high) = self.enclosure(wanted, &h, &mut residual)?;
            let pinned = self.pin * h[wanted.len() - 1];
            let average = if low <= pinned && pinned <= high {
                pinned
            } else {
                low + (high - low) / 2.0
            };
            if f64::max(high - average, average - low) <= ACCEPTED * average.abs() {
                return Some(average);
            }
            if high - low > width / 2.0 || steps == 0 {
                return None;
            }
            width = high - low;
            for residual in &mut residual {
                *residual -= pinned;
            }
            self.round(&mut h, &mut residual, &mut steps);
        }
        None
    }

    /// The least and the largest of r + Q h, with room for rounding. `found` gets the values without it.
    fn enclosure(&self, wanted: &[f64], h: &[f64], found: &mut [f64]) -> Option<(f64, f64)> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (i, found) in found.iter_mut().enumerate() {
            let (mut sum, mut size) = (0.0, wanted[i].abs());
            let mut terms = 4.0;
            for (to, rate) in self.rates.row(i) {
                let flow = rate * (h[to] - h[i]);
                sum += flow;
                size += flow.abs();
                terms += 1.0;
            }
            *found = wanted[i] + sum;
            let noise = terms * f64::EPSILON * size;
            // Also false for what is not a number.
            if !(noise.is_finite() && found.is_finite()) {
                return None;
            }
            low = f64::min(low, *found - noise);
            high = f64::max(high, *found + noise);
        }
        Some((low, high))
    }

    /// The product with the matrix.
    fn apply(&self, x: &[f64], to: &mut [f64]) {
        let pinned = self.pin * x[x.len() - 1];
        for (i, to) in to.iter_mut().enumerate() {
            let flows = self.rates.row(i).map(|(other, rate)| rate * (x[i] - x[other]));
            *to = pinned + flows.sum::<f64>();
        }
    }

    /// Undoes about the same matrix: the incomplete factors of -Q with the correction for γ 1 eᵀ of Sherman and Morrison.
    fn undo(&self, from: &[f64], to: &mut [f64]) {
        self.rates.undo(from, to);
        let home = to.len() - 1;
        let shift = self.pin * to[home] / (1.0 + self.pin * self.ones[home]);
        for (to, ones) in to.iter_mut().zip(&self.ones) {
            *to -= shift * ones;
        }
    }

    /// Biconjugate gradients, stabilised, that add to `h` the solution for `r`, until little of `r` is left or its height will do.
    fn round(&self, h: &mut [f64], r: &mut [f64], steps: &mut usize) {
        let size = r.len();
        let shadow = r.to_vec();
        let mut next: f64 = r.iter().map(|r| r * r).sum();
        let goal = next * ROUND * ROUND;
        let (mut p, mut v) = (vec![0.0; size], vec![0.0; size]);
        let (mut ready, mut t) = (vec![0.0; size], vec![0.0; size]);
        let (mut rho, mut alpha, mut omega) = (1.0, 1.0, 1.0);
        let (mut best, mut since) = (f64::INFINITY, 0);
        while *steps > 0 && since < PATIENCE {
            *steps -= 1;
            since += 1;
            let beta = next / rho * (alpha / omega);
            rho = next;
            for i in 0..size {
                p[i] = r[i] + beta * (p[i] - omega * v[i]);
            }
            self.undo(&p, &mut ready);
            self.apply(&ready, &mut v);
            alpha = rho / v.iter().zip(&shadow).map(|(v, shadow)| v * shadow).sum::<f64>();
            if !alpha.is_finite() {
                break;
            }
            for i in 0..size {
                h[i] += alpha * ready[i];
                r[i] -= alpha * v[i];
            }
            self.undo(r, &mut ready);
            self.apply(&ready, &mut t);
            let (mut along, mut length) = (0.0, 0.0);
            for (t, r) in t.iter().zip(r.iter()) {
                along += t * r;
                length += t * t;
            }
            omega = along / length;
            if !omega.is_finite() || omega == 0.0 {
                break;
            }
            let (mut left, mut height) = (0.0, 0.0);
            next = 0.0;
            for i in 0..size {
                h[i] += omega * ready[i];
                r[i] -= omega * t[i];
                left += r[i] * r[i];
                next += shadow[i] * r[i];
                height = f64::max(height, r[i].abs());
            }
            if height < best / 2.0 {
                (best, since) = (height, 0);
            }
            if left <= goal || !left.is_finite() || height <= ACCEPTED / 4.0 * (self.pin * h[size - 1]).abs()
            {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chain::index;

    fn chain(rows: Vec<Vec<(usize, f64)>>) -> Chain {
        let mut made = Chain {
            rows: vec![0],
            ..Chain::default()
        };
        for row in rows {
            for (to, rate) in row {
                made.columns.push(index(to));
                made.rates.push(rate);
            }
            made.rows.push(made.columns.len());
        }
        made
    }

    /// Two groups of machines that break one by one and share one repairer, which repairs the group of which more are broken.
    fn machines(each: usize) -> Chain {
        let place = |a: usize, b: usize| a * (each + 1) + b;
        let mut rows = Vec::new();
        for a in 0..=each {
            for b in 0..=each {
                let mut row = Vec::new();
                if a < each {
                    row.push((place(a + 1, b), 0.3 * (each - a) as f64 / each as f64));
                }
                if b < each {
                    row.push((place(a, b + 1), 0.4 * (each - b) as f64 / each as f64));
                }
                if a > 0 && a >= b {
                    row.push((place(a - 1, b), 1.0));
                } else if b > 0 {
                    row.push((place(a, b - 1), 1.0));
                }
                rows.push(row);
            }
        }
        chain(rows)
    }

    /// One queue with room for `size`: the average is known.
    fn queue(size: usize, load: f64) -> (Chain, f64) {
        let mut rows = Vec::new();
        for n in 0..=size {
            let up = (n < size).then_some((n + 1, load));
            let down = n.checked_sub(1).map(|below| (below, 1.0));
            rows.push(up.into_iter().chain(down).collect());
        }
        let weights: Vec<f64> = (0..=size).map(|n| load.powf(n as f64)).collect();
        let total: f64 = weights.iter().sum();
        let mean = weights.iter().enumerate().map(|(n, w)| n as f64 * w).sum::<f64>() / total;
        (chain(rows), mean)
    }

    fn all(chain: &Chain) -> Vec<u32> {
        (0..chain.states()).map(index).collect()
    }

    proptest! {
        #[test]
        fn the_average_of_a_queue_is_found_or_refused(size in 2..400usize, load in 0.1..3.0) {
            let (chain, mean) = queue(size, load);
            let values: Vec<f64> = (0..=size).map(|n| n as f64).collect();
            if let Some(found) = average(&chain, &all(&chain), &values, STEPS) {
                prop_assert!((found - mean).abs() <= 2e-9 * mean, "{found} {mean}");
            } else {
                // Refused only where a bias of the whole queue leaves no digits for a small average.
                prop_assert!(mean < 1e-3 * size as f64, "{size} {load}");
            }
        }
    }

    /// Four times the length of a mesh, sixteen times the states: the steps grow at most by the length.
    #[test]
    fn steps_grow_no_faster_than_the_length_of_a_mesh() {
        let needed = |each: usize| {
            let chain = machines(each);
            let states = all(&chain);
            let values: Vec<f64> = states.iter().map(|s| f64::from(*s % 7)).collect();
            let enough = |steps: &usize| average(&chain, &states, &values, *steps).is_some();
            (1..=40)
                .map(|tens| tens * 10)
                .find(enough)
                .expect("400 steps are enough")
        };
        let (small, large) = (needed(50), needed(200));
        assert!(large <= 4 * small, "{small} {large}");
    }

    #[test]
    fn equal_values_need_no_step() {
        let (chain, _) = queue(10, 0.5);
        assert_eq!(average(&chain, &all(&chain), &[2.5; 11], 0), Some(2.5));
        assert_eq!(average(&chain, &all(&chain), &[0.0; 11], 0), Some(0.0));
        assert_eq!(
            average(
                &chain,
                &all(&chain),
                &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
                0
            ),
            None
        );
    }
}
