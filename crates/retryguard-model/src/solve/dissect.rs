//! An order of elimination for what is left when no cheap state is: nested dissection.
//!
//! A mesh has small separators. A graph is walked from its far ends; what lies near the middle of a walk parts it, and is taken
//! out after both halves, which are parted again. What a part leaves behind then joins only the separators around it, so that fill is
//! confined to small dense squares, and how large these are is known before a number is computed.

use crate::chain::index;

/// Parts up to this size are not parted further: a dense square of it costs less than its administration.
const LEAF: usize = 40;

/// Parts from this size on are worth the search for the best of several cuts.
const LARGE: usize = 500;
/// A cut leaves at least this part, one in so many, on either side. The second is for sets that have no such cut, because a few
/// states near everything leave only two or three layers: a small part cut off is better than one dense square of them all.
const LEAST_SHARES: [usize; 2] = [5, 50];

/// States that are taken out together, after all that stands before them in the plan.
pub(super) struct Node {
    /// Its own states, then those that they or what was taken out below them lead to or come from, in the order of elimination.
    pub(super) states: Vec<u32>,
    /// How many of `states` are its own.
    pub(super) own: usize,
    /// How many nodes before it hand their rest to it.
    pub(super) children: usize,
}

/// The nodes in the order of elimination, and what taking them out costs.
pub(super) struct Plan {
    pub(super) nodes: Vec<Node>,
    /// Multiplications.
    pub(super) work: f64,
    /// Entries of the factor.
    pub(super) entries: f64,
    /// The most numbers that are held at a time while it is made.
    pub(super) held: f64,
}

/// Plans the elimination of the states of an undirected graph.
pub(super) fn plan(graph: &[Vec<u32>]) -> Plan {
    let mut dissection = Dissection {
        graph,
        part: vec![0; graph.len()],
        level: vec![UNSEEN; graph.len()],
        parts: 0,
        nodes: Vec::new(),
    };
    dissection.cut((0..graph.len()).map(index).collect());
    let mut plan = Plan {
        nodes: dissection.nodes,
        work: 0.0,
        entries: 0.0,
        held: 0.0,
    };
    plan.find_rests(graph);
    plan
}

const UNSEEN: u32 = u32::MAX;

struct Dissection<'g> {
    graph: &'g [Vec<u32>],
    /// The part that each state is in: walks stay within one.
    part: Vec<u32>,
    /// How far each state is from where the walk began.
    level: Vec<u32>,
    parts: u32,
    nodes: Vec<Node>,
}

