//! What stands in the map of a HAProxy, and whose it is.
//!
//! `reviews 25` lets a quarter of the requests to the backend `reviews` be retried. Beside it stands our mark,
//! `retryguard/reviews 1250000000`: the step, and the share in billionths as nine digits; 0 is off. The values of such a map are
//! whole numbers. No backend can have the name of a mark, because HAProxy allows no slash in one.

use std::collections::BTreeMap;

use retryguard_core::ratio::Ratio;

use crate::adapters::actuator::instances::Mark;
use crate::domain::state::RetryState;

const MARK: &str = "retryguard/";
/// The most entries that are read.
const MOST_ENTRIES: usize = 100_000;

/// The entries of a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Map {
    entries: BTreeMap<String, String>,
}

/// One command that changes a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    Add { key: String, value: String },
    Set { key: String, value: String },
    Remove { key: String },
}

/// The share of requests that may be retried, in percent; `None` for what the user configured.
pub(super) fn percent(desired: RetryState) -> Option<u64> {
    match desired {
        RetryState::Original => None,
        RetryState::Off => Some(0),
        // A share is never rounded to all or nothing.
        RetryState::Part { share, .. } => Some((share.parts() / (Ratio::ONE.parts() / 100)).clamp(1, 99)),
    }
}

impl Map {
    /// From the answer to `show map`: an address, a key and a value on each line.
    pub(super) fn read(answer: &str) -> Result<Self, String> {
        let mut entries = BTreeMap::new();
        for line in answer.lines().filter(|line| !line.trim().is_empty()) {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(key), Some(value)) = (words.next(), words.next(), words.next()) else {
                return Err(format!("it answers {:?}", shortened(answer)));
            };
            if !address.starts_with("0x") || entries.len() == MOST_ENTRIES {
                return Err(format!("it answers {:?}", shortened(answer)));
            }
            // The first entry of a key is the one that HAProxy finds.
            entries.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
        Ok(Self { entries })
    }

    /// The backends that bear our mark.
    pub(super) fn marked(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().filter_map(|key| key.strip_prefix(MARK))
    }

    /// Whose the entry of `backend` is.
    pub(super) fn mark(&self, backend: &str) -> Mark {
        let found = self.entries.get(backend);
        let Some(desired) = self.entries.get(&mark_of(backend)).and_then(|text| read(text)) else {
            return match found {
                Some(value) => Mark::Foreign(format!("{backend} is {value} in the map, without our mark")),
                None => Mark::None,
            };
        };
        let expected = percent(desired).map(|percent| percent.to_string());
        if found == expected.as_ref() {
            Mark::Ours(desired)
        } else {
            let found = found.map_or("nothing", String::as_str);
            Mark::Changed(format!("{backend} was set to {found} in the map"))
        }
    }

    /// The edits that make `desired` true of `backend`; empty where it is. A mark is written before what it marks, and removed
    /// after it: a controller that is killed between the two finds an entry that it takes for a dispute, never one that it takes
    /// for the user's own. What was written over ours from elsewhere is left alone.
    pub(super) fn towards(&self, backend: &str, desired: RetryState) -> Vec<Edit> {
        let mark = mark_of(backend);
        let edit = |key: &str, value: String| match self.entries.get(key) {
            Some(found) if *found == value => None,
            Some(_) => Some(Edit::Set {
                key: key.to_owned(),
                value,
            }),
            None => Some(Edit::Add {
                key: key.to_owned(),
                value,
            }),
        };
        if let Some(percent) = percent(desired) {
            return [edit(&mark, write(desired)), edit(backend, percent.to_string())]
                .into_iter()
                .flatten()
                .collect();
        }
        let ours = matches!(self.mark(backend), Mark::Ours(_));
        [backend, &mark]
            .into_iter()
            .filter(|key| self.entries.contains_key(*key) && (ours || *key == mark))
            .map(|key| Edit::Remove { key: key.to_owned() })
            .collect()
    }
}

fn mark_of(backend: &str) -> String {
    format!("{MARK}{backend}")
}

/// Billionths of a share in one step.
const WHOLE: u64 = 1_000_000_000;

