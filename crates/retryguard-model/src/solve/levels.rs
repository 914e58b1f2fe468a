//! Expected rewards on a chain of equal levels.
//!
//! From the top down: the values of one height follow from those of the heights above through the factor of its block, which
//! is made once. Only the states that a rise can enter matter to the height below. Where few states are entered and there are
//! many heights of one block, the matrix that takes the entered values of a height to those of the height below is made once,
//! and a height costs one product with it.

use super::lane::Lane;
use super::linear::System;
use crate::chain::{Chain, Levels, Memory, index};
use crate::error::Error;

/// Columns of a transfer that are solved at once.
type Columns = [f64; 8];
const WIDTH: usize = 8;

/// The expected rewards from the initial state, one for each of `earned`. `None` where the graph does not show that every
/// level is left for certain: then the chain must be built as written.
pub(crate) fn level_rewards(
    chain: &Chain,
    levels: &Levels,
    earned: &[&[f64]],
) -> Result<Option<Vec<f64>>, Error> {
    if !always_left(chain, levels) {
        return Ok(None);
    }
    let mut tower = Tower::new(chain, levels, earned.len())?;
    earned
        .iter()
        .map(|earned| tower.value(earned))
        .collect::<Result<Vec<f64>, Error>>()
        .map(Some)
}

/// Whether from every state its level can be left, or a state to stop in reached, within the level. A finite block that can
/// always be left is left for certain, and the heights end.
fn always_left(chain: &Chain, levels: &Levels) -> bool {
    let out: Vec<bool> = (0..chain.states())
        .map(|s| chain.stopped[s] || levels.rows[s + 1] > levels.rows[s])
        .collect();
    super::graph::can_reach(chain, &out, |_| true)
        .iter()
        .all(|can| *can)
}

struct Tower<'c> {
    chain: &'c Chain,
    levels: &'c Levels,
    blocks: Vec<Block<'c>>,
    /// For each state its place among the entered ones of its block.
    seat: Vec<u32>,
    x: Vec<f64>,
    /// How many rewards are asked for.
    rewards: usize,
    /// Bytes that may still be taken.
    spare: u64,
}

struct Block<'c> {
    /// The states that are not stops.
    states: Vec<u32>,
    /// The states that a rise, or the start, enters.
    entered: Vec<u32>,
    system: System<'c>,
    /// What the entered values become one height below, when both heights are this block.
    transfer: Option<Vec<f64>>,
    /// How many heights are this block and lie under another one of it.
    repeats: usize,
}

impl<'c> Tower<'c> {
    fn new(chain: &'c Chain, levels: &'c Levels, rewards: usize) -> Result<Tower<'c>, Error> {
        let mut spare = Memory::spare(chain.memory);
        let states = chain.states();
        let mut seat = vec![u32::MAX; states];
        let mut entered: Vec<Vec<u32>> = vec![Vec::new(); levels.plan.distinct()];
        let targets = levels
            .exits
            .iter()
            .map(|exit| exit.target)
            .chain(chain.initial.iter().copied());
        for target in targets {
            let list = &mut entered[levels.class[target as usize] as usize];
            if seat[target as usize] == u32::MAX {
                seat[target as usize] = index(list.len());
                list.push(target);
            }
        }
        let blocks = entered
            .into_iter()
            .enumerate()
            .map(|(class, entered)| {
                let class = index(class);
                let inside: Vec<bool> = (0..states)
                    .map(|s| levels.class[s] == class && !chain.stopped[s])
                    .collect();
                let out = |s| {
                    exits(levels, s)
                        .filter(|exit| exit.first)
                        .map(|exit| exit.rate)
                        .sum()
                };
                let system = System::new(chain, &inside, out, &mut spare)?;
                let plan = &levels.plan;
                let repeats = (1..plan.levels())
                    .filter(|h| plan.class_at(*h) == class && plan.class_at(*h - 1) == class)
                    .count();
                Ok(Block {
                    states: (0..states).filter(|s| inside[*s]).map(index).collect(),
                    entered,
                    system,
                    transfer: None,
                    repeats,
                })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Tower {
            chain,
            levels,
            blocks,
            seat,
            x: vec![0.0; states],
            rewards,
            spare,
        })
    }

