//! Components whose elimination would cost too much, given to [biconjugate gradients](super::gradients).

use super::gradients::Gradients;
use crate::chain::{Chain, index};

/// A component made ready: `x = P x + b / leaving` over its states.
pub(super) struct Krylov {
    states: Vec<u32>,
    leaving: Vec<f64>,
    gradients: Gradients,
}

impl Krylov {
    /// `leaving` are the rates of leaving of `states`, in their order. `None` where no factor was found.
    pub(super) fn new(chain: &Chain, states: &[u32], leaving: &[f64], local: &mut [u32]) -> Option<Krylov> {
        for (place, state) in states.iter().enumerate() {
            local[*state as usize] = index(place);
        }
        let mut rows: Vec<Vec<(u32, f64)>> = states
            .iter()
            .zip(leaving)
            .map(|(state, leaving)| {
                chain
                    .row(*state as usize)
                    .filter(|(to, _)| *to != *state as usize && local[*to] != u32::MAX)
                    .map(|(to, rate)| (local[to], rate / leaving))
                    .collect()
            })
            .collect();
        for state in states {
            local[*state as usize] = u32::MAX;
        }
        let gradients = Gradients::new(rows.iter_mut())?;
        Some(Krylov {
            states: states.to_vec(),
            leaving: leaving.to_vec(),
            gradients,
        })
    }

    /// Solves in place for the component with at most so many steps, or leaves `x` as it was: `x` holds the right-hand side there, and known values elsewhere.
    pub(super) fn solve(&self, chain: &Chain, x: &mut [f64], steps: usize) -> bool {
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
        let Some(found) = self.gradients.answer(&b, steps) else {
            return false;
        };
        for (s, value) in self.states.iter().zip(found) {
            x[*s as usize] = value;
        }
        true
    }
}

#[cfg(test)]
mod tests;
