//! From the annotations of one object and what is wanted of it to the annotations that it shall have. Pure.
//!
//! **Precedence.** The annotations that stand there when we first touch an object are the user's, and they come back. Where
//! other values stand than those that we wrote, the user has changed them: they stand, and the object is left alone until
//! the target's retries are back to normal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::adapters::actuator::routes::block::part;
use crate::adapters::actuator::stored_state::StoredState;
use crate::domain::state::{RetryState, stricter};

/// What HTTP answers are retried.
pub(super) const HTTP: &str = "retry.linkerd.io/http";
/// What gRPC answers are retried.
pub(super) const GRPC: &str = "retry.linkerd.io/grpc";
/// How often at most. Linkerd reads zero as unset.
pub(super) const LIMIT: &str = "retry.linkerd.io/limit";
/// How often Linkerd retries where there is no limit.
const DEFAULT_LIMIT: u32 = 1;
/// The annotations that are written. Others, such as `retry.linkerd.io/timeout`, are left alone.
const KEYS: [&str; 3] = [HTTP, GRPC, LIMIT];

/// What we hold of an object, kept in an annotation of the object itself.
pub(super) const HELD: &str = "retryguard.io/held";

/// The form that this version writes.
const FORM: u32 = 1;

pub(super) type Annotations = BTreeMap<String, String>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    form: u32,
    /// The user's own annotations under our keys.
    original: Annotations,
    /// What we wrote last under our keys. Where something else stands now, the user has changed it.
    ours: Annotations,
    /// The user has changed them while we held them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) yielded: bool,
    /// What each target wants of this object.
    pub(super) wishes: BTreeMap<String, StoredState>,
}

impl Record {
    /// # Errors
    /// When the annotation is there and is not what we write.
    pub(super) fn read(annotations: &Annotations) -> Result<Option<Self>, String> {
        let Some(text) = annotations.get(HELD) else {
            return Ok(None);
        };
        let record: Self = serde_json::from_str(text).map_err(|error| {
            format!(
                "the annotation {HELD} is not what we wrote ({error}): set its retries by hand and remove it"
            )
        })?;
        if record.form != FORM {
            return Err(format!(
                "the annotation {HELD} has form {}, and this version knows form {FORM}: use the version that wrote it",
                record.form
            ));
        }
        let now = ours_of(annotations);
        Ok(Some(Self {
            yielded: record.yielded || now != record.ours,
            ..record
        }))
    }

    fn strictest(&self) -> Option<RetryState> {
        let desired = self.wishes.values().map(|wish| wish.desired());
        desired.reduce(stricter)
    }
}

/// What is to be done with one object.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// The annotations to write; `None` removes one.
    pub(super) changes: BTreeMap<String, Option<String>>,
    /// How many retries the user allows; none where Linkerd does not retry.
    pub(super) attempts: u32,
    /// Whether it is left alone because the user has changed it.
    pub(super) yielded: bool,
}

/// # Errors
/// When the object's record is not what we write.
pub(super) fn plan(annotations: &Annotations, target: &str, desired: RetryState) -> Result<Plan, String> {
    let before = Record::read(annotations)?;
    let held = before.is_some();
    let mut record = before.unwrap_or_else(|| Record {
        form: FORM,
        original: ours_of(annotations),
        ours: ours_of(annotations),
        yielded: false,
        wishes: BTreeMap::new(),
    });
    let attempts = attempts(if record.yielded {
        annotations
    } else {
        &record.original
    });
    match StoredState::new(desired) {
        // What does not retry is not touched.
        Some(stored) if held || attempts > 0 => {
            record.wishes.insert(target.to_owned(), stored);
        }
        _ => {
            record.wishes.remove(target);
        }
    }
    let mut after = annotations.clone();
    let strictest = record.strictest();
    if !record.yielded {
        record.ours = match strictest {
            None => record.original.clone(),
            Some(state) => wanted(&record.original, attempts, state),
        };
        for key in KEYS {
            after.remove(key);
        }
        after.extend(record.ours.clone());
    }
    after.remove(HELD);
    if strictest.is_some() {
        let text = serde_json::to_string(&record).map_err(|error| error.to_string())?;
        after.insert(HELD.to_owned(), text);
    }
    Ok(Plan {
        changes: difference(annotations, &after),
        attempts,
        yielded: record.yielded,
    })
}

