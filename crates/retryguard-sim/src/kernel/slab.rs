//! Places for what is under way, and handles that go stale.

use std::{
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
};

/// Names a thing in a [`Slab`] of its kind. Once the thing is gone its handle means nothing, also after the place has
/// been taken by another: an event that comes too late finds nothing, and not another entry.
pub struct Handle<T> {
    index: u32,
    turn: u32,
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
        write!(f, "Handle({}, {})", self.index, self.turn)
    }
}

impl<T> Handle<T> {
    /// The handle as one number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        (self.index as u64) << 32 | self.turn as u64
    }

    /// The handle from its number.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the number")]
    pub const fn from_u64(number: u64) -> Self {
        Self {
            index: (number >> 32) as u32,
            turn: number as u32,
            kind: PhantomData,
        }
    }
}

/// The bits of the number of a place.
const INDEX_BITS: u32 = 27;

/// Things under way, each in a place that is used again when it is gone.
#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    turn: u32,
    thing: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Puts a thing in.
    #[inline]
    pub fn insert(&mut self, thing: T) -> Handle<T> {
        self.insert_with(|_| thing)
    }

    /// Puts a thing in that must know its own name. It is made in its place, so that nothing large is moved; always
    /// part of its caller, so that what it is made of need not be gathered in memory first.
    #[inline(always)]
    pub fn insert_with(&mut self, make: impl FnOnce(Handle<T>) -> T) -> Handle<T> {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let place = &mut self.places[index as usize];
        let handle = Handle {
            index,
            turn: place.turn,
            kind: PhantomData,
        };
        assert!(place.thing.is_none(), "a free place is empty");
        place.thing = Some(make(handle));
        handle
    }

    #[cold]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number of a place has fewer bits"
    )]
    fn grow(&mut self) -> u32 {
        assert!(
            self.places.len() < 1 << INDEX_BITS,
            "more than 134 million calls are under way at once: simulate fewer clients, or carry them as cohorts"
        );
        self.places.push(Place { turn: 0, thing: None });
        (self.places.len() - 1) as u32
    }

    /// The thing, if it is still there.
    #[inline]
    #[must_use]
    pub fn get(&self, handle: Handle<T>) -> Option<&T> {
        let place = self.places.get(handle.index as usize)?;
        place.thing.as_ref().filter(|_| place.turn == handle.turn)
    }

    /// The thing, if it is still there.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        let place = self.places.get_mut(handle.index as usize)?;
        place.thing.as_mut().filter(|_| place.turn == handle.turn)
    }

    /// Takes the thing out, if it is still there.
    #[inline]
    pub fn remove(&mut self, handle: Handle<T>) -> Option<T> {
        let place = self.places.get_mut(handle.index as usize)?;
        if place.turn != handle.turn {
            return None;
        }
        let thing = place.thing.take()?;
        place.turn = place.turn.wrapping_add(1);
        self.free.push(handle.index);
        Some(thing)
    }

    /// Drops the thing where it is, if it is still there: nothing large is moved.
    #[inline]
    pub fn forget(&mut self, handle: Handle<T>) {
        if let Some(place) = self.places.get_mut(handle.index as usize)
            && place.turn == handle.turn
            && place.thing.is_some()
        {
            place.thing = None;
            place.turn = place.turn.wrapping_add(1);
            self.free.push(handle.index);
        }
    }

    /// How many things are there.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether nothing is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every thing that is there.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.thing.as_mut())
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
