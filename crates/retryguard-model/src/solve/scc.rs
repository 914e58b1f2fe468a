//! Strongly connected components, by Tarjan's algorithm without recursion.

use crate::chain::index;

/// Components in the order in which they are complete: every component stands after those it leads to.
pub(super) struct Components {
    /// States, component after component, and within one in the order in which they were found: neighbours stand near each other.
    pub(super) states: Vec<u32>,
    /// Where each component starts in `states`, and the end.
    pub(super) starts: Vec<usize>,
}

impl Components {
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &[u32]> {
        self.starts.windows(2).map(|pair| &self.states[pair[0]..pair[1]])
    }
}

const UNSEEN: u32 = u32::MAX;

/// The components of the graph on `0..count` with `row(s)` the successors of `s`.
pub(super) fn components<'a, R>(count: usize, row: impl Fn(usize) -> R) -> Components
where
    R: Iterator<Item = usize> + 'a,
{
    let mut order = vec![UNSEEN; count];
    let mut low = vec![0u32; count];
    let mut done = vec![false; count];
    let mut open: Vec<u32> = Vec::new();
    let mut calls: Vec<(u32, R)> = Vec::new();
    let mut next = 0u32;
    let mut found = Components {
        states: Vec::with_capacity(count),
        starts: vec![0],
    };
    for root in 0..count {
        if order[root] != UNSEEN {
            continue;
        }
        let mut enter = |state: usize, calls: &mut Vec<(u32, R)>, open: &mut Vec<u32>, low: &mut [u32]| {
            order[state] = next;
            low[state] = next;
            next += 1;
            open.push(index(state));
            calls.push((index(state), row(state)));
        };
        enter(root, &mut calls, &mut open, &mut low);
        while let Some((state, rest)) = calls.last_mut() {
            let here = *state as usize;
            match rest.next() {
                Some(to) if order[to] == UNSEEN => {
                    order[to] = next;
                    low[to] = next;
                    next += 1;
                    open.push(index(to));
                    calls.push((index(to), row(to)));
                }
                Some(to) => {
                    if !done[to] {
                        low[here] = low[here].min(order[to]);
                    }
                }
                None => {
                    calls.pop();
                    if let Some((parent, _)) = calls.last() {
                        let parent = *parent as usize;
                        low[parent] = low[parent].min(low[here]);
                    }
                    if low[here] == order[here] {
                        let start = found.states.len();
                        while let Some(member) = open.pop() {
                            done[member as usize] = true;
                            found.states.push(member);
                            if member as usize == here {
                                break;
                            }
                        }
                        found.states[start..].sort_unstable();
                        found.starts.push(found.states.len());
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
        let rows: Vec<Vec<usize>> = vec![vec![1], vec![2], vec![0, 3], vec![4], vec![3], vec![0]];
        let found = components(6, |s| rows[s].clone().into_iter());
        let listed: Vec<Vec<u32>> = found.iter().map(<[u32]>::to_vec).collect();
        assert_eq!(listed, [vec![3, 4], vec![0, 1, 2], vec![5]]);
    }
}