fn ours_of(annotations: &Annotations) -> Annotations {
    let ours = annotations.iter().filter(|(key, _)| KEYS.contains(&key.as_str()));
    ours.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// How many retries these annotations allow; none where they do not say what to retry.
pub(super) fn attempts(annotations: &Annotations) -> u32 {
    let retries = [HTTP, GRPC].iter().any(|key| {
        let value = annotations.get(*key);
        value.is_some_and(|value| !value.trim().is_empty())
    });
    let limit = annotations.get(LIMIT).and_then(|text| text.trim().parse().ok());
    match limit {
        _ if !retries => 0,
        None | Some(0) => DEFAULT_LIMIT,
        Some(limit) => limit,
    }
}

/// Off removes what to retry, because a limit of zero reads as unset.
fn wanted(original: &Annotations, attempts: u32, state: RetryState) -> Annotations {
    let mut wanted = original.clone();
    match state {
        RetryState::Original => {}
        RetryState::Off => {
            wanted.remove(HTTP);
            wanted.remove(GRPC);
        }
        RetryState::Part { share, .. } => {
            wanted.insert(LIMIT.to_owned(), part(attempts, share).to_string());
        }
    }
    wanted
}

fn difference(before: &Annotations, after: &Annotations) -> BTreeMap<String, Option<String>> {
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), None));
    let new = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(*value));
    gone.chain(new.map(|(key, value)| (key.clone(), Some(value.clone()))))
        .collect()
}

#[cfg(test)]
mod tests {
    use retryguard_core::ratio::Ratio;

    use super::*;

    const HALF: RetryState = RetryState::Part {
        step: 2,
        share: Ratio::percent(50),
    };

    fn user() -> Annotations {
        let all = [
            (HTTP, "5xx"),
            (LIMIT, "4"),
            ("retry.linkerd.io/timeout", "1s"),
            ("team", "shop"),
        ];
        all.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    /// What stands in running clusters since the first version. A controller that takes over gives it back.
    #[test]
    fn the_record_of_an_older_controller_is_read() {
        let text = r#"{"form":1,"original":{"retry.linkerd.io/http":"5xx","retry.linkerd.io/limit":"4"},"ours":{"retry.linkerd.io/limit":"4"},"wishes":{"reviews":"off"}}"#;
        let mut older = user();
        older.remove(HTTP);
        older.insert(HELD.to_owned(), text.to_owned());
        let record = Record::read(&older).unwrap().unwrap();
        assert_eq!(record.strictest(), Some(RetryState::Off));
        assert!(!record.yielded);
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
        settle(&mut older, "reviews", RetryState::Original);
        assert_eq!(older, user());
    }

    fn settle(annotations: &mut Annotations, target: &str, desired: RetryState) -> Plan {
        let first = plan(annotations, target, desired).unwrap();
        for (key, value) in &first.changes {
            match value {
                Some(value) => annotations.insert(key.clone(), value.clone()),
                None => annotations.remove(key),
            };
        }
        let again = plan(annotations, target, desired).unwrap();
        assert!(again.changes.is_empty(), "written twice: {again:?}");
        first
    }

    #[test]
    fn off_removes_what_to_retry_the_ramp_counts_and_the_end_is_as_before() {
        let mut now = user();
        assert_eq!(settle(&mut now, "a", RetryState::Off).attempts, 4);
        assert_eq!((now.get(HTTP), now.get(LIMIT)), (None, Some(&"4".to_owned())));
        settle(&mut now, "a", HALF);
        assert_eq!((now[HTTP].as_str(), now[LIMIT].as_str()), ("5xx", "2"));
        settle(&mut now, "a", RetryState::Original);
        assert_eq!(now, user());
    }

    #[test]
    fn a_limit_of_zero_or_none_means_one_and_nothing_to_retry_is_left_alone() {
        for limit in [None, Some("0"), Some("many")] {
            let mut now = user();
            match limit {
                None => now.remove(LIMIT),
                Some(limit) => now.insert(LIMIT.to_owned(), limit.to_owned()),
            };
            assert_eq!(plan(&now, "a", RetryState::Off).unwrap().attempts, 1);
        }
        let mut none = user();
        none.remove(HTTP);
        let left = plan(&none, "a", RetryState::Off).unwrap();
        assert_eq!((left.attempts, left.changes.len()), (0, 0));
    }

    #[test]
    fn the_strictest_of_two_targets_counts_until_both_are_back() {
        let mut now = user();
        settle(&mut now, "a", HALF);
        settle(&mut now, "b", RetryState::Off);
        assert_eq!(now.get(HTTP), None);
        settle(&mut now, "b", RetryState::Original);
        assert_eq!(now[LIMIT], "2");
        settle(&mut now, "a", RetryState::Original);
        assert_eq!(now, user());
    }

    #[test]
    fn what_the_user_writes_meanwhile_stands() {
        let mut now = user();
        settle(&mut now, "a", RetryState::Off);
        now.insert(HTTP.to_owned(), "503".to_owned());
        assert!(Record::read(&now).unwrap().unwrap().yielded);
        assert!(settle(&mut now, "a", HALF).yielded);
        assert_eq!(now[HTTP], "503");
        settle(&mut now, "a", RetryState::Original);
        assert_eq!((now[HTTP].as_str(), now.contains_key(HELD)), ("503", false));
    }

    #[test]
    fn a_record_that_is_not_ours_is_refused() {
        let mut now = user();
        for (text, wrong) in [
            ("{", "not what we wrote"),
            (r#"{"form":9,"original":{},"ours":{},"wishes":{}}"#, "form 9"),
        ] {
            now.insert(HELD.to_owned(), text.to_owned());
            let error = plan(&now, "a", RetryState::Off).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
