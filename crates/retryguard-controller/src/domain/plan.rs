//! What must change: a pure function of what is observed and what is wanted.

use crate::domain::state::{Observed, RetryState};

/// What a data plane holds, as far as we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedState<'a> {
    /// It was not asked yet.
    Unknown,
    /// A change failed, and whether it was made all the same is not known.
    Uncertain,
    /// It said so, or made the change that was asked of it.
    Known(&'a Observed),
}

/// The changes that bring what is observed to what is wanted, the most urgent first: what stops a storm goes
/// before what gives retries back, and a ramp's next step can wait for both.
///
/// Nothing is changed while it is not known what is there. What was changed outside this controller is left as it is; when
/// the user's own configuration is wanted again, the actuator is notified, and forgets that there was a dispute.
#[must_use]
pub fn plan<'a, K>(
    rows: impl IntoIterator<Item = (K, RetryState, ObservedState<'a>)>,
) -> Vec<(K, RetryState)> {
    let mut changes: Vec<(K, RetryState)> = rows
        .into_iter()
        .filter(|(_, wanted, observed)| differs(*wanted, *observed))
        .map(|(key, wanted, _)| (key, wanted))
        .collect();
    changes.sort_by_key(|(_, desired)| urgency(*desired));
    changes
}

fn differs(wanted: RetryState, observed: ObservedState<'_>) -> bool {
    match observed {
        ObservedState::Unknown => false,
        ObservedState::Uncertain => true,
        ObservedState::Known(Observed::Overridden(_)) => wanted == RetryState::Original,
        ObservedState::Known(Observed::Managed(held)) => *held != wanted,
    }
}

const fn urgency(desired: RetryState) -> u8 {
    match desired {
        RetryState::Off => 0,
        RetryState::Original => 1,
        RetryState::Part { .. } => 2,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use retryguard_core::Ratio;

    use super::*;

    fn desired() -> impl Strategy<Value = RetryState> {
        prop_oneof![
            Just(RetryState::Original),
            Just(RetryState::Off),
            (0_u8..4).prop_map(|step| RetryState::Part {
                step,
                share: Ratio::percent(u32::from(step) * 10 + 5),
            }),
        ]
    }

    /// What a test's data plane holds: nothing known, unsure, or an answer.
    #[derive(Debug, Clone, PartialEq, Eq)]
    enum Memory {
        Unknown,
        Uncertain,
        Known(Observed),
    }

    fn memory() -> impl Strategy<Value = Memory> {
        prop_oneof![
            Just(Memory::Unknown),
            Just(Memory::Uncertain),
            desired().prop_map(|desired| Memory::Known(Observed::Managed(desired))),
            Just(Memory::Known(Observed::Overridden("changed by hand".to_owned()))),
        ]
    }

    fn rows(world: &[(RetryState, Memory)]) -> impl Iterator<Item = (usize, RetryState, ObservedState<'_>)> {
        world.iter().enumerate().map(|(key, (desired, memory))| {
            let observed = match memory {
                Memory::Unknown => ObservedState::Unknown,
                Memory::Uncertain => ObservedState::Uncertain,
                Memory::Known(held) => ObservedState::Known(held),
            };
            (key, *desired, observed)
        })
    }

    proptest! {
        /// Made once, the changes bring every target that is known and ours to what is wanted, and touch no
        /// other; made again, there is nothing left to do.
        #[test]
        fn a_plan_reaches_what_is_wanted_and_rests(
            mut world in proptest::collection::vec((desired(), memory()), 0..40),
        ) {
            let before = world.clone();
            for (key, desired) in plan(rows(&world)) {
                let made = Memory::Known(Observed::Managed(desired));
                prop_assert_ne!(&world[key].1, &made, "no change without need");
                world[key].1 = made;
            }
            for ((wanted, now), (_, then)) in world.iter().zip(&before) {
                let left = match then {
                    Memory::Unknown => true,
                    Memory::Known(Observed::Overridden(_)) => *wanted != RetryState::Original,
                    Memory::Uncertain | Memory::Known(Observed::Managed(_)) => false,
                };
                if left {
                    prop_assert_eq!(now, then);
                } else {
                    prop_assert_eq!(now, &Memory::Known(Observed::Managed(*wanted)));
                }
            }
            prop_assert!(plan(rows(&world)).is_empty());
        }

        /// Switching off never waits behind anything else.
        #[test]
        fn what_stops_a_storm_comes_first(world in proptest::collection::vec((desired(), memory()), 0..40)) {
            let order: Vec<u8> = plan(rows(&world)).iter().map(|(_, desired)| urgency(*desired)).collect();
            prop_assert!(order.is_sorted());
        }
    }
}
