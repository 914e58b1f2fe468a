//! A chain watched at the ticks of one fast clock, laid out for thousands of steps over it.
//!
//! A step is bound by memory and by branches that are guessed wrong, not by its multiplications. So states stand in the order of how many
//! transitions they have, and as many rows as there are lanes are summed abreast, without a branch between them; states that keep their
//! value stand behind all others and are not looked at.

use crate::chain::{Chain, Memory, index};
use crate::error::Error;

/// Rows that are summed abreast.
const LANES: usize = 4;

/// The matrix of one tick.
pub(super) struct Ticks {
    /// Ticks in a unit of time; 0 where nothing moves.
    pub(super) clock: f64,
    /// The place of each state in the vectors.
    place: Vec<u32>,
    /// Places, some of which may be empty so that the moving ones fill all lanes.
    places: usize,
    /// The part of the ticks at which each state that moves stays.
    staying: Vec<[f64; LANES]>,
    /// How many entries each row of a group has; the shorter ones end in zeros.
    lengths: Vec<u32>,
    columns: Vec<[u32; LANES]>,
    shares: Vec<[f64; LANES]>,
}

impl Ticks {
    /// Where `frozen` holds, values stay as they are.
    pub(super) fn new(chain: &Chain, frozen: &[bool]) -> Result<Ticks, Error> {
        let states = chain.states();
        // The rates, the states that move, and what sorts them.
        Memory::fits(chain.memory, states as u64 * 16)?;
        let leaving: Vec<f64> = (0..states)
            .map(|s| if frozen[s] { 0.0 } else { chain.exit_rate(s) })
            .collect();
        let clock = leaving.iter().copied().fold(0.0, f64::max);
        let mut moving: Vec<u32> = (0..states).filter(|s| leaving[*s] > 0.0).map(index).collect();
        moving.sort_by_key(|s| chain.rows[*s as usize + 1] - chain.rows[*s as usize]);
        let groups = moving.len().div_ceil(LANES);
        let places = groups * LANES + states - moving.len();
        let longest = |group: &[u32]| group.iter().map(|s| others(chain, *s).count()).max().unwrap_or(0);
        let lengths: Vec<u32> = moving.chunks(LANES).map(|group| index(longest(group))).collect();
        let entries: usize = lengths.iter().map(|length| *length as usize).sum();
        // The matrix, the place of each state, what is above, and four vectors.
        let bytes = entries * LANES * 12 + groups * 36 + states * 16 + places * 32;
        Memory::fits(chain.memory, bytes as u64)?;
        let mut place = vec![u32::MAX; states];
        for (number, s) in moving.iter().enumerate() {
            place[*s as usize] = index(number);
        }
        let still = place.iter_mut().filter(|place| **place == u32::MAX);
        for (place, number) in still.zip(groups * LANES..) {
            *place = index(number);
        }
        let mut made = Ticks {
            clock,
            places,
            staying: vec![[0.0; LANES]; groups],
            columns: Vec::with_capacity(entries),
            shares: Vec::with_capacity(entries),
            lengths,
            place,
        };
        for (number, group) in moving.chunks(LANES).enumerate() {
            let start = made.columns.len();
            let length = made.lengths[number] as usize;
            // A row that has ended adds nothing from its own place.
            let own: [u32; LANES] = std::array::from_fn(|lane| index(number * LANES + lane));
            made.columns.resize(start + length, own);
            made.shares.resize(start + length, [0.0; LANES]);
            for (lane, s) in group.iter().enumerate() {
                made.staying[number][lane] = (clock - leaving[*s as usize]) / clock;
                for (at, (to, rate)) in (start..).zip(others(chain, *s)) {
                    made.columns[at][lane] = made.place[to];
                    made.shares[at][lane] = rate / clock;
                }
            }
        }
        Ok(made)
    }

    /// The values of the states in their places.
    pub(super) fn placed(&self, values: &[f64]) -> Vec<f64> {
        let mut placed = vec![0.0; self.places];
        for (place, value) in self.place.iter().zip(values) {
            placed[*place as usize] = *value;
        }
        placed
    }

    /// The states' values of what stands in their places.
    pub(super) fn taken(&self, placed: &[f64]) -> Vec<f64> {
        self.place.iter().map(|place| placed[*place as usize]).collect()
    }

    /// How far apart the values of the states are.
    pub(super) fn spread(&self, placed: &[f64]) -> f64 {
        let values = || self.place.iter().map(|place| placed[*place as usize]);
        values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min)
    }

    /// One tick. Values that stay must stand in `to` already.
    pub(super) fn step(&self, from: &[f64], to: &mut [f64]) {
        let mut start = 0;
        let groups = self.lengths.iter().zip(&self.staying);
        let vectors = from.chunks_exact(LANES).zip(to.chunks_exact_mut(LANES));
        for ((length, staying), (own, to)) in groups.zip(vectors) {
            let end = start + *length as usize;
            let mut sums: [f64; LANES] = std::array::from_fn(|lane| staying[lane] * own[lane]);
            for (columns, shares) in self.columns[start..end].iter().zip(&self.shares[start..end]) {
                for lane in 0..LANES {
                    sums[lane] += shares[lane] * from[columns[lane] as usize];
                }
            }
            to.copy_from_slice(&sums);
            start = end;
        }
    }
}

/// The transitions of a state to others.
fn others(chain: &Chain, state: u32) -> impl Iterator<Item = (usize, f64)> + '_ {
    let own = state as usize;
    chain.row(own).filter(move |(to, _)| *to != own)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chain(size: usize, transitions: &[(usize, usize, f64)]) -> Chain {
        let mut chain = Chain {
            rows: vec![0],
            ..Chain::default()
        };
        for s in 0..size {
            for (_, to, rate) in transitions.iter().filter(|(from, ..)| from % size == s) {
                chain.columns.push(index(to % size));
                chain.rates.push(*rate);
            }
            chain.rows.push(chain.columns.len());
        }
        chain
    }

    proptest! {
        /// Rows of every length, self-loops, states that nothing leaves and numbers of states that do not fill the lanes.
        #[test]
        fn a_step_is_what_the_definition_says(
            size in 1..30usize,
            transitions in prop::collection::vec((0..1000usize, 0..1000usize, 0.1..10.0), 0..120),
            frozen in prop::collection::vec(any::<bool>(), 30),
            values in prop::collection::vec(-5.0..5.0, 30),
        ) {
            let (chain, frozen, values) = (chain(size, &transitions), &frozen[..size], &values[..size]);
            let ticks = Ticks::new(&chain, frozen).unwrap();
            let from = ticks.placed(values);
            prop_assert_eq!(ticks.taken(&from), values);
            let mut to = from.clone();
            ticks.step(&from, &mut to);
            for (s, found) in ticks.taken(&to).iter().enumerate() {
                let change: f64 = chain.row(s).map(|(to, rate)| rate * (values[to] - values[s])).sum();
                let wanted = match frozen[s] || ticks.clock == 0.0 {
                    true => values[s],
                    false => values[s] + change / ticks.clock,
                };
                prop_assert!((found - wanted).abs() < 1e-12, "{} {} {}", s, found, wanted);
            }
        }
    }
}
