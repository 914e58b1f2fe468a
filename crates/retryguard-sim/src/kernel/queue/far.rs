//! Events that lie further ahead: a radix heap of base 64.
//!
//! Time only moves forward, so an event is filed by the highest group of six bits in which its time differs from the
//! present: level 0 holds what happens in this very group of nanoseconds, level 1 what happens 64 times further away,
//! and so on. A slot that is reached and holds many events is dealt out over the levels below. An event is moved at
//! most once a level, whatever the number of events that wait, and always in long runs through memory; a binary heap
//! compares and jumps about in proportion to the logarithm of that number, and misses the cache at nearly every step
//! once a million events wait.

/// Bits of the time that one level sorts by.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 64_usize.div_ceil(BITS as usize);

/// A slot keeps its memory for the next use up to this many events, so that a queue that was once large does
/// not stay so.
const KEPT: usize = 1024;

/// Events by the slot of time that they fall into. Two events of the same time always stand in the same slot, a slot
/// is first in, first out, and dealing keeps the order.
#[derive(Debug)]
pub(super) struct Far<E> {
    slots: Vec<Vec<(u64, E)>>,
    /// For each level, which of its slots hold anything; and which levels have such a slot.
    occupied: [u64; LEVELS],
    levels: u32,
    /// The earliest time of the slot that was taken last; nothing that is filed lies before it.
    now: u64,
    length: usize,
}

impl<E: Copy> Far<E> {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..SLOTS * LEVELS).map(|_| Vec::new()).collect(),
            occupied: [0; LEVELS],
            levels: 0,
            now: 0,
            length: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.length
    }

    /// Files an event, which must not lie before anything that was taken.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a slot's number has six bits")]
    pub(super) fn file(&mut self, at: u64, event: E) {
        debug_assert!(at >= self.now, "time moves forward");
        // The lowest bit makes no difference to the level, and stands for no difference at all.
        let level = (((at ^ self.now) | 1).ilog2() / BITS) as usize;
        let slot = (at >> (level as u32 * BITS)) as usize & (SLOTS - 1);
        self.slots[level * SLOTS + slot].push((at, event));
        self.occupied[level] |= 1 << slot;
        self.levels |= 1 << level;
        self.length += 1;
    }

    /// Takes the earliest slot that holds at most `most` events, or events of one time only, whose number nothing can
    /// divide; `None` if nothing waits. Hands its events over in the order in which they were filed, and says from
    /// when on events are filed here again: from the end of the slot on, or, of a single nanosecond, within it, so
    /// that however many come for that nanosecond queue up here.
    pub(super) fn take(&mut self, most: usize, mut hand: impl FnMut(u64, E)) -> Option<u64> {
        if self.length == 0 {
            return None;
        }
        loop {
            let level = self.levels.trailing_zeros() as usize;
            let occupied = &mut self.occupied[level];
            let slot = occupied.trailing_zeros() as usize;
            *occupied &= *occupied - 1;
            if *occupied == 0 {
                self.levels &= self.levels - 1;
            }
            let place = level * SLOTS + slot;
            let events = &mut self.slots[place];
            self.now = events
                .iter()
                .map(|&(at, _)| at)
                .min()
                .expect("an occupied slot holds an event");
            if level > 0 && events.len() > most {
                self.deal(place);
                continue;
            }
            self.length -= events.len();
            events.iter().for_each(|&(at, event)| hand(at, event));
            if events.capacity() <= KEPT {
                events.clear();
            } else {
                *events = Vec::new();
            }
            let width = BITS * u32::try_from(level).expect("there are eleven levels");
            let last = (self.now | ((1 << width) - 1)).saturating_add(u64::from(level > 0));
            return Some(last);
        }
    }

    /// Deals a slot out over the levels below, after the present has moved into it.
    #[cold]
    fn deal(&mut self, place: usize) {
        let mut events = std::mem::take(&mut self.slots[place]);
        self.length -= events.len();
        for (at, event) in events.drain(..) {
            self.file(at, event);
        }
        if events.capacity() <= KEPT {
            self.slots[place] = events;
        }
    }
}
