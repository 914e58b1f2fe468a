//! What is the same for all places in which a number of attempts stands: whose word counts, and what to do next.

use super::record::Record;
use crate::actuator::kept::KeptWish;
use crate::actuator::{Change, Loss, Wish};
use crate::aws::Trouble;

/// Who has the last word on a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// The user; there is nothing of ours.
    Free,
    /// We, for this target.
    Ours { target: String, wish: Wish },
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
                wish: record.wish.wish(),
            };
        }
        match &record.before {
            // Killed between the record and the value: what stood there before still does.
            Some(before) if before.value.as_deref() == value => match before.wish {
                Some(wish) => Self::Ours {
                    target,
                    wish: wish.wish(),
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
    /// Somebody else has the last word there.
    pub(super) yielded: Option<String>,
    pub(super) losses: Vec<Loss>,
}

impl Settled {
    pub(super) fn yielded(place: &str, reason: &str) -> Self {
        Self {
            yielded: Some(format!("{place}: {reason}")),
            losses: vec![Loss(format!("{place} is left as somebody else set it: {reason}"))],
            ..Self::default()
        }
    }
}

/// The one thing to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is as it should be.
    Nothing,
    /// Somebody else has changed it: it is left alone.
    Yielded(String),
    /// Somebody else has changed it, and we want nothing of it any more: only our record goes.
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
    number: impl Fn(Option<&str>, KeptWish) -> String,
) -> Result<Step, Trouble> {
    let wish = KeptWish::new(change.wish);
    let Some(record) = record else {
        return Ok(wish.map_or(Step::Nothing, |wish| {
            let ours = number(value, wish);
            let original = value.map(str::to_owned);
            Step::Write(Record::new(
                change.target.as_str(),
                wish,
                change.term,
                original,
                ours,
            ))
        }));
    };
    if record.term > change.term {
        return Err(Trouble::Taken(format!(
            "it was set in term {} of the lead, and this is term {}",
            record.term, change.term
        )));
    }
    // A place that another target holds is given back by that one; a former configuration's is ours to give back.
    let stands = value == Some(&record.ours);
    let unmade = record
        .before
        .as_ref()
        .is_some_and(|before| before.value.as_deref() == value);
    match wish {
        None if stands || unmade => Ok(Step::Restore(record.original.clone())),
        None => Ok(Step::Forget),
        Some(_) if !stands && !unmade => Ok(Step::Yielded(changed(record, value))),
        Some(wish) => {
            let ours = number(record.original.as_deref(), wish);
            let same = record.wish == wish && record.ours == ours && record.target == change.target.as_str();
            if same && stands {
                return Ok(Step::Nothing);
            }
            let original = record.original.clone();
            Ok(Step::Write(Record::new(
                change.target.as_str(),
                wish,
                change.term,
                original,
                ours,
            )))
        }
    }
}

/// The value itself is a number of attempts at most; whatever else somebody wrote there is not repeated.
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
    use crate::actuator::aws::record::Before;
    use crate::target::TargetName;

    fn change(wish: Wish, term: u64) -> Change {
        Change {
            target: TargetName::new("orders"),
            wish,
            why: String::new(),
            term,
        }
    }

    fn off(original: Option<&str>) -> Record {
        Record::new(
            "orders",
            KeptWish::Off,
            3,
            original.map(str::to_owned),
            "1".to_owned(),
        )
    }

    fn next(record: Option<&Record>, value: Option<&str>, wish: Wish) -> Step {
        step(record, value, &change(wish, 3), |_, _| "1".to_owned()).unwrap()
    }

    #[test]
    fn the_original_comes_back_also_where_there_was_none() {
        for original in [None, Some("5"), Some("1")] {
            let Step::Write(record) = next(None, original, Wish::Off) else {
                panic!("not written");
            };
            assert_eq!(record, off(original));
            let restored = next(Some(&record), Some("1"), Wish::Original);
            assert_eq!(restored, Step::Restore(original.map(str::to_owned)));
        }
    }

    #[test]
    fn what_is_there_already_is_not_written_again() {
        assert_eq!(next(Some(&off(None)), Some("1"), Wish::Off), Step::Nothing);
        assert_eq!(next(None, Some("5"), Wish::Original), Step::Nothing);
    }

    #[test]
    fn what_somebody_else_wrote_stands() {
        let record = off(Some("5"));
        assert!(matches!(
            next(Some(&record), Some("4"), Wish::Off),
            Step::Yielded(_)
        ));
        assert_eq!(next(Some(&record), Some("4"), Wish::Original), Step::Forget);
        let State::Theirs { what, .. } = State::of(Some(record.clone()), Some("hunter2-hunter2")) else {
            panic!("not theirs");
        };
        assert!(!what.contains("hunter2"), "{what}");
        assert!(matches!(State::of(Some(record), None), State::Theirs { .. }));
    }

    #[test]
    fn a_leader_of_an_older_term_is_refused() {
        let late = step(Some(&off(None)), Some("1"), &change(Wish::Original, 2), |_, _| {
            String::new()
        });
        assert!(matches!(late, Err(Trouble::Taken(_))));
    }

    /// Killed after the record was written and before the value was.
    #[test]
    fn a_change_that_was_not_made_is_seen_as_what_stood_before() {
        let mut record = off(Some("5"));
        record.before = Some(Before {
            value: Some("5".to_owned()),
            wish: None,
        });
        assert_eq!(State::of(Some(record.clone()), Some("5")), State::Free);
        assert!(matches!(
            next(Some(&record), Some("5"), Wish::Off),
            Step::Write(_)
        ));
        assert_eq!(
            next(Some(&record), Some("5"), Wish::Original),
            Step::Restore(Some("5".to_owned()))
        );
    }
}
