//! A desired state in the form in which data planes keep it for us: the same in every record, so that what one release has written
//! the next one reads.

use retryguard_core::ratio::Ratio;
use serde::{Deserialize, Serialize};

use crate::domain::state::RetryState;

/// A desired state in its written form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum StoredState {
    Off,
    Part { step: u8, billionths: u64 },
}

impl StoredState {
    /// None for [`RetryState::Original`], which leaves no trace.
    pub(super) fn new(desired: RetryState) -> Option<Self> {
        match desired {
            RetryState::Original => None,
            RetryState::Off => Some(Self::Off),
            RetryState::Part { step, share } => Some(Self::Part {
                step,
                billionths: share.parts(),
            }),
        }
    }

    pub(super) fn desired(self) -> RetryState {
        match self {
            Self::Off => RetryState::Off,
            Self::Part { step, billionths } => RetryState::Part {
                step,
                share: Ratio::from_parts(billionths),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands in annotations, variables and parameters of running systems.
    #[test]
    fn the_written_form_stays_what_it_is() {
        let part = RetryState::Part {
            step: 2,
            share: Ratio::percent(50),
        };
        for (desired, text) in [
            (RetryState::Off, r#""off""#),
            (part, r#"{"part":{"step":2,"billionths":500000000}}"#),
        ] {
            let kept = StoredState::new(desired).unwrap();
            assert_eq!(serde_json::to_string(&kept).unwrap(), text);
            assert_eq!(
                serde_json::from_str::<StoredState>(text).unwrap().desired(),
                desired
            );
        }
        assert_eq!(StoredState::new(RetryState::Original), None);
        assert!(serde_json::from_str::<StoredState>(r#""on""#).is_err());
    }
}