fn write(desired: RetryState) -> String {
    match desired {
        RetryState::Original => String::new(),
        RetryState::Off => "0".to_owned(),
        RetryState::Part { step, share } => (u64::from(step) * WHOLE + share.parts() % WHOLE).to_string(),
    }
}

fn read(text: &str) -> Option<RetryState> {
    let number: u64 = text.parse().ok()?;
    if number == 0 {
        return Some(RetryState::Off);
    }
    let share = Ratio::from_parts(number % WHOLE);
    (share > Ratio::ZERO).then_some(RetryState::Part {
        step: (number / WHOLE).try_into().ok()?,
        share,
    })
}

fn shortened(text: &str) -> String {
    text.trim().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What HAProxy does with an edit.
    fn apply(map: &mut Map, edits: Vec<Edit>) {
        for edit in edits {
            match edit {
                Edit::Add { key, value } => assert_eq!(map.entries.insert(key, value), None),
                Edit::Set { key, value } => assert!(map.entries.insert(key, value).is_some()),
                Edit::Remove { key } => assert!(map.entries.remove(&key).is_some()),
            }
        }
    }

    fn desired() -> impl Strategy<Value = RetryState> {
        prop_oneof![
            Just(RetryState::Original),
            Just(RetryState::Off),
            (any::<u8>(), 1_u64..1_000_000_000).prop_map(|(step, parts)| RetryState::Part {
                step,
                share: Ratio::from_parts(parts),
            }),
        ]
    }

    #[test]
    fn an_answer_is_read() {
        let map = Map::read("0x55be849968b0 reviews 0\n0x55be849968c0 retryguard/reviews 0\n\n").unwrap();
        assert_eq!(map.mark("reviews"), Mark::Ours(RetryState::Off));
        assert_eq!(map.marked().collect::<Vec<_>>(), ["reviews"]);
        assert_eq!(map.mark("ratings"), Mark::None);
        assert_eq!(Map::read("\n").unwrap(), Map::default());
        for wrong in [
            "Unknown map identifier. Please use #<id> or <file>.\n",
            "Permission denied\n",
            "0x1 reviews\n",
        ] {
            assert!(Map::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_operators_entry_is_not_ours() {
        let map = Map::read("0x1 reviews 50\n").unwrap();
        assert!(matches!(map.mark("reviews"), Mark::Foreign(_)));
        assert_eq!(map.towards("reviews", RetryState::Original), []);
        let changed = Map::read("0x1 reviews 50\n0x2 retryguard/reviews 0\n").unwrap();
        assert!(matches!(changed.mark("reviews"), Mark::Changed(_)));
        let edits = changed.towards("reviews", RetryState::Original);
        let key = "retryguard/reviews".to_owned();
        assert_eq!(edits, [Edit::Remove { key }], "what they wrote stays");
    }

    proptest! {
        #[test]
        fn every_state_is_reached_from_every_other_and_found_again(states in proptest::collection::vec(desired(), 1..6)) {
            let mut map = Map::default();
            for state in states {
                let edits = map.towards("a", state);
                apply(&mut map, edits);
                let expected = match state {
                    RetryState::Original => Mark::None,
                    other => Mark::Ours(other),
                };
                prop_assert_eq!(map.mark("a"), expected);
                prop_assert_eq!(map.towards("a", state), vec![]);
            }
        }

        /// A controller that is killed between two edits leaves no entry without a mark.
        #[test]
        fn no_prefix_of_edits_leaves_an_entry_without_a_mark(from in desired(), to in desired(), made in 0_usize..3) {
            let mut map = Map::default();
            let edits = map.towards("a", from);
            apply(&mut map, edits);
            let mut edits = map.towards("a", to);
            edits.truncate(made);
            apply(&mut map, edits);
            prop_assert!(!matches!(map.mark("a"), Mark::Foreign(_)));
        }

        #[test]
        fn no_answer_brings_it_down(answer in "(0x[0-9a-f]{0,3} ?\\PC{0,9}\n?){0,5}") {
            let _ = Map::read(&answer);
        }
    }
}
