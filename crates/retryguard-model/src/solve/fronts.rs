//! The numbers of a dissection: each node of the plan is a dense square, and hands what is left of it to the node above.

use super::dense;
use super::dissect::{Plan, plan};
use crate::chain::index;

/// States to be taken out, and the plan for it.
pub(super) struct Fronts {
    rows: Vec<Vec<(u32, f64)>>,
    /// The predecessors of each state, with their rates.
    sources: Vec<Vec<(u32, f64)>>,
    pub(super) plan: Plan,
}

/// A square of rates whose first states were taken out.
pub(super) struct Square<'s> {
    pub(super) states: &'s [u32],
    /// Rates, and in the columns of what was taken out the shares that were passed on.
    pub(super) rates: &'s [f64],
    /// One over the rate of leaving of each state that was taken out.
    pub(super) scale: &'s [f64],
}

impl Square<'_> {
    pub(super) fn size(&self) -> usize {
        self.states.len()
    }
}

impl Fronts {
    /// `rows` are rates between states, without self-loops.
    pub(super) fn new(rows: Vec<Vec<(u32, f64)>>) -> Fronts {
        let mut sources = vec![Vec::new(); rows.len()];
        for (state, row) in rows.iter().enumerate() {
            for (to, rate) in row {
                sources[*to as usize].push((index(state), *rate));
            }
        }
        let graph: Vec<Vec<u32>> = rows
            .iter()
            .zip(&sources)
            .map(|(row, sources): (_, &Vec<(u32, f64)>)| {
                let mut near: Vec<u32> = row.iter().chain(sources).map(|(s, _)| *s).collect();
                near.sort_unstable();
                near.dedup();
                near
            })
            .collect();
        Fronts {
            plan: plan(&graph),
            rows,
            sources,
        }
    }

    /// Bytes that it takes itself.
    pub(super) fn waiting(&self) -> u64 {
        let transitions: usize = self.rows.iter().map(Vec::len).sum();
        let planned: usize = self.plan.nodes.iter().map(|node| node.states.len()).sum();
        // Two lists for each state and one for each node, each with what the allocator adds. The second may have grown to twice what it
        // holds.
        let lists = 48 * (2 * self.rows.len() + self.plan.nodes.len()) as u64;
        lists + 3 * size_of::<(u32, f64)>() as u64 * transitions as u64 + 4 * planned as u64
    }

    /// Bytes that the squares and the factor take.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of bytes, which saturates"
    )]
    pub(super) fn bytes(&self) -> u64 {
        (self.plan.entries * 12.0 + self.plan.held * 8.0) as u64
    }

    /// Takes every state out and shows each square. `exit` are the rates out of the whole.
    pub(super) fn take_out(&self, exit: &mut [f64], mut show: impl FnMut(&Square<'_>)) {
        let mut seat = vec![u32::MAX; self.rows.len()];
        let mut open: Vec<(&[u32], Vec<f64>)> = Vec::new();
        for node in &self.plan.nodes {
            let (states, size) = (node.states.as_slice(), node.states.len());
            for (place, s) in states.iter().enumerate() {
                seat[*s as usize] = index(place);
            }
            let mut rates = vec![0.0; size * size];
            for (i, s) in states[..node.own].iter().enumerate() {
                for (to, rate) in &self.rows[*s as usize] {
                    if let Some(j) = place(&seat, *to) {
                        rates[i * size + j] = *rate;
                    }
                }
                for (from, rate) in &self.sources[*s as usize] {
                    if let Some(j) = place(&seat, *from) {
                        rates[j * size + i] = *rate;
                    }
                }
            }
            for (below, rest) in open.drain(open.len() - node.children..) {
                for (s, line) in below.iter().zip(rest.chunks_exact(below.len())) {
                    let own = &mut rates[seat[*s as usize] as usize * size..][..size];
                    for (to, rate) in below.iter().zip(line) {
                        own[seat[*to as usize] as usize] += rate;
                    }
                }
            }
            let mut leaving: Vec<f64> = states.iter().map(|s| exit[*s as usize]).collect();
            let scale = dense::take_out(&mut rates, size, node.own, &mut leaving);
            show(&Square {
                states,
                rates: &rates,
                scale: &scale,
            });
            for (s, leaving) in states.iter().zip(leaving) {
                exit[*s as usize] = leaving;
                seat[*s as usize] = u32::MAX;
            }
            let rest = &states[node.own..];
            let mut left = Vec::with_capacity(rest.len() * rest.len());
            for line in rates.chunks_exact(size).skip(node.own) {
                left.extend_from_slice(&line[node.own..]);
            }
            open.push((rest, left));
        }
    }
}

/// The place of a state in the square that is being filled.
fn place(seat: &[u32], state: u32) -> Option<usize> {
    match seat[state as usize] {
        u32::MAX => None,
        place => Some(place as usize),
    }
}