    fn value(&mut self, earned: &[f64]) -> Result<f64, Error> {
        let plan = &self.levels.plan;
        let heights = plan.levels();
        let reach = self.levels.exits.iter().map(|exit| exit.rise).max().unwrap_or(1) as usize;
        // The entered values of the heights above, the nearest last.
        let mut above: Vec<Vec<f64>> = Vec::new();
        // What a height of each block earns before it is left.
        let mut own: Vec<Option<Vec<f64>>> = vec![None; self.blocks.len()];
        for height in (0..heights).rev() {
            let class = plan.class_at(height) as usize;
            let repeated = height + 1 < heights && plan.class_at(height + 1) as usize == class;
            let block = &self.blocks[class];
            let products = reach == 1 && block.repeats * self.rewards > block.entered.len() / WIDTH + 2;
            let values = if products && repeated {
                self.make_transfer(class)?;
                if own[class].is_none() {
                    self.solve(class, height, earned, &[])?;
                    own[class] = Some(self.entered_values(class));
                }
                let own = own[class].as_deref().unwrap_or_default();
                self.product(class, own, &above[above.len() - 1])
            } else {
                self.solve(class, height, earned, &above)?;
                self.entered_values(class)
            };
            above.push(values);
            if above.len() > reach {
                above.remove(0);
            }
        }
        let start = self.chain.initial[0];
        let bottom = above.last().expect("a counter has at least one height");
        Ok(bottom[self.seat[start as usize] as usize])
    }

    /// Solves one height; `above` are the entered values of the heights over it, the nearest last.
    fn solve(
        &mut self,
        class: usize,
        height: usize,
        earned: &[f64],
        above: &[Vec<f64>],
    ) -> Result<(), Error> {
        let plan = &self.levels.plan;
        let block = &self.blocks[class];
        for state in &block.states {
            let s = *state as usize;
            let mut b = earned.get(s).copied().unwrap_or(0.0);
            for exit in exits(self.levels, s) {
                let rise = exit.rise as usize;
                if rise <= above.len() && plan.class_at(height + rise) == exit.class {
                    b += exit.rate * above[above.len() - rise][self.seat[exit.target as usize] as usize];
                }
            }
            self.x[s] = b;
        }
        block.system.solve(&mut self.x)
    }

    fn entered_values(&self, class: usize) -> Vec<f64> {
        self.blocks[class]
            .entered
            .iter()
            .map(|s| {
                if self.chain.stopped[*s as usize] {
                    0.0
                } else {
                    self.x[*s as usize]
                }
            })
            .collect()
    }

    /// Column by column: a reward of one for entering one state, nothing else earned.
    fn make_transfer(&mut self, class: usize) -> Result<(), Error> {
        if self.blocks[class].transfer.is_some() {
            return Ok(());
        }
        let block = &self.blocks[class];
        let size = block.entered.len();
        let bytes = (size * size) as u64 * 8 + self.chain.states() as u64 * size_of::<Columns>() as u64;
        if bytes > self.spare {
            return Err(Memory::full(self.chain.memory));
        }
        self.spare -= (size * size) as u64 * 8;
        let mut matrix = vec![0.0; size * size];
        let mut x = vec![Columns::ZERO; self.chain.states()];
        for first in (0..size).step_by(WIDTH) {
            for state in &block.states {
                let s = *state as usize;
                let mut b = Columns::ZERO;
                for exit in exits(self.levels, s) {
                    let column = (self.seat[exit.target as usize] as usize).wrapping_sub(first);
                    if exit.class as usize == class && column < WIDTH {
                        b[column] += exit.rate;
                    }
                }
                x[s] = b;
            }
            block.system.solve(&mut x)?;
            for (row, state) in block.entered.iter().enumerate() {
                if self.chain.stopped[*state as usize] {
                    continue;
                }
                for column in first..size.min(first + WIDTH) {
                    matrix[row * size + column] = x[*state as usize][column - first];
                }
            }
        }
        self.blocks[class].transfer = Some(matrix);
        Ok(())
    }

    fn product(&self, class: usize, own: &[f64], values: &[f64]) -> Vec<f64> {
        let matrix = self.blocks[class].transfer.as_deref().unwrap_or_default();
        let size = values.len();
        own.iter()
            .enumerate()
            .map(|(row, own)| {
                let line = &matrix[row * size..(row + 1) * size];
                own + line.iter().zip(values).map(|(m, v)| m * v).sum::<f64>()
            })
            .collect()
    }
}

fn exits(levels: &Levels, state: usize) -> impl Iterator<Item = &crate::chain::Exit> {
    levels.exits[levels.rows[state]..levels.rows[state + 1]].iter()
}
