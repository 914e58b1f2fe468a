//! What must change: a pure function of what is observed and what is wanted.

use crate::actuator::{Held, Wish};

/// What a data plane holds, as far as we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed<'a> {
    /// It was not asked yet.
    Unknown,
    /// A change failed, and whether it was made all the same is not known.
    Unsure,
    /// It said so, or made the change that was asked of it.
    Known(&'a Held),
}

/// The changes that bring what is observed to what is wanted, the most urgent first: what stops a storm goes
/// before what gives retries back, and a ramp's next step can wait for both.
///
/// Nothing is changed while it is not known what is there. What somebody else has changed is left as it is; when
/// the user's own configuration is wanted again, the actuator is told so, and forgets that there was a dispute.
#[must_use]
pub fn plan<'a, K>(rows: impl IntoIterator<Item = (K, Wish, Observed<'a>)>) -> Vec<(K, Wish)> {
    let mut changes: Vec<(K, Wish)> = rows
        .into_iter()
        .filter(|(_, wanted, observed)| differs(*wanted, *observed))
        .map(|(key, wanted, _)| (key, wanted))
        .collect();
    changes.sort_by_key(|(_, wish)| urgency(*wish));
    changes
}

fn differs(wanted: Wish, observed: Observed<'_>) -> bool {
    match observed {
        Observed::Unknown => false,
        Observed::Unsure => true,
        Observed::Known(Held::Theirs(_)) => wanted == Wish::Original,
        Observed::Known(Held::Ours(held)) => *held != wanted,
    }
}

const fn urgency(wish: Wish) -> u8 {
    match wish {
        Wish::Off => 0,
        Wish::Original => 1,
        Wish::Part { .. } => 2,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use retryguard_core::Ratio;

    use super::*;

    fn wish() -> impl Strategy<Value = Wish> {
        prop_oneof![
            Just(Wish::Original),
            Just(Wish::Off),
            (0_u8..4).prop_map(|step| Wish::Part {
                step,
                share: Ratio::percent(u32::from(step) * 10 + 5),
            }),
        ]
    }

    /// What a test's data plane holds: nothing known, unsure, or an answer.
    #[derive(Debug, Clone, PartialEq, Eq)]
    enum Memory {
        Unknown,
        Unsure,
        Known(Held),
    }

    fn memory() -> impl Strategy<Value = Memory> {
        prop_oneof![
            Just(Memory::Unknown),
            Just(Memory::Unsure),
            wish().prop_map(|wish| Memory::Known(Held::Ours(wish))),
            Just(Memory::Known(Held::Theirs("changed by hand".to_owned()))),
        ]
    }

    fn rows(world: &[(Wish, Memory)]) -> impl Iterator<Item = (usize, Wish, Observed<'_>)> {
        world.iter().enumerate().map(|(key, (wish, memory))| {
            let observed = match memory {
                Memory::Unknown => Observed::Unknown,
                Memory::Unsure => Observed::Unsure,
                Memory::Known(held) => Observed::Known(held),
            };
            (key, *wish, observed)
        })
    }

    proptest! {
        /// Made once, the changes bring every target that is known and ours to what is wanted, and touch no
        /// other; made again, there is nothing left to do.
        #[test]
        fn a_plan_reaches_what_is_wanted_and_rests(
            mut world in proptest::collection::vec((wish(), memory()), 0..40),
        ) {
            let before = world.clone();
            for (key, wish) in plan(rows(&world)) {
                let made = Memory::Known(Held::Ours(wish));
                prop_assert_ne!(&world[key].1, &made, "no change without need");
                world[key].1 = made;
            }
            for ((wanted, now), (_, then)) in world.iter().zip(&before) {
                let left = match then {
                    Memory::Unknown => true,
                    Memory::Known(Held::Theirs(_)) => *wanted != Wish::Original,
                    Memory::Unsure | Memory::Known(Held::Ours(_)) => false,
                };
                if left {
                    prop_assert_eq!(now, then);
                } else {
                    prop_assert_eq!(now, &Memory::Known(Held::Ours(*wanted)));
                }
            }
            prop_assert!(plan(rows(&world)).is_empty());
        }

        /// Switching off never waits behind anything else.
        #[test]
        fn what_stops_a_storm_comes_first(world in proptest::collection::vec((wish(), memory()), 0..40)) {
            let order: Vec<u8> = plan(rows(&world)).iter().map(|(_, wish)| urgency(*wish)).collect();
            prop_assert!(order.is_sorted());
        }
    }
}
