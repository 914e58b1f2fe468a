//! A route's `retries`: what stands there, and what shall stand there.

use retryguard_core::ratio::Ratio;
use serde_json::{Value, json};

use crate::domain::state::RetryState;

/// What the user configured for one route; `None` where there is no block, which is Istio's default and not
/// the same as no retries.
pub(super) type Block = Option<Value>;

/// How many retries a block asks for. `None` for what is no block at all, which we do not touch.
///
/// A block without `attempts` reads as zero in Istio, and zero switches retries off; only a missing block gets
/// the default of the mesh.
pub(super) fn attempts(block: Option<&Value>, default: u32) -> Option<u32> {
    let fields = match block {
        None | Some(Value::Null) => return Some(default),
        Some(Value::Object(fields)) => fields,
        Some(_) => return None,
    };
    match fields.get("attempts") {
        None | Some(Value::Null) => Some(0),
        Some(Value::Number(number)) => match number.as_i64() {
            Some(count) => Some(u32::try_from(count.max(0)).unwrap_or(u32::MAX)),
            None => number.as_u64().map(|_| u32::MAX),
        },
        Some(_) => None,
    }
}

/// The block that carries a desired state out. Off stands alone, because Istio refuses a block of zero attempts beside
/// any other field; on the ramp everything but the number is the user's.
pub(super) fn wanted(original: &Block, desired: RetryState, default: u32) -> Block {
    let share = match desired {
        RetryState::Original => return original.clone(),
        RetryState::Off => return Some(json!({"attempts": 0})),
        RetryState::Part { share, .. } => share,
    };
    let all = attempts(original.as_ref(), default).unwrap_or(0);
    let mut block = match original {
        Some(Value::Object(fields)) => fields.clone(),
        _ => serde_json::Map::new(),
    };
    block.insert("attempts".to_owned(), json!(part(all, share)));
    Some(Value::Object(block))
}

/// A share of a number of attempts, in whole attempts, rounded up: on the ramp at least one retry is let
/// through, else nothing could be learned on it.
pub(super) fn part(all: u32, share: Ratio) -> u32 {
    let parts = u128::from(all) * u128::from(share.parts());
    let whole = parts.div_ceil(u128::from(Ratio::PARTS));
    u32::try_from(whole).unwrap_or(u32::MAX).clamp(1.min(all), all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(parts: u64) -> RetryState {
        RetryState::Part {
            step: 0,
            share: Ratio::from_parts(parts),
        }
    }

    #[test]
    fn off_stands_alone() {
        let user = Some(json!({"attempts": 5, "retryOn": "5xx", "perTryTimeout": "2s"}));
        assert_eq!(wanted(&user, RetryState::Off, 2), Some(json!({"attempts": 0})));
        assert_eq!(wanted(&None, RetryState::Off, 2), Some(json!({"attempts": 0})));
    }

    #[test]
    fn the_ramp_of_five_attempts_goes_by_one_two_three_and_keeps_the_users_fields() {
        let user = Some(json!({"attempts": 5, "retryOn": "5xx"}));
        let steps = [125_000_000, 250_000_000, 500_000_000].map(|parts| wanted(&user, share(parts), 2));
        assert_eq!(
            steps,
            [1, 2, 3].map(|number| Some(json!({"attempts": number, "retryOn": "5xx"})))
        );
    }

    #[test]
    fn without_a_block_the_ramp_starts_from_the_default_of_the_mesh() {
        assert_eq!(wanted(&None, share(500_000_000), 2), Some(json!({"attempts": 1})));
        assert_eq!(wanted(&None, share(500_000_000), 4), Some(json!({"attempts": 2})));
    }

    #[test]
    fn a_part_is_at_least_one_and_at_most_all() {
        assert_eq!(part(1, Ratio::from_parts(1)), 1);
        assert_eq!(part(3, Ratio::from_parts(5 * Ratio::PARTS)), 3);
        assert_eq!(part(0, Ratio::ONE), 0);
        assert_eq!(part(u32::MAX, Ratio::from_parts(u64::MAX)), u32::MAX);
    }

    #[test]
    fn what_istio_reads_as_no_retries_is_none() {
        assert_eq!(attempts(Some(&json!({"attempts": 0})), 2), Some(0));
        assert_eq!(attempts(Some(&json!({})), 2), Some(0));
        assert_eq!(attempts(Some(&json!({"attempts": -3})), 2), Some(0));
        assert_eq!(attempts(None, 2), Some(2));
        assert_eq!(attempts(Some(&json!("five")), 2), None);
        assert_eq!(attempts(Some(&json!({"attempts": "5"})), 2), None);
    }
}
