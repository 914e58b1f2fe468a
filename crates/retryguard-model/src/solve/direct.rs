//! One component of a chain that is solved by elimination.

use super::eliminate::Factor;
use super::lane::Lane;
use crate::chain::{Chain, index};

/// A component that was eliminated.
pub(super) struct Direct {
    states: Vec<u32>,
    factor: Factor,
    /// The transitions out of the component, to values known by then, by the place of their source.
    outside: Vec<(u32, u32, f64)>,
}

impl Direct {
    pub(super) fn new(chain: &Chain, states: &[u32], factor: Factor, local: &mut [u32]) -> Direct {
        Direct {
            states: states.to_vec(),
            factor,
            outside: outside(chain, states, local),
        }
    }

    pub(super) fn solve<L: Lane>(&self, x: &mut [L], scratch: &mut Vec<L>) {
        scratch.clear();
        scratch.extend(self.states.iter().map(|s| x[*s as usize]));
        for (place, to, rate) in &self.outside {
            scratch[*place as usize].add_scaled(*rate, x[*to as usize]);
        }
        self.factor.solve(scratch);
        for (s, value) in self.states.iter().zip(scratch) {
            x[*s as usize] = *value;
        }
    }
}

/// The transitions out of `component`, by the place of their source in it.
fn outside(chain: &Chain, component: &[u32], local: &mut [u32]) -> Vec<(u32, u32, f64)> {
    for state in component {
        local[*state as usize] = 0;
    }
    let mut found = Vec::new();
    for (place, state) in component.iter().enumerate() {
        for (to, rate) in chain.row(*state as usize) {
            if local[to] == u32::MAX {
                found.push((index(place), index(to), rate));
            }
        }
    }
    for state in component {
        local[*state as usize] = u32::MAX;
    }
    found
}

/// The rates within `component`, renumbered, and the rates out of it.
pub(super) fn within(
    chain: &Chain,
    component: &[u32],
    local: &mut [u32],
    extra: &impl Fn(usize) -> f64,
) -> (Vec<Vec<(u32, f64)>>, Vec<f64>) {
    for (place, state) in component.iter().enumerate() {
        local[*state as usize] = index(place);
    }
    let mut rows = Vec::with_capacity(component.len());
    let mut exit = Vec::with_capacity(component.len());
    for state in component {
        let s = *state as usize;
        let mut row = Vec::new();
        let mut out = extra(s);
        for (to, rate) in chain.row(s) {
            if to == s {
                continue;
            }
            match local[to] {
                u32::MAX => out += rate,
                place => row.push((place, rate)),
            }
        }
        rows.push(row);
        exit.push(out);
    }
    for state in component {
        local[*state as usize] = u32::MAX;
    }
    (rows, exit)
}