impl Dissection<'_> {
    /// Cuts a set of states, connected or not. Returns how many nodes hand their rest to whatever comes above.
    fn cut(&mut self, states: Vec<u32>) -> usize {
        self.parts += 1;
        let part = self.parts;
        for s in &states {
            self.part[*s as usize] = part;
            self.level[*s as usize] = UNSEEN;
        }
        let mut roots = 0;
        for s in &states {
            // What was cut before belongs to another part by now.
            if self.part[*s as usize] == part {
                let walk = self.walk(*s);
                self.cut_connected(walk);
                roots += 1;
            }
        }
        roots
    }

    /// The states of the part of `from` that can be reached from it, layer by layer.
    fn walk(&mut self, from: u32) -> Vec<u32> {
        let part = self.part[from as usize];
        self.level[from as usize] = 0;
        let mut found = vec![from];
        let mut next = 0;
        while next < found.len() {
            let s = found[next] as usize;
            next += 1;
            for to in &self.graph[s] {
                let to_place = *to as usize;
                if self.part[to_place] == part && self.level[to_place] == UNSEEN {
                    self.level[to_place] = self.level[s] + 1;
                    found.push(*to);
                }
            }
        }
        found
    }

    fn cut_connected(&mut self, walk: Vec<u32>) {
        if walk.len() > LEAF
            && let Some(cut) = self.separate(&walk)
        {
            let children = self.cut(cut.near) + self.cut(cut.far);
            self.finish(cut.middle, children);
        } else {
            self.finish(walk, 0);
        }
    }

    fn finish(&mut self, states: Vec<u32>, children: usize) {
        for s in &states {
            self.part[*s as usize] = 0;
        }
        self.nodes.push(Node {
            own: states.len(),
            states,
            children,
        });
    }

    /// How far each of `states` is from `from`, and the last that was met.
    fn distances(&mut self, states: &[u32], from: u32) -> (Vec<i32>, u32) {
        for s in states {
            self.level[*s as usize] = UNSEEN;
        }
        let walk = self.walk(from);
        let far = states
            .iter()
            .map(|s| self.level[*s as usize].cast_signed())
            .collect();
        (far, walk[walk.len() - 1])
    }

    /// Parts a connected set, by the best of several cuts where it is large.
    ///
    /// Layers around one end are curved and leave wedges. States that are as far from one end as from the other lie on a line across,
    /// and those between two further ends on a line along, so that parts stay about as long as they are wide.
    fn separate(&mut self, states: &[u32]) -> Option<Cut> {
        let (from_one, other) = self.distances(states, states[states.len() - 1]);
        if states.len() < LARGE {
            return self.cut_by(states, &from_one, LEAST_SHARES[0]);
        }
        let less = |a: &[i32], b: &[i32]| -> Vec<i32> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
        let (from_other, _) = self.distances(states, other);
        let aside = (0..states.len()).max_by_key(|place| from_one[*place].min(from_other[*place]))?;
        let (from_aside, opposite) = self.distances(states, states[aside]);
        let (from_opposite, _) = self.distances(states, opposite);
        let across = less(&from_one, &from_other);
        let along = less(&from_aside, &from_opposite);
        let heights = [from_one, across, along];
        LEAST_SHARES.iter().find_map(|share| {
            let cuts = heights
                .iter()
                .filter_map(|heights| self.cut_by(states, heights, *share));
            cuts.min_by(|a, b| a.price.total_cmp(&b.price))
        })
    }

    /// Parts states by their heights: of those above the cut, the ones that touch what is below it are the separator. The cut is where
    /// it is thinnest for the halves that it makes.
    fn cut_by(&mut self, states: &[u32], heights: &[i32], least_share: usize) -> Option<Cut> {
        let lowest = *heights.iter().min()?;
        for (s, height) in states.iter().zip(heights) {
            self.level[*s as usize] = height.abs_diff(lowest);
        }
        let count = heights.iter().max()?.abs_diff(lowest) as usize + 1;
        let part = self.part[states[0] as usize];
        // How many stand at each height, and at how many cuts a state begins and ceases to touch what is below.
        let mut standing = vec![0; count];
        let mut begin = vec![0; count + 1];
        let mut cease = vec![0; count + 1];
        let mut touched = Vec::with_capacity(states.len());
        for s in states {
            let own = self.level[*s as usize];
            let near = self.graph[*s as usize].iter();
            let lowest = near
                .filter(|to| self.part[**to as usize] == part)
                .map(|to| self.level[*to as usize])
                .fold(own, u32::min);
            standing[own as usize] += 1;
            begin[lowest as usize + 1] += 1;
            cease[own as usize + 1] += 1;
            touched.push(lowest);
        }
        let (mut below, mut middle) = (0, 0);
        let mut best: Option<(f64, usize)> = None;
        for height in 1..count {
            below += standing[height - 1];
            middle += begin[height];
            middle -= cease[height];
            let above = states.len() - below - middle;
            if below.min(above) * least_share < states.len() {
                continue;
            }
            let price = middle as f64 / (below as f64 * above as f64);
            if best.is_none_or(|(least, _)| price < least) {
                best = Some((price, height));
            }
        }
        let (price, height) = best?;
        let height = index(height);
        let mut cut = Cut {
            price,
            near: Vec::new(),
            middle: Vec::new(),
            far: Vec::new(),
        };
        for (s, lowest) in states.iter().zip(touched) {
            let side = if self.level[*s as usize] < height {
                &mut cut.near
            } else if lowest < height {
                &mut cut.middle
            } else {
                &mut cut.far
            };
            side.push(*s);
        }
        Some(cut)
    }
}

