//! Counts over a sliding window of time.

use std::time::Duration;

use crate::time::{Instant, nanos};

/// How many buckets a window is cut into. The window therefore covers between nine tenths and all of its
/// length.
const BUCKETS: usize = 10;

/// `K` counters over the last stretch of time, in a fixed ring: no division unless a bucket has ended, and no allocation
/// while the counts are small.
#[derive(Debug, Clone)]
pub(crate) struct Window<const K: usize> {
    bucket: u64,
    /// The number of the present bucket since the beginning, which tells a late refund whether the bucket
    /// that it belongs to is still there.
    slot: u64,
    /// When the present bucket ends.
    ends: u64,
    counts: Counts<K>,
}

/// A large simulation has a window for each client, and most clients make few calls: a byte for each count is enough until
/// a bucket has more than 255.
#[derive(Debug, Clone)]
enum Counts<const K: usize> {
    Few(Few<K>),
    Many(Box<Many<K>>),
}

/// The present bucket, and those before it, each in the place that its number leaves as a remainder.
#[derive(Debug, Clone)]
struct Few<const K: usize> {
    present: [u8; K],
    ring: [[u8; K]; BUCKETS],
}

#[derive(Debug, Clone)]
struct Many<const K: usize> {
    /// The present bucket. Apart from the ring and beside its sums, so that a count touches one cache line.
    present: [u32; K],
    /// The sums of the buckets before it.
    before: [u64; K],
    ring: [[u32; K]; BUCKETS],
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
            counts: Counts::NONE,
        }
    }

    /// A window of other counters, with nothing counted, whose buckets begin and end with those of this one.
    pub(crate) const fn emptied<const OTHER: usize>(&self) -> Window<OTHER> {
        Window {
            bucket: self.bucket,
            slot: self.slot,
            ends: self.ends,
            counts: Counts::NONE,
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
        if steps >= BUCKETS as u64 {
            // Everything has left the window.
            self.clear();
            return self.begin_bucket(steps);
        }
        let emptied = self.slot + 1..=self.slot + steps;
        match &mut self.counts {
            Counts::Few(few) => {
                few.ring[index_of(self.slot)] = std::mem::replace(&mut few.present, [0; K]);
                for slot in emptied {
                    few.ring[index_of(slot)] = [0; K];
                }
            }
            Counts::Many(many) => {
                many.ring[index_of(self.slot)] = many.present;
                for (before, present) in many.before.iter_mut().zip(&mut many.present) {
                    *before += u64::from(std::mem::take(present));
                }
                for slot in emptied {
                    for (before, count) in many.before.iter_mut().zip(&mut many.ring[index_of(slot)]) {
                        *before -= u64::from(std::mem::take(count));
                    }
                }
            }
        }
        self.begin_bucket(steps);
    }

    /// The bucket after so many others begins.
    fn begin_bucket(&mut self, steps: u64) {
        self.slot += steps;
        self.ends = self.ends.saturating_add(steps.saturating_mul(self.bucket));
    }

    /// Adds one to a counter in the present bucket and says which bucket that was.
    #[inline]
    pub(crate) fn add(&mut self, counter: usize) -> Slot {
        match &mut self.counts {
            // A bucket that is full to 32 bits stays full: the share it speaks of no longer changes.
            Counts::Many(many) => many.present[counter] = many.present[counter].saturating_add(1),
            Counts::Few(few) => match few.present[counter].checked_add(1) {
                Some(more) => few.present[counter] = more,
                None => self.add_many(counter, 1),
            },
        }
        Slot(self.slot)
    }

    /// Adds so many at once.
    pub(crate) fn add_many(&mut self, counter: usize, more: u32) {
        if let Counts::Few(few) = &mut self.counts {
            let sum = u32::from(few.present[counter]).saturating_add(more);
            if let Ok(sum) = u8::try_from(sum) {
                few.present[counter] = sum;
                return;
            }
            self.grow();
        }
        if let Counts::Many(many) = &mut self.counts {
            many.present[counter] = many.present[counter].saturating_add(more);
        }
    }

    /// When the present bucket ends.
    pub(crate) const fn bucket_ends(&self) -> Instant {
        Instant::from_nanos(self.ends)
    }

    /// Makes room for larger counts.
    #[cold]
    fn grow(&mut self) {
        if let Counts::Few(few) = &self.counts {
            let many = Many {
                present: few.present.map(u32::from),
                before: std::array::from_fn(|counter| few.before(counter)),
                ring: few.ring.map(|bucket| bucket.map(u32::from)),
            };
            self.counts = Counts::Many(Box::new(many));
        }
    }

    /// Takes one back from the bucket it was added to; nothing if that bucket has left the window.
    pub(crate) fn take_back(&mut self, slot: Slot, counter: usize) {
        if self.slot.saturating_sub(slot.0) >= BUCKETS as u64 {
            return;
        }
        let is_present = slot.0 == self.slot;
        match &mut self.counts {
            Counts::Few(few) => {
                let bucket = if is_present {
                    &mut few.present
                } else {
                    &mut few.ring[index_of(slot.0)]
                };
                bucket[counter] = bucket[counter].saturating_sub(1);
            }
            Counts::Many(many) if is_present => {
                many.present[counter] = many.present[counter].saturating_sub(1);
            }
            Counts::Many(many) => {
                let count = &mut many.ring[index_of(slot.0)][counter];
                if *count > 0 {
                    *count -= 1;
                    many.before[counter] -= 1;
                }
            }
        }
    }

    /// The sum of a counter over the window, as of the last [`Window::advance`].
    #[inline]
    pub(crate) fn sum(&self, counter: usize) -> u64 {
        match &self.counts {
            Counts::Few(few) => few.before(counter) + u64::from(few.present[counter]),
            Counts::Many(many) => many.before[counter] + u64::from(many.present[counter]),
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        match &mut self.counts {
            few @ Counts::Few(_) => *few = Counts::NONE,
            Counts::Many(many) => many.clear(),
        }
    }
}

impl<const K: usize> Counts<K> {
    const NONE: Self = Self::Few(Few {
        present: [0; K],
        ring: [[0; K]; BUCKETS],
    });
}

impl<const K: usize> Many<K> {
    fn clear(&mut self) {
        *self = Self {
            present: [0; K],
            before: [0; K],
            ring: [[0; K]; BUCKETS],
        };
    }
}

impl<const K: usize> Few<K> {
    /// The sum of the buckets before the present one.
    fn before(&self, counter: usize) -> u64 {
        self.ring.iter().map(|bucket| u64::from(bucket[counter])).sum()
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

    /// The same calls in both forms: few of each, and a thousand times as many.
    #[test]
    fn large_counts_are_counted_like_small_ones() {
        let (mut few, mut many) = (
            Window::<2>::new(10 * SECOND, Instant::ZERO),
            Window::<2>::new(10 * SECOND, Instant::ZERO),
        );
        for second in 0..40_u64 {
            let now = Instant::from_secs(second + second / 7 * 3);
            few.advance(now);
            many.advance(now);
            for counter in [0, usize::from(second % 3 == 0)] {
                let early = few.add(counter);
                let slots: Vec<Slot> = (0..1000).map(|_| many.add(counter)).collect();
                if second % 5 == 0 {
                    few.take_back(early, counter);
                    slots.into_iter().for_each(|slot| many.take_back(slot, counter));
                }
                assert_eq!(1000 * few.sum(counter), many.sum(counter), "{second} {counter}");
            }
        }
        assert!(matches!(few.counts, Counts::Few(_)) && matches!(many.counts, Counts::Many(_)));
    }

    #[test]
    fn many_at_once_are_so_many_single_ones() {
        for before in [0, 1, 255, 300] {
            for more in [0, 1, 254, 255, 256, 1000] {
                let mut singly = Window::<2>::new(10 * SECOND, Instant::ZERO);
                (0..before).for_each(|_| _ = singly.add(1));
                let mut at_once = singly.clone();
                (0..more).for_each(|_| _ = singly.add(1));
                at_once.add_many(1, more);
                assert_eq!(format!("{singly:?}"), format!("{at_once:?}"), "{before} {more}");
            }
        }
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
