//! The queue of future events.
//!
//! A radix heap of base 64. Time only moves forward, so an event is filed by the highest group of six bits
//! in which its time differs from the present: level 0 holds what happens in this very group of nanoseconds,
//! level 1 what happens 64 times further away, and so on. When the lowest slot is reached it is dealt out
//! over the levels below. An event is moved at most once a level, whatever the number of events that wait,
//! and always in long runs through memory; a binary heap compares and jumps about in proportion to the
//! logarithm of that number, and misses the cache at nearly every step once a million events wait.
//!
//! **Ties.** Events of the same nanosecond come in the order in which they were scheduled. Two events of
//! the same time always stand in the same slot, a slot is first in, first out, and dealing keeps the order.

use retryguard_core::Instant;

/// Bits of the time that one level sorts by.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 64_usize.div_ceil(BITS as usize);

/// A slot keeps its memory for the next use up to this many events, so that a queue that was once large does
/// not stay so.
const KEPT: usize = 1024;

/// Future events, the earliest first.
#[derive(Debug)]
pub struct Queue<E> {
    slots: Vec<Vec<(u64, E)>>,
    /// For each level, which of its slots hold anything; and which levels have such a slot.
    occupied: [u64; LEVELS],
    levels: u32,
    now: u64,
    /// The events of the present nanosecond, those before `next` already taken.
    present: Vec<E>,
    next: usize,
    length: usize,
}

impl<E: Copy> Default for Queue<E> {
    fn default() -> Self {
        Self {
            slots: (0..SLOTS * LEVELS).map(|_| Vec::new()).collect(),
            occupied: [0; LEVELS],
            levels: 0,
            now: 0,
            present: Vec::new(),
            next: 0,
            length: 0,
        }
    }
}

impl<E: Copy> Queue<E> {
    /// An empty queue at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether no event waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The time of the event that was taken last.
    #[must_use]
    pub const fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Whether nothing more is due at the time of the event that was taken last.
    #[inline]
    #[must_use]
    pub const fn has_nothing_due(&self) -> bool {
        self.next >= self.present.len()
    }

    /// Schedules an event. One that lies in the past happens now, after everything that is already due.
    #[inline]
    pub fn push(&mut self, at: Instant, event: E) {
        self.length += 1;
        self.file(at.as_nanos().max(self.now), event);
    }

    /// The next event and its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        if let Some(&event) = self.present.get(self.next) {
            self.next += 1;
            self.length -= 1;
            return Some((Instant::from_nanos(self.now), event));
        }
        if self.length == 0 {
            return None;
        }
        self.length -= 1;
        let event = self.advance();
        Some((Instant::from_nanos(self.now), event))
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a slot's number has six bits")]
    fn file(&mut self, at: u64, event: E) {
        let different = at ^ self.now;
        if different == 0 {
            self.present.push(event);
            return;
        }
        let level = (different.ilog2() / BITS) as usize;
        let slot = (at >> (level as u32 * BITS)) as usize & (SLOTS - 1);
        self.slots[level * SLOTS + slot].push((at, event));
        self.occupied[level] |= 1 << slot;
        self.levels |= 1 << level;
    }

    /// Moves on to the earliest time and takes its first event; deals out the others of its slot.
    #[inline]
    fn advance(&mut self) -> E {
        self.present.clear();
        let level = self.levels.trailing_zeros() as usize;
        let occupied = &mut self.occupied[level];
        let slot = occupied.trailing_zeros() as usize;
        *occupied &= *occupied - 1;
        if *occupied == 0 {
            self.levels &= self.levels - 1;
        }
        let place = level * SLOTS + slot;
        // Where few events wait, most of them stand alone.
        if let [(at, event)] = self.slots[place][..] {
            self.slots[place].clear();
            self.now = at;
            self.next = 0;
            return event;
        }
        self.deal(place);
        self.next = 1;
        self.present[0]
    }

    fn deal(&mut self, place: usize) {
        let mut events = std::mem::take(&mut self.slots[place]);
        self.now = events
            .iter()
            .map(|&(at, _)| at)
            .min()
            .expect("an occupied slot holds an event");
        for (at, event) in events.drain(..) {
            self.file(at, event);
        }
        if events.capacity() <= KEPT {
            self.slots[place] = events;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cmp::Reverse, collections::BinaryHeap};

    use super::*;
    use proptest::prelude::*;

    /// What the queue should do, as simply as it can be said.
    #[derive(Default)]
    struct Oracle {
        heap: BinaryHeap<Reverse<(u64, u64)>>,
        pushed: u64,
        now: u64,
    }

    impl Oracle {
        fn push(&mut self, at: u64) -> u64 {
            self.heap.push(Reverse((at.max(self.now), self.pushed)));
            self.pushed += 1;
            self.pushed - 1
        }

        fn pop(&mut self) -> Option<(u64, u64)> {
            let Reverse((at, event)) = self.heap.pop()?;
            self.now = at;
            Some((at, event))
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Delays of every scale, many of them equal, pushes and pops in any order.
        #[test]
        fn it_is_a_binary_heap_with_ties_in_order(
            steps in prop::collection::vec((0_u32..64, 0_u64..4, 0_u32..4), 1..400)
        ) {
            let (mut queue, mut oracle) = (Queue::new(), Oracle::default());
            for (scale, low, pops) in steps {
                let at = oracle.now.saturating_add((low << scale.min(61)) | (low & 1));
                let event = oracle.push(at);
                queue.push(Instant::from_nanos(at), event);
                for _ in 0..pops {
                    let expected = oracle.pop();
                    let found = queue.pop().map(|(at, event)| (at.as_nanos(), event));
                    prop_assert_eq!(found, expected);
                }
                prop_assert_eq!(queue.len(), oracle.heap.len());
            }
            while let Some(expected) = oracle.pop() {
                let found = queue.pop().map(|(at, event)| (at.as_nanos(), event));
                prop_assert_eq!(found, Some(expected));
            }
            prop_assert!(queue.pop().is_none());
        }
    }

    #[test]
    fn the_past_happens_now_and_after_what_is_due() {
        let mut queue = Queue::new();
        queue.push(Instant::from_secs(2), 'a');
        queue.push(Instant::from_secs(2), 'b');
        assert_eq!(queue.pop(), Some((Instant::from_secs(2), 'a')));
        queue.push(Instant::from_secs(1), 'c');
        assert_eq!(queue.pop(), Some((Instant::from_secs(2), 'b')));
        assert_eq!(queue.pop(), Some((Instant::from_secs(2), 'c')));
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn the_end_of_time_can_be_scheduled() {
        let mut queue = Queue::new();
        queue.push(Instant::NEVER, 1);
        queue.push(Instant::from_nanos(5), 0);
        assert_eq!(queue.pop(), Some((Instant::from_nanos(5), 0)));
        assert_eq!(queue.pop(), Some((Instant::NEVER, 1)));
    }
}
