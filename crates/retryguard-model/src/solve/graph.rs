//! Questions that the graph alone answers: where a target cannot be reached, where it is reached for certain.

use super::scc::components;
use crate::chain::{Chain, Memory};
use crate::error::Error;

/// Whether there is room for the predecessors of all states and a walk over them; asked before either is made.
pub(crate) fn walk_fits(chain: &Chain) -> Result<(), Error> {
    Memory::fits(
        chain.memory,
        chain.states() as u64 * 24 + chain.columns.len() as u64 * 4,
    )
}

/// The states from which `target` can be reached through states where `through` holds (targets count).
pub(crate) fn can_reach(chain: &Chain, target: &[bool], through: impl Fn(usize) -> bool) -> Vec<bool> {
    let (starts, sources) = chain.predecessors();
    let mut reached = target.to_vec();
    let mut open: Vec<usize> = (0..chain.states()).filter(|s| target[*s]).collect();
    while let Some(state) = open.pop() {
        for source in &sources[starts[state]..starts[state + 1]] {
            let source = *source as usize;
            if !reached[source] && through(source) {
                reached[source] = true;
                open.push(source);
            }
        }
    }
    reached
}

/// The components in which one can stay for ever: those with a step within them.
pub(crate) fn cycles(chain: &Chain) -> Vec<Vec<u32>> {
    let row = |s: usize| &chain.columns[chain.rows[s]..chain.rows[s + 1]];
    let found = components(chain.states(), row, |_| true);
    let lasting = found
        .iter()
        .filter(|part| part.len() > 1 || row(part[0] as usize).contains(&part[0]));
    lasting.map(<[u32]>::to_vec).collect()
}

/// The states from which `target` is reached with probability one through states where `through` holds.
///
/// In a finite chain these are the states that cannot reach, before the target, one from which the target is out of reach.
pub(super) fn almost_surely(chain: &Chain, target: &[bool], through: impl Fn(usize) -> bool) -> Vec<bool> {
    let can = can_reach(chain, target, &through);
    let lost: Vec<bool> = can.iter().map(|can| !can).collect();
    let may_lose = can_reach(chain, &lost, |s| !target[s]);
    may_lose.iter().map(|may| !may).collect()
}
