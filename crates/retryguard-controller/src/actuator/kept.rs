//! A wish in the form in which data planes keep it for us: the same in every record, so that what one release has written
//! the next one reads.

use retryguard_core::ratio::Ratio;
use serde::{Deserialize, Serialize};

use super::Wish;

/// A wish in its written form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum KeptWish {
    Off,
    Part { step: u8, billionths: u64 },
}

impl KeptWish {
    /// None for [`Wish::Original`], which leaves no trace.
    pub(super) fn new(wish: Wish) -> Option<Self> {
        match wish {
            Wish::Original => None,
            Wish::Off => Some(Self::Off),
            Wish::Part { step, share } => Some(Self::Part {
                step,
                billionths: share.parts(),
            }),
        }
    }

    pub(super) fn wish(self) -> Wish {
        match self {
            Self::Off => Wish::Off,
            Self::Part { step, billionths } => Wish::Part {
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
        let part = Wish::Part {
            step: 2,
            share: Ratio::percent(50),
        };
        for (wish, text) in [
            (Wish::Off, r#""off""#),
            (part, r#"{"part":{"step":2,"billionths":500000000}}"#),
        ] {
            let kept = KeptWish::new(wish).unwrap();
            assert_eq!(serde_json::to_string(&kept).unwrap(), text);
            assert_eq!(serde_json::from_str::<KeptWish>(text).unwrap().wish(), wish);
        }
        assert_eq!(KeptWish::new(Wish::Original), None);
        assert!(serde_json::from_str::<KeptWish>(r#""on""#).is_err());
    }
}
