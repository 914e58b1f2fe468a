//! Counts over a sliding window of time.

use std::time::Duration;

use crate::time::{Instant, nanos};

/// How many buckets a window is cut into. The window therefore covers between nine tenths and all of its
/// length; ten keeps it small enough to be copied into every target of a large simulation.
const BUCKETS: usize = 10;

/// `K` counters over the last stretch of time, in a fixed ring: no allocation, and no division unless a
/// bucket has ended.
#[derive(Debug, Clone)]
pub(crate) struct Window<const K: usize> {
    bucket: u64,
    /// The number of the present bucket since the beginning, which tells a late refund whether the bucket
    /// that it belongs to is still there.
    slot: u64,
    /// When the present bucket ends.
    ends: u64,
    /// The present bucket. Apart from the ring and beside its sums, so that a count touches one cache line.
    present: [u32; K],
    /// The sums of the buckets before it.
    before: [u64; K],
    /// The buckets before it, each in the place that its number leaves as a remainder.
    counts: [[u32; K]; BUCKETS],
}

/// A bucket of a window, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u64);

impl<const K: usize> Window<K> {
    pub(crate) fn new(length: Duration, now: Instant) -> Self {
        let bucket = Self::bucket_of(length);
        Self {
            bucket,
            slot: 0,
            ends: now.as_nanos().saturating_add(bucket),
            present: [0; K],
            before: [0; K],
            counts: [[0; K]; BUCKETS],
        }
    }

    /// A window of other counters, with nothing counted, whose buckets begin and end with those of this one.
    pub(crate) const fn emptied<const OTHER: usize>(&self) -> Window<OTHER> {
        Window {
            bucket: self.bucket,
            slot: self.slot,
            ends: self.ends,
            present: [0; OTHER],
            before: [0; OTHER],
            counts: [[0; OTHER]; BUCKETS],
        }
    }

    /// Changes the length and keeps the counts.
    pub(crate) fn set_length(&mut self, length: Duration, now: Instant) {
        self.advance(now);
        let bucket = Self::bucket_of(length);
        if bucket == self.bucket {
            // The present bucket ends when it would have: under frequent changes it would otherwise never.
            return;
        }
        self.bucket = bucket;
        self.ends = now.as_nanos().saturating_add(self.bucket);
    }

    /// A number for the first bucket of a later window, such that no slot of this one means anything to it.
    pub(crate) fn number_for_next(&self) -> u64 {
        self.slot + BUCKETS as u64
    }

    /// Numbers the buckets from `first` on.
    pub(crate) fn number_from(&mut self, first: u64) {
        self.slot += first;
    }

    fn bucket_of(length: Duration) -> u64 {
        (nanos(length) / BUCKETS as u64).max(1)
    }

    /// Lets time pass. Must come before any reading; costs one comparison while the bucket lasts.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) {
        if now.as_nanos() >= self.ends {
            self.rotate(now.as_nanos());
        }
    }

    #[cold]
    fn rotate(&mut self, now: u64) {
        let steps = (now - self.ends) / self.bucket + 1;
        self.counts[index_of(self.slot)] = self.present;
        for (before, present) in self.before.iter_mut().zip(&mut self.present) {
            *before += u64::from(std::mem::take(present));
        }
        for _ in 0..steps.min(BUCKETS as u64) {
            self.slot += 1;
            for (before, count) in self.before.iter_mut().zip(&mut self.counts[index_of(self.slot)]) {
                *before -= u64::from(std::mem::take(count));
            }
        }
        self.slot += steps.saturating_sub(BUCKETS as u64);
        self.ends = self.ends.saturating_add(steps.saturating_mul(self.bucket));
    }

    /// Adds one to a counter in the present bucket and says which bucket that was.
    #[inline]
    pub(crate) fn add(&mut self, counter: usize) -> Slot {
        // A bucket that is full to 32 bits stays full: the share it speaks of no longer changes.
        self.present[counter] = self.present[counter].saturating_add(1);
        Slot(self.slot)
    }

    /// Takes one back from the bucket it was added to; nothing if that bucket has left the window.
    pub(crate) fn take_back(&mut self, slot: Slot, counter: usize) {
        if self.slot.saturating_sub(slot.0) >= BUCKETS as u64 {
            return;
        }
        if slot.0 == self.slot {
            self.present[counter] = self.present[counter].saturating_sub(1);
            return;
        }
        let count = &mut self.counts[index_of(slot.0)][counter];
        if *count > 0 {
            *count -= 1;
            self.before[counter] -= 1;
        }
    }

    /// The sum of a counter over the window, as of the last [`Window::advance`].
    #[inline]
    pub(crate) fn sum(&self, counter: usize) -> u64 {
        self.before[counter] + u64::from(self.present[counter])
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.present = [0; K];
        self.before = [0; K];
        self.counts = [[0; K]; BUCKETS];
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a remainder by ten fits everywhere"
)]
fn index_of(slot: u64) -> usize {
    (slot % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut window = Window::<1>::new(10 * SECOND, Instant::ZERO);
        window.add(0);
        window.advance(Instant::from_secs(9));
        assert_eq!(window.sum(0), 1);
        window.advance(Instant::from_secs(10));
        assert_eq!(window.sum(0), 0);
    }

    #[test]
    fn a_long_silence_clears_the_window_in_bounded_time() {
        let mut window = Window::<2>::new(SECOND, Instant::ZERO);
        window.add(0);
        window.add(1);
        window.advance(Instant::from_nanos(u64::MAX - 1));
        assert_eq!((window.sum(0), window.sum(1)), (0, 0));
        window.add(0);
        assert_eq!(window.sum(0), 1);
    }

    #[test]
    fn a_refund_goes_to_the_bucket_it_came_from() {
        let mut window = Window::<1>::new(10 * SECOND, Instant::ZERO);
        let early = window.add(0);
        window.advance(Instant::from_secs(5));
        window.add(0);
        window.take_back(early, 0);
        assert_eq!(window.sum(0), 1);
        window.advance(Instant::from_secs(12));
        assert_eq!(window.sum(0), 1, "the later one is still in the window");
        window.take_back(early, 0);
        assert_eq!(window.sum(0), 1, "the earlier one has left the window");
    }
}
