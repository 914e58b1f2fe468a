//! Strongly connected components, by Tarjan's algorithm without recursion.

use crate::chain::index;

/// Components in the order in which they are complete: every component stands after those it leads to.
pub(super) struct Components {
    /// States, component after component, and within one in the order in which they were found: neighbours stand near each other.
    pub(super) states: Vec<u32>,
    /// Where each component starts in `states`, and the end.
    pub(super) starts: Vec<u32>,
}

impl Components {
    /// The most bytes that the search takes for each state, what it returns included.
    pub(super) const BYTES: u64 = 32;

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &[u32]> {
        self.starts
            .windows(2)
            .map(|pair| &self.states[pair[0] as usize..pair[1] as usize])
    }
}

const UNSEEN: u32 = u32::MAX;
/// The order of a state whose component is complete: later than that of every state that is still open.
const DONE: u32 = u32::MAX - 1;

/// The components of the graph on `0..count` with `row(s)` the successors of `s`, of which those count that `inside` has.
pub(super) fn components<'r>(
    count: usize,
    row: impl Fn(usize) -> &'r [u32],
    inside: impl Fn(usize) -> bool,
) -> Components {
    let mut order = vec![UNSEEN; count];
    let mut low = vec![0u32; count];
    let mut open: Vec<u32> = Vec::new();
    // The states on the path, each with the place in its row at which the search goes on.
    let mut path: Vec<(u32, u32)> = Vec::new();
    let mut next = 0u32;
    let mut found = Components {
        states: Vec::with_capacity(count),
        starts: vec![0],
    };
    for root in 0..count {
        if order[root] != UNSEEN {
            continue;
        }
        let mut entered = Some(root);
        loop {
            if let Some(state) = entered.take() {
                order[state] = next;
                low[state] = next;
                next += 1;
                open.push(index(state));
                path.push((index(state), 0));
            }
            let Some((state, place)) = path.last_mut() else {
                break;
            };
            let here = *state as usize;
            match row(here).get(*place as usize) {
                Some(to) => {
                    *place += 1;
                    let to = *to as usize;
                    if !inside(to) {
                        continue;
                    }
                    match order[to] {
                        UNSEEN => entered = Some(to),
                        order => low[here] = low[here].min(order),
                    }
                }
                None => {
                    path.pop();
                    if let Some((parent, _)) = path.last() {
                        let parent = *parent as usize;
                        low[parent] = low[parent].min(low[here]);
                    }
                    if low[here] == order[here] {
                        let start = found.states.len();
                        while let Some(member) = open.pop() {
                            order[member as usize] = DONE;
                            found.states.push(member);
                            if member as usize == here {
                                break;
                            }
                        }
                        found.states[start..].sort_unstable();
                        found.starts.push(index(found.states.len()));
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_stand_after_what_they_lead_to() {
        let rows: Vec<Vec<u32>> = vec![vec![1], vec![2], vec![0, 3], vec![4], vec![3], vec![0]];
        let listed = |inside: &dyn Fn(usize) -> bool| -> Vec<Vec<u32>> {
            let found = components(6, |s| &rows[s], inside);
            found.iter().map(<[u32]>::to_vec).collect()
        };
        assert_eq!(listed(&|_| true), [vec![3, 4], vec![0, 1, 2], vec![5]]);
        // Without the way back to 0 the ring is none.
        assert_eq!(
            listed(&|s| s != 0),
            [vec![3, 4], vec![2], vec![1], vec![0], vec![5]]
        );
    }
}