/// Two halves of a part, and what lies between them.
struct Cut {
    /// The lower, the better.
    price: f64,
    near: Vec<u32>,
    middle: Vec<u32>,
    far: Vec<u32>,
}

impl Plan {
    /// Entries on one side of the factor, at the most.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that was weighed against the memory there is"
    )]
    pub(super) fn entries(&self) -> usize {
        (self.entries / 2.0) as usize
    }

    /// Adds to each node the states around it, and counts what it all costs.
    fn find_rests(&mut self, graph: &[Vec<u32>]) {
        let mut place = vec![0u32; graph.len()];
        let mut next = 0;
        for node in &self.nodes {
            for s in &node.states {
                place[*s as usize] = next;
                next += 1;
            }
        }
        let mut seen = vec![UNSEEN; graph.len()];
        let mut open: Vec<Vec<u32>> = Vec::new();
        let (mut end, mut stacked) = (0, 0.0);
        for (number, node) in self.nodes.iter_mut().enumerate() {
            end += index(node.own);
            let number = index(number);
            let mut rest: Vec<u32> = Vec::new();
            let mut meet = |s: u32| {
                if place[s as usize] >= end && seen[s as usize] != number {
                    seen[s as usize] = number;
                    rest.push(s);
                }
            };
            for s in &node.states {
                graph[*s as usize].iter().copied().for_each(&mut meet);
            }
            let below = open.split_off(open.len() - node.children);
            below.iter().flatten().copied().for_each(&mut meet);
            rest.sort_unstable_by_key(|s| place[*s as usize]);
            let size = (node.own + rest.len()) as f64;
            self.held = self
                .held
                .max(stacked + size * size + (rest.len() * rest.len()) as f64);
            stacked -= below
                .iter()
                .map(|rest| (rest.len() * rest.len()) as f64)
                .sum::<f64>();
            stacked += (rest.len() * rest.len()) as f64;
            for k in 1..=node.own {
                let left = size - k as f64;
                self.work += left * left;
                self.entries += 2.0 * left;
            }
            node.states.extend_from_slice(&rest);
            open.push(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(side: usize) -> Vec<Vec<u32>> {
        (0..side * side)
            .map(|s| {
                let (x, y) = (s % side, s / side);
                let mut near = Vec::new();
                if x > 0 {
                    near.push(index(s - 1));
                }
                if x + 1 < side {
                    near.push(index(s + 1));
                }
                if y > 0 {
                    near.push(index(s - side));
                }
                if y + 1 < side {
                    near.push(index(s + side));
                }
                near
            })
            .collect()
    }

    #[test]
    fn every_state_is_taken_out_once_and_before_its_rest() {
        // Two grids that nothing joins, one of them behind the other in the numbering.
        let mut graph = grid(30);
        let more = grid(9);
        let first = graph.len();
        graph.extend(
            more.into_iter()
                .map(|row| row.into_iter().map(|s| s + index(first)).collect()),
        );
        let plan = plan(&graph);
        let mut gone = vec![false; graph.len()];
        for node in &plan.nodes {
            for s in &node.states[..node.own] {
                assert!(!std::mem::replace(&mut gone[*s as usize], true));
            }
            for s in &node.states[..node.own] {
                for to in &graph[*s as usize] {
                    assert!(gone[*to as usize] || node.states[node.own..].contains(to));
                }
            }
            assert!(node.states[node.own..].iter().all(|s| !gone[*s as usize]));
        }
        assert!(gone.iter().all(|gone| *gone));
    }

    #[test]
    fn a_grid_costs_far_less_than_a_dense_matrix() {
        let side = 60;
        let plan = plan(&grid(side));
        let dense = ((side * side) as f64).powi(3) / 3.0;
        assert!(plan.work < dense / 1000.0, "{} of {dense}", plan.work);
    }
}
