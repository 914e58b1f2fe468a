//! The clients of an edge, and what each of them knows of the service.

use std::ops::{Index, IndexMut};

use retryguard_core::{Instant, Target};

use super::endpoints::Known;
use crate::client_policy::extra::Part;

/// One client instance's side of an edge.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) target: Target,
    pub(super) part: Part,
    /// The replicas of the service, where the caller knows them.
    pub(super) known: Option<Box<Known>>,
}

/// The clients that have made a call, in the order of their first calls: of ten million clients most may never make one.
#[derive(Debug, Default)]
pub(super) struct Peers {
    made: Vec<Peer>,
    /// The place of each client in `made`, by its number; [`NONE`] where it has made no call.
    places: Vec<u32>,
    /// A client is known from the first call of any client with its number or a larger one. So of those that were passed over:
    /// the last of them, and when.
    passed_over: Vec<(u32, Instant)>,
}

const NONE: u32 = u32::MAX;

impl Peers {
    /// The place of the client of this number, once it has made a call.
    #[inline]
    pub(super) fn place(&self, number: u32) -> Option<u32> {
        self.places
            .get(number as usize)
            .copied()
            .filter(|place| *place != NONE)
    }

    /// Makes the client of this number. `make` receives the time since which it is known.
    #[cold]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number of clients has 32 bits"
    )]
    pub(super) fn add(&mut self, number: u32, now: Instant, make: impl FnOnce(Instant) -> Peer) -> u32 {
        let known = self.places.len() as u32;
        let since = if number < known {
            let run = self.passed_over.partition_point(|(last, _)| *last < number);
            self.passed_over.get(run).map_or(now, |(_, since)| *since)
        } else {
            if number > known {
                self.passed_over.push((number - 1, now));
            }
            self.places.resize(number as usize + 1, NONE);
            now
        };
        let place = self.made.len() as u32;
        self.made.push(make(since));
        self.places[number as usize] = place;
        place
    }

    /// How many clients are known.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The clients with the lowest numbers, so many of them; `None` for one that has made no call.
    pub(super) fn first(&self, count: usize) -> impl Iterator<Item = Option<&Peer>> {
        self.places
            .iter()
            .take(count)
            .map(|place| self.made.get(*place as usize))
    }
}

impl Index<usize> for Peers {
    type Output = Peer;

    #[inline]
    fn index(&self, place: usize) -> &Peer {
        &self.made[place]
    }
}

impl IndexMut<usize> for Peers {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut Peer {
        &mut self.made[place]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// When each client would be known if all clients up to the largest number were made at once.
    #[test]
    fn a_client_is_known_since_the_first_call_of_its_number_or_a_larger_one() {
        let settings = Arc::new(retryguard_core::target::Settings::default());
        let mut peers = Peers::default();
        let mut expected: Vec<Instant> = Vec::new();
        for (second, number) in [3_u32, 1, 4, 9, 0, 7, 20, 12, 15, 21, 2].into_iter().enumerate() {
            let now = Instant::from_secs(second as u64);
            while expected.len() <= number as usize {
                expected.push(now);
            }
            assert_eq!(peers.place(number), None);
            let place = peers.add(number, now, |since| {
                assert_eq!(since, expected[number as usize], "{number}");
                Peer {
                    target: Target::new(settings.clone(), since),
                    part: Part::None,
                    known: None,
                }
            });
            assert_eq!(peers.place(number), Some(place));
            assert_eq!(place as usize, second);
        }
        assert_eq!(peers.len(), 22);
        let made = peers.first(10).map(|peer| peer.is_some());
        assert!(made.eq([true, true, true, true, true, false, false, true, false, true]));
    }
}
