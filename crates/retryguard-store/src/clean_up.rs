//! How much a clean-up deletes at once.

use std::time::Duration;

/// How long others have the database for themselves after each batch.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);
/// How long a batch may take. Where a database has one writer, requests wait for the batch before them.
const LONG: Duration = Duration::from_millis(10);
/// The smallest batch. Its commit takes as long as that of a request, so that a smaller one would hold up others as long.
const LEAST: u32 = 10;

/// The size of the next batch: as large as can be deleted in ten milliseconds on this disk.
#[derive(Debug)]
pub(crate) struct BatchSize {
    rows: u32,
    most: u32,
}

impl BatchSize {
    pub(crate) const fn up_to(most: u32) -> Self {
        Self { rows: LEAST, most }
    }

    pub(crate) const fn rows(&self) -> u32 {
        self.rows
    }

    /// Takes note of a batch; false where there was less to delete than asked for, so that the clean-up is done.
    pub(crate) fn deleted(&mut self, rows: u64, took: Duration) -> bool {
        let is_whole = rows >= u64::from(self.rows);
        if took > LONG {
            self.rows = (self.rows / 2).max(LEAST);
        } else if is_whole && took < LONG / 2 {
            self.rows = (self.rows * 2).min(self.most);
        }
        is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(1);
    const SLOW: Duration = Duration::from_millis(100);

    #[test]
    fn batches_grow_while_they_are_quick_and_shrink_when_they_are_slow() {
        let mut size = BatchSize::up_to(1000);
        let mut sizes = Vec::new();
        for took in [QUICK, QUICK, QUICK, LONG, SLOW, SLOW, SLOW, SLOW] {
            assert!(size.deleted(u64::from(size.rows()), took));
            sizes.push(size.rows());
        }
        assert_eq!(sizes, [20, 40, 80, 80, 40, 20, 10, 10]);
        for _ in 0..20 {
            size.deleted(u64::from(size.rows()), QUICK);
        }
        assert_eq!(size.rows(), 1000);
    }

    #[test]
    fn a_batch_that_was_not_filled_is_the_last_and_says_nothing_of_a_larger_one() {
        let mut size = BatchSize::up_to(1000);
        assert!(!size.deleted(9, QUICK));
        assert_eq!(size.rows(), 10);
    }
}
