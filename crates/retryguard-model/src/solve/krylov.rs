//! Components whose elimination would cost too much, given to [biconjugate gradients](super::gradients).

use super::gradients::Gradients;
use super::shares::Shares;
use crate::chain::Chain;

/// A component made ready: `x = P x + b / leaving` over its states.
pub(super) struct Krylov {
    states: Vec<u32>,
    leaving: Vec<f64>,
    gradients: Gradients,
}

impl Krylov {
    /// `leaving` are the rates of leaving of `states`, in their order. `None` where no factor was found.
    pub(super) fn new(chain: &Chain, states: &[u32], leaving: &[f64], local: &mut [u32]) -> Option<Krylov> {
        Krylov::of(Shares::within(chain, states, leaving, local), states, leaving)
    }

    /// The same with the component's shares.
    pub(super) fn of(shares: Shares, states: &[u32], leaving: &[f64]) -> Option<Krylov> {
        let gradients = Gradients::new(shares).ok()?;
        Some(Krylov {
            states: states.to_vec(),
            leaving: leaving.to_vec(),
            gradients,
        })
    }

    /// Solves in place for the component with at most so many steps, or leaves `x` as it was: `x` holds the right-hand side there, and known values elsewhere.
    pub(super) fn solve(&self, chain: &Chain, x: &mut [f64], steps: usize) -> bool {
        let b = right_side(chain, &self.states, &self.leaving, x);
        let Some(found) = self.gradients.answer(&b, steps, &[]) else {
            return false;
        };
        for (s, value) in self.states.iter().zip(found) {
            x[*s as usize] = value;
        }
        true
    }
}

/// What the states of a component have of `b / leaving` where `x` holds the right-hand side in it and known values elsewhere.
pub(super) fn right_side(chain: &Chain, states: &[u32], leaving: &[f64], x: &[f64]) -> Vec<f64> {
    let mut own = vec![false; x.len()];
    for s in states {
        own[*s as usize] = true;
    }
    states
        .iter()
        .zip(leaving)
        .map(|(s, leaving)| {
            let outside = chain.row(*s as usize).filter(|(to, _)| !own[*to]);
            (x[*s as usize] + outside.map(|(to, rate)| rate * x[to]).sum::<f64>()) / leaving
        })
        .collect()
}

#[cfg(test)]
mod tests;
