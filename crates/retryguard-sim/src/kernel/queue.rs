//! The queue of future events.
//!
//! In two parts. The next few events stand sorted in a row, the earliest last: to take one is to shorten the row, and
//! a world in which few things wait never leaves it. Whatever happens later is filed by its time, in [`far`], until
//! the row is empty.
//!
//! **Ties.** Events of the same nanosecond come in the order in which they were scheduled. An event goes into the row
//! behind those of its time, and the two parts never share a time: what lies before `bound` stands in the row, all
//! else does not.

mod far;

use std::collections::VecDeque;

use retryguard_core::Instant;

use far::Far;

/// The most events that stand in the row. A row is short, because an event passes by those that come before it.
const NEAR: usize = 16;

/// Future events, the earliest first.
#[derive(Debug)]
pub struct Queue<E> {
    /// The next events, the earliest last, of which there are `count`; all of them lie before `bound`, or were there
    /// when it was set.
    near: [(u64, E); NEAR],
    count: usize,
    /// Where the other part begins.
    bound: u64,
    now: u64,
    /// What did not find a place in the row and has the same time as everything in it.
    crowd: VecDeque<E>,
    far: Far<E>,
}

impl<E: Copy + Default> Default for Queue<E> {
    fn default() -> Self {
        Self {
            near: [(0, E::default()); NEAR],
            count: 0,
            bound: u64::MAX,
            now: 0,
            crowd: VecDeque::new(),
            far: Far::new(),
        }
    }
}

impl<E: Copy + Default> Queue<E> {
    /// An empty queue at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count + self.crowd.len() + self.far.len()
    }

    /// Whether no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time of the event that was taken last.
    #[inline]
    #[must_use]
    pub const fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Whether it is certain that nothing more is due at the time of the event that was taken last.
    #[inline]
    #[must_use]
    pub fn has_nothing_due(&self) -> bool {
        self.bound > self.now && (self.count == 0 || self.near[(self.count - 1) % NEAR].0 > self.now)
    }

    /// Schedules an event. One that lies in the past happens now, after everything that is already due.
    #[inline]
    pub fn push(&mut self, at: Instant, event: impl Into<E>) {
        let event = event.into();
        let at = at.as_nanos().max(self.now);
        if at >= self.bound || self.count >= NEAR {
            return self.push_far(at, event);
        }
        stand_in(&mut self.near, &mut self.count, at, event);
    }

    /// The next event and its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        if self.count == 0 && !self.refill() {
            return None;
        }
        self.count -= 1;
        let (at, event) = self.near[self.count % NEAR];
        self.now = at;
        Some((Instant::from_nanos(at), event))
    }

    #[inline(never)]
    fn push_far(&mut self, at: u64, event: E) {
        if at < self.bound {
            self.spill();
        }
        if at < self.bound {
            stand_in(&mut self.near, &mut self.count, at, event);
        } else {
            self.far.file(at, event);
        }
    }

    /// Files the later half of the row, which is full, and whatever has the same time as that.
    fn spill(&mut self) {
        self.bound = self.near[NEAR / 2].0;
        let later = self.near.partition_point(|&(at, _)| at >= self.bound);
        for &(at, event) in self.near[..later].iter().rev() {
            self.far.file(at, event);
        }
        self.near.copy_within(later.., 0);
        self.count = NEAR - later;
    }

    /// Gets the next events into the row, which is empty. Whether there are any.
    #[inline(never)]
    fn refill(&mut self) -> bool {
        let (near, count, crowd) = (&mut self.near, &mut self.count, &mut self.crowd);
        if crowd.is_empty() {
            let taken = self.far.take(NEAR, |at, event| {
                if *count < NEAR {
                    stand_in(near, count, at, event);
                } else {
                    crowd.push_back(event);
                }
            });
            let few = self.far.len() == 0 && *count <= NEAR / 2;
            self.bound = taken.filter(|_| !few).unwrap_or(u64::MAX);
        } else {
            // A crowd has one time, which is where the other part begins.
            for event in crowd.drain(..crowd.len().min(NEAR)) {
                stand_in(near, count, self.bound, event);
            }
        }
        self.count > 0
    }
}

/// Puts an event into a row that has a place, before all that are due earlier or were there before it with the same
/// time. `%` only removes the bounds check.
#[inline]
fn stand_in<E: Copy>(near: &mut [(u64, E); NEAR], count: &mut usize, at: u64, event: E) {
    let mut place = *count;
    *count += 1;
    while place > 0 {
        let next = near[(place - 1) % NEAR];
        if next.0 > at {
            break;
        }
        near[place % NEAR] = next;
        place -= 1;
    }
    near[place % NEAR] = (at, event);
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

    /// More events for one nanosecond than the row holds, and as many again that are scheduled while they happen.
    #[test]
    fn a_crowd_at_one_time_comes_in_its_order() {
        let crowd = 10 * NEAR;
        let (mut queue, at) = (Queue::new(), Instant::from_secs(1));
        (0..crowd).for_each(|event| queue.push(at, event));
        for event in 0..2 * crowd {
            assert_eq!(queue.pop(), Some((at, event)));
            if event < crowd {
                queue.push(Instant::ZERO, crowd + event);
            }
            assert!(event + 1 == 2 * crowd || !queue.has_nothing_due());
        }
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
