//! Places for what is under way, and handles that go stale.

use std::{
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
};

/// Names a value in a [`Slab`] of its kind. Once the value is gone its handle means nothing, also after the slot has
/// been taken by another: an event that comes too late finds nothing, and not another entry.
pub struct Handle<T> {
    index: u32,
    generation: u32,
    kind: PhantomData<fn() -> T>,
}

/// The bits that a handle takes as a number.
pub const HANDLE_BITS: u32 = 32 + INDEX_BITS;

// Written out, because what is named need not be any of this itself.
impl<T> Clone for Handle<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_u64() == other.as_u64()
    }
}

impl<T> Eq for Handle<T> {}

impl<T> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_u64().hash(state);
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({}, {})", self.index, self.generation)
    }
}

impl<T> Handle<T> {
    /// The handle as one number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        (self.index as u64) << 32 | self.generation as u64
    }

    /// The handle from its number.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the number")]
    pub const fn from_u64(number: u64) -> Self {
        Self {
            index: (number >> 32) as u32,
            generation: number as u32,
            kind: PhantomData,
        }
    }
}

/// The bits of the number of a slot.
const INDEX_BITS: u32 = 27;

/// Values under way, each in a slot that is used again when it is gone.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Puts a value in.
    #[inline]
    pub fn insert(&mut self, value: T) -> Handle<T> {
        self.insert_with(|_| value)
    }

    /// Puts a value in that must know its own name. It is made in its slot, so that nothing large is moved; always
    /// part of its caller, so that what it is made of need not be gathered in memory first.
    #[inline(always)]
    pub fn insert_with(&mut self, make: impl FnOnce(Handle<T>) -> T) -> Handle<T> {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let slot = &mut self.slots[index as usize];
        let handle = Handle {
            index,
            generation: slot.generation,
            kind: PhantomData,
        };
        assert!(slot.value.is_none(), "a free slot is empty");
        slot.value = Some(make(handle));
        handle
    }

    #[cold]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number of a slot has fewer bits"
    )]
    fn grow(&mut self) -> u32 {
        assert!(
            self.slots.len() < 1 << INDEX_BITS,
            "more than 134 million calls are under way at once: simulate fewer clients, or carry them as cohorts"
        );
        self.slots.push(Slot {
            generation: 0,
            value: None,
        });
        (self.slots.len() - 1) as u32
    }

    /// The value, if it is still there.
    #[inline]
    #[must_use]
    pub fn get(&self, handle: Handle<T>) -> Option<&T> {
        let slot = self.slots.get(handle.index as usize)?;
        slot.value
            .as_ref()
            .filter(|_| slot.generation == handle.generation)
    }

    /// The value, if it is still there.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        slot.value
            .as_mut()
            .filter(|_| slot.generation == handle.generation)
    }

    /// Takes the value out, if it is still there.
    #[inline]
    pub fn remove(&mut self, handle: Handle<T>) -> Option<T> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        if slot.generation != handle.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle.index);
        Some(value)
    }

    /// Drops the value where it is, if it is still there: nothing large is moved.
    #[inline]
    pub fn forget(&mut self, handle: Handle<T>) {
        if let Some(slot) = self.slots.get_mut(handle.index as usize)
            && slot.generation == handle.generation
            && slot.value.is_some()
        {
            slot.value = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(handle.index);
        }
    }

    /// How many values are there.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether nothing is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every value that is there.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_of_something_gone_finds_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let mut named = None;
        let second = slab.insert_with(|handle| {
            named = Some(handle);
            'b'
        });
        assert_eq!(named, Some(second));
        let third = slab.insert('c');
        slab.forget(third);
        slab.forget(third);
        assert_eq!(slab.get(third), None);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
        assert_eq!(Handle::from_u64(second.as_u64()), second);
        assert_eq!(slab.len(), 1);
    }
}
