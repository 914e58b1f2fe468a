//! What we hold of a place, written beside it: the controller after one that was killed finds there what to
//! give back.

use retryguard_core::ratio::Ratio;
use serde::{Deserialize, Serialize};

use crate::adapters::actuator::stored_state::StoredState;

/// The form that this version writes.
const FORM: u32 = 1;

/// The longest text of a record that is read.
const LONGEST: usize = 4096;

/// What we have changed, and what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    form: u32,
    /// The target for whose sake.
    pub(super) target: String,
    #[serde(rename = "wish")]
    pub(super) desired: StoredState,
    /// The term of leader election in which it was written.
    pub(super) term: u64,
    /// The user's own value. The key is missing where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) original: Option<String>,
    /// What we wrote. Where something else stands now, the user has changed it.
    pub(super) ours: String,
    /// Where record and value cannot be written at once: what stood there before. Finding it means that we were
    /// killed between the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Before>,
}

/// What stood in a place when a record was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Before {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<String>,
    /// What of ours that was; missing where it was the user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "wish")]
    pub(super) desired: Option<StoredState>,
}

impl Record {
    pub(super) fn new(
        target: &str,
        desired: StoredState,
        term: u64,
        original: Option<String>,
        ours: String,
    ) -> Self {
        Self {
            form: FORM,
            target: target.to_owned(),
            desired,
            term,
            original,
            ours,
            before: None,
        }
    }

    /// # Errors
    /// When it is not what we write: the user's configuration can no longer be known, so a person must
    /// look.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let cure = "set the number of attempts by hand and remove it";
        if text.len() > LONGEST {
            return Err(format!(
                "what we held has {} bytes, more than we write: {cure}",
                text.len()
            ));
        }
        let record: Self = serde_json::from_str(text)
            .map_err(|error| format!("what we held is not what we wrote ({error}): {cure}"))?;
        if record.form != FORM {
            return Err(format!(
                "what we held has form {}, and this version knows form {FORM}: use the version that wrote it",
                record.form
            ));
        }
        Ok(record)
    }

    pub(super) fn write(&self) -> String {
        // Strings and numbers always can.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The number of attempts that carries a desired state out: one is not a retry. On the ramp they rise in whole attempts, rounded
/// up, so that at least one retry is let through; else nothing could be learned on it.
pub(super) fn attempts(original: Option<&str>, usual: u32, desired: StoredState) -> u32 {
    let all = original
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(usual);
    let retries = u128::from(all.saturating_sub(1));
    match desired {
        StoredState::Off => 1,
        StoredState::Part { billionths, .. } => {
            let part = (retries * u128::from(billionths)).div_ceil(u128::from(Ratio::PARTS));
            let part = part.clamp(1.min(retries), retries);
            1 + u32::try_from(part).unwrap_or(u32::MAX - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(parts: u64) -> StoredState {
        StoredState::Part {
            step: 0,
            billionths: parts,
        }
    }

    #[test]
    fn the_ramp_goes_up_in_whole_attempts_to_at_most_the_users() {
        let ramp = [125_000_000, 250_000_000, 500_000_000, 1_000_000_000];
        let of = |original: Option<&str>| ramp.map(|parts| attempts(original, 3, part(parts)));
        assert_eq!(of(Some("5")), [2, 2, 3, 5]);
        assert_eq!(of(Some("10")), [3, 4, 6, 10]);
        assert_eq!(of(None), [2, 2, 2, 3]);
        assert_eq!(attempts(Some("5"), 3, StoredState::Off), 1);
    }

    #[test]
    fn a_caller_that_does_not_retry_is_not_taught_to() {
        assert_eq!(attempts(Some("1"), 3, part(500_000_000)), 1);
        assert_eq!(attempts(Some("0"), 3, part(500_000_000)), 1);
    }

    #[test]
    fn what_is_no_number_counts_as_the_usual() {
        assert_eq!(attempts(Some("many"), 3, part(1_000_000_000)), 3);
        assert_eq!(attempts(Some("4294967295"), 3, part(u64::MAX)), u32::MAX);
    }

    /// What stands in running systems since the first version.
    #[test]
    fn the_record_of_an_older_controller_is_read() {
        let text = r#"{"form":1,"target":"orders","wish":"off","term":7,"original":"5","ours":"1"}"#;
        let record = Record::new(
            "orders",
            StoredState::Off,
            7,
            Some("5".to_owned()),
            "1".to_owned(),
        );
        assert_eq!(Record::read(text), Ok(record.clone()));
        assert_eq!(record.write(), text);
    }

    #[test]
    fn a_record_comes_back_as_it_was_and_others_are_refused() {
        let record = Record::new("orders", part(5), 7, Some("5".to_owned()), "2".to_owned());
        assert_eq!(Record::read(&record.write()), Ok(record.clone()));
        let none = Record::new("orders", StoredState::Off, 7, None, "1".to_owned());
        assert_eq!(Record::read(&none.write()), Ok(none.clone()));
        assert!(Record::read("{}").is_err());
        assert!(Record::read(&none.write().replace("\"form\":1", "\"form\":2")).is_err());
        assert!(Record::read(&" ".repeat(LONGEST + 1)).is_err());
    }
}
