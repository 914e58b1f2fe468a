//! How much a clean-up deletes at once, and how long it pauses then.

use std::time::Duration;

use crate::Backend;

/// How long others have the database for themselves after each batch, at least.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a batch may take. Where a database has one writer, requests wait for the batch before them.
const LONG: Duration = Duration::from_millis(5);
/// The smallest batch. Its commit takes as long as that of a request, so that a smaller one would hold up others as long.
const LEAST: u32 = 10;
/// Where a database has one writer, the pause is this many times as long as the batch before it.
///
/// A connection that finds SQLite's write lock taken looks again after 1, 2, 5, 10 and more milliseconds. It does not
/// queue, so it may find one batch after the other. After a batch of 5 ms the third look comes before the next batch.
const PAUSES_A_BATCH: u32 = 4;

/// The size of the next batch: as large as can be deleted in five milliseconds on this disk.
#[derive(Debug)]
pub(crate) struct BatchSize {
    rows: u32,
    most: u32,
    has_one_writer: bool,
}

impl BatchSize {
    pub(crate) const fn new(backend: Backend, most: u32) -> Self {
        Self {
            rows: LEAST,
            most,
            has_one_writer: matches!(backend, Backend::Sqlite),
        }
    }

    pub(crate) const fn rows(&self) -> u32 {
        self.rows
    }

    /// Takes note of a batch, and says how long to wait for the next; none where there was less to delete than asked for, so
    /// that the clean-up is done.
    pub(crate) fn deleted(&mut self, rows: u64, took: Duration) -> Option<Duration> {
        let is_whole = rows >= u64::from(self.rows);
        if took > LONG {
            self.rows = (self.rows / 2).max(LEAST);
        } else if is_whole && took < LONG / 2 {
            self.rows = (self.rows * 2).min(self.most);
        }
        let pause = if self.has_one_writer {
            PAUSE.max(PAUSES_A_BATCH * took)
        } else {
            PAUSE
        };
        is_whole.then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(1);
    const SLOW: Duration = Duration::from_millis(100);

    #[test]
    fn batches_grow_while_they_are_quick_and_shrink_when_they_are_slow() {
        let mut size = BatchSize::new(Backend::Postgres, 1000);
        let mut sizes = Vec::new();
        for took in [QUICK, QUICK, QUICK, LONG, SLOW, SLOW, SLOW, SLOW] {
            assert_eq!(size.deleted(u64::from(size.rows()), took), Some(PAUSE));
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
        let mut size = BatchSize::new(Backend::Sqlite, 1000);
        assert_eq!(size.deleted(9, QUICK), None);
        assert_eq!(size.rows(), 10);
    }

    #[test]
    fn the_one_writer_of_a_database_pauses_for_longer_than_it_writes() {
        let mut size = BatchSize::new(Backend::Sqlite, 1000);
        assert_eq!(size.deleted(10, QUICK), Some(PAUSE));
        assert_eq!(size.deleted(20, LONG), Some(Duration::from_millis(20)));
        assert_eq!(size.deleted(20, SLOW), Some(Duration::from_millis(400)));
    }
}
