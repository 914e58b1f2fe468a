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

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let outside = self.outside.len() * size_of::<(u32, u32, f64)>();
        self.factor.bytes() + (self.states.len() * size_of::<u32>() + outside) as u64
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

/// The rates within `component`, renumbered and without self-loops. They take [much memory](super::eliminate::least_bytes): ask for it
/// first.
pub(super) fn within(chain: &Chain, component: &[u32], local: &mut [u32]) -> Vec<Vec<(u32, f64)>> {
    for (place, state) in component.iter().enumerate() {
        local[*state as usize] = index(place);
    }
    let row = |state: &u32| {
        let s = *state as usize;
        let inside = |(to, _): &(usize, f64)| *to != s && local[*to] != u32::MAX;
        // Exactly as long as needed: there are as many rows as states.
        let mut row = Vec::with_capacity(chain.row(s).filter(inside).count());
        let others = chain.row(s).filter(inside);
        row.extend(others.map(|(to, rate)| (local[to], rate)));
        row
    };
    let rows = component.iter().map(row).collect();
    for state in component {
        local[*state as usize] = u32::MAX;
    }
    rows
}

/// The rates out of `component`, and those that `extra` adds.
pub(super) fn exits(
    chain: &Chain,
    component: &[u32],
    local: &mut [u32],
    extra: &impl Fn(usize) -> f64,
) -> Vec<f64> {
    for state in component {
        local[*state as usize] = 0;
    }
    let out = |state: &u32| {
        let s = *state as usize;
        let outside = chain.row(s).filter(|(to, _)| local[*to] == u32::MAX);
        extra(s) + outside.map(|(_, rate)| rate).sum::<f64>()
    };
    let found = component.iter().map(out).collect();
    for state in component {
        local[*state as usize] = u32::MAX;
    }
    found
}
