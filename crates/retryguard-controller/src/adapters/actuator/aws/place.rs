//! What is the same for all places in which a number of attempts stands: which value takes precedence, and what to do next.

use crate::adapters::actuator::aws::record::Record;
use crate::adapters::actuator::stored_state::StoredState;
use crate::adapters::aws::RequestError;
use crate::domain::state::{Change, Loss, RetryState};

/// Who has the last word on a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// The user; there is nothing of ours.
    Free,
    /// We, for this target.
    Ours { target: String, desired: RetryState },
    /// The user has changed what we had set for this target.
    Theirs { target: String, what: String },
}

impl State {
    /// From a record and the value that stands there.
    pub(super) fn of(record: Option<Record>, value: Option<&str>) -> Self {
        let Some(record) = record else {
            return Self::Free;
        };
        let target = record.target.clone();
        if value == Some(&record.ours) {
            return Self::Ours {
                target,
                desired: record.desired.desired(),
            };
        }
        match &record.before {
            // Killed between the record and the value: what stood there before still does.
            Some(before) if before.value.as_deref() == value => match before.desired {
                Some(desired) => Self::Ours {
                    target,
                    desired: desired.desired(),
                },
                None => Self::Free,
            },
            _ => Self::Theirs {
                what: changed(&record, value),
                target,
            },
        }
    }
}

/// What a settled place came to.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) changed: bool,
    /// It was changed outside this controller and is left alone.
    pub(super) yielded: Option<String>,
    pub(super) losses: Vec<Loss>,
}

impl Settled {
    pub(super) fn yielded(place: &str, reason: &str) -> Self {
        Self {
            yielded: Some(format!("{place}: {reason}")),
            losses: vec![Loss(format!(
                "{place} is left as it was set outside this controller: {reason}"
            ))],
            ..Self::default()
        }
    }
}

/// The one thing to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is as it should be.
    Nothing,
    /// It was changed outside this controller: it is left alone.
    Yielded(String),
    /// It was changed outside this controller, and nothing is wanted of it any more: only our record is removed.
    Forget,
    /// The user's own value comes back, and our record goes.
    Restore(Option<String>),
    /// This record, and its value.
    Write(Record),
}

/// What a change means for a place that holds this record and this value.
pub(super) fn step(
    record: Option<&Record>,
    value: Option<&str>,
    change: &Change,
    number: impl Fn(Option<&str>, StoredState) -> String,
) -> Result<Step, RequestError> {
    let desired = StoredState::new(change.desired);
    let Some(record) = record else {
        return Ok(desired.map_or(Step::Nothing, |desired| {
            let ours = number(value, desired);
            let original = value.map(str::to_owned);
            Step::Write(Record::new(
                change.target.as_str(),
                desired,
                change.term,
                original,
                ours,
            ))
        }));
    };
    if record.term > change.term {
        return Err(RequestError::Taken(format!(
            "it was set in term {} of leader election, and this is term {}",
            record.term, change.term
        )));
    }
    // A place that another target holds is given back by that one; a former configuration's is ours to give back.
    let stands = value == Some(&record.ours);
    let unmade = record
        .before
        .as_ref()
        .is_some_and(|before| before.value.as_deref() == value);
    match desired {
        None if stands || unmade => Ok(Step::Restore(record.original.clone())),
        None => Ok(Step::Forget),
        Some(_) if !stands && !unmade => Ok(Step::Yielded(changed(record, value))),
        Some(desired) => {
            let ours = number(record.original.as_deref(), desired);
            let same =
                record.desired == desired && record.ours == ours && record.target == change.target.as_str();
            if same && stands {
                return Ok(Step::Nothing);
            }
            let original = record.original.clone();
            Ok(Step::Write(Record::new(
                change.target.as_str(),
                desired,
                change.term,
                original,
                ours,
            )))
        }
    }
}

/// The value itself is a number of attempts at most; other content is not repeated.
fn changed(record: &Record, value: Option<&str>) -> String {
    let now = match value {
        None => "it was removed".to_owned(),
        Some(value) if value.len() <= 10 && value.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("it is {value} now")
        }
        Some(_) => "it is something else now".to_owned(),
    };
    format!("we had set {} attempts, and {now}", record.ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::actuator::aws::record::Before;
    use crate::domain::target::TargetName;

    fn change(desired: RetryState, term: u64) -> Change {
        Change {
            target: TargetName::new("orders"),
            desired,
            why: String::new(),
            term,
        }
    }

    fn off(original: Option<&str>) -> Record {
        Record::new(
            "orders",
            StoredState::Off,
            3,
            original.map(str::to_owned),
            "1".to_owned(),
        )
    }

    fn next(record: Option<&Record>, value: Option<&str>, desired: RetryState) -> Step {
        step(record, value, &change(desired, 3), |_, _| "1".to_owned()).unwrap()
    }

    #[test]
    fn the_original_comes_back_also_where_there_was_none() {
        for original in [None, Some("5"), Some("1")] {
            let Step::Write(record) = next(None, original, RetryState::Off) else {
                panic!("not written");
            };
            assert_eq!(record, off(original));
            let restored = next(Some(&record), Some("1"), RetryState::Original);
            assert_eq!(restored, Step::Restore(original.map(str::to_owned)));
        }
    }

    #[test]
    fn what_is_there_already_is_not_written_again() {
        assert_eq!(next(Some(&off(None)), Some("1"), RetryState::Off), Step::Nothing);
        assert_eq!(next(None, Some("5"), RetryState::Original), Step::Nothing);
    }

    #[test]
    fn what_was_written_outside_stands() {
        let record = off(Some("5"));
        assert!(matches!(
            next(Some(&record), Some("4"), RetryState::Off),
            Step::Yielded(_)
        ));
        assert_eq!(next(Some(&record), Some("4"), RetryState::Original), Step::Forget);
        let State::Theirs { what, .. } = State::of(Some(record.clone()), Some("hunter2-hunter2")) else {
            panic!("not theirs");
        };
        assert!(!what.contains("hunter2"), "{what}");
        assert!(matches!(State::of(Some(record), None), State::Theirs { .. }));
    }

    #[test]
    fn a_leader_of_an_older_term_is_refused() {
        let late = step(
            Some(&off(None)),
            Some("1"),
            &change(RetryState::Original, 2),
            |_, _| String::new(),
        );
        assert!(matches!(late, Err(RequestError::Taken(_))));
    }

    /// Killed after the record was written and before the value was.
    #[test]
    fn a_change_that_was_not_made_is_seen_as_what_stood_before() {
        let mut record = off(Some("5"));
        record.before = Some(Before {
            value: Some("5".to_owned()),
            desired: None,
        });
        assert_eq!(State::of(Some(record.clone()), Some("5")), State::Free);
        assert!(matches!(
            next(Some(&record), Some("5"), RetryState::Off),
            Step::Write(_)
        ));
        assert_eq!(
            next(Some(&record), Some("5"), RetryState::Original),
            Step::Restore(Some("5".to_owned()))
        );
    }
}
