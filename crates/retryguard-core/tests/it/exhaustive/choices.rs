//! Enumeration by re-execution: a path is the list of choices that were made on it.

use retryguard_core::{Chance, Ratio};

/// The choices of one path, and what is left to choose on the others.
#[derive(Debug, Default)]
pub(super) struct Choices {
    path: Vec<Choice>,
    cursor: usize,
}

#[derive(Debug, Clone, Copy)]
struct Choice {
    taken: usize,
    of: usize,
}

impl Choices {
    /// One of `0..of`: what the path says, or the first where the path is new.
    pub(super) fn choose(&mut self, of: usize) -> usize {
        if self.cursor == self.path.len() {
            self.path.push(Choice { taken: 0, of });
        }
        let choice = self.path[self.cursor];
        assert_eq!(choice.of, of, "the same choices must lead to the same question");
        self.cursor += 1;
        choice.taken
    }

    /// Turns to the next path, depth first. False when all have been walked.
    pub(super) fn next_path(&mut self) -> bool {
        self.cursor = 0;
        while let Some(last) = self.path.last_mut() {
            last.taken += 1;
            if last.taken < last.of {
                return true;
            }
            self.path.pop();
        }
        false
    }
}

/// Every yes or no both ways, every number at both ends.
impl Chance for Choices {
    fn below(&mut self, bound: u64) -> u64 {
        if bound <= 1 || self.choose(2) == 0 {
            0
        } else {
            bound - 1
        }
    }

    fn happens(&mut self, share: Ratio) -> bool {
        share >= Ratio::ONE || (share > Ratio::ZERO && self.choose(2) == 1)
    }
}
