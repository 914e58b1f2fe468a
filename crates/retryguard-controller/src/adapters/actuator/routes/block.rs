//! A route's `retries`: what stands there, and what shall stand there.

use retryguard_core::ratio::Ratio;
use serde_json::{Value, json};

use crate::adapters::actuator::routes::dialect::Dialect;
use crate::domain::state::RetryState;

/// What the user configured for one route; `None` where there is no block, which is the data plane's default and
/// not the same as no retries.
pub(super) type Block = Option<Value>;

/// How many retries a block asks for. `None` for what is not a block at all, which we do not touch.
///
/// Only a missing block gets the default of the mesh; for one without `attempts` see [`Dialect::without_number`].
pub(super) fn attempts(block: Option<&Value>, dialect: Dialect, default: u32) -> Option<u32> {
    let fields = match block {
        None | Some(Value::Null) => return Some(default),
        Some(Value::Object(fields)) => fields,
        Some(_) => return None,
    };
    match fields.get("attempts") {
        None | Some(Value::Null) => Some(dialect.without_number(default)),
        Some(Value::Number(number)) => match number.as_i64() {
            Some(count) => Some(u32::try_from(count.max(0)).unwrap_or(u32::MAX)),
            None => number.as_u64().map(|_| u32::MAX),
        },
        Some(_) => None,
    }
}

/// The block that carries a desired state out. Everything but the number is the user's. In Istio, off stands alone, because it
/// refuses a block of zero attempts beside any other field.
pub(super) fn wanted(original: &Block, desired: RetryState, dialect: Dialect, default: u32) -> Block {
    let number = match desired {
        RetryState::Original => return original.clone(),
        RetryState::Off if !dialect.off_keeps_fields() => return Some(json!({"attempts": 0})),
        RetryState::Off => 0,
        RetryState::Part { share, .. } => {
            part(attempts(original.as_ref(), dialect, default).unwrap_or(0), share)
        }
    };
    let mut block = match original {
        Some(Value::Object(fields)) => fields.clone(),
        _ => serde_json::Map::new(),
    };
    block.insert("attempts".to_owned(), json!(number));
    Some(Value::Object(block))
}

/// A share of a number of attempts, in whole attempts, rounded up: on the ramp at least one retry is let
/// through, else nothing could be learned on it.
pub(in crate::adapters::actuator) fn part(all: u32, share: Ratio) -> u32 {
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
        assert_eq!(
            wanted(&user, RetryState::Off, Dialect::VirtualService, 2),
            Some(json!({"attempts": 0}))
        );
        assert_eq!(
            wanted(&None, RetryState::Off, Dialect::VirtualService, 2),
            Some(json!({"attempts": 0}))
        );
    }

    #[test]
    fn the_ramp_of_five_attempts_goes_by_one_two_three_and_keeps_the_users_fields() {
        let user = Some(json!({"attempts": 5, "retryOn": "5xx"}));
        let steps = [125_000_000, 250_000_000, 500_000_000]
            .map(|parts| wanted(&user, share(parts), Dialect::VirtualService, 2));
        assert_eq!(
            steps,
            [1, 2, 3].map(|number| Some(json!({"attempts": number, "retryOn": "5xx"})))
        );
    }

    #[test]
    fn without_a_block_the_ramp_starts_from_the_default_of_the_mesh() {
        assert_eq!(
            wanted(&None, share(500_000_000), Dialect::VirtualService, 2),
            Some(json!({"attempts": 1}))
        );
        assert_eq!(
            wanted(&None, share(500_000_000), Dialect::VirtualService, 4),
            Some(json!({"attempts": 2}))
        );
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
        assert_eq!(
            attempts(Some(&json!({"attempts": 0})), Dialect::VirtualService, 2),
            Some(0)
        );
        assert_eq!(attempts(Some(&json!({})), Dialect::VirtualService, 2), Some(0));
        assert_eq!(
            attempts(Some(&json!({"attempts": -3})), Dialect::VirtualService, 2),
            Some(0)
        );
        assert_eq!(attempts(None, Dialect::VirtualService, 2), Some(2));
        assert_eq!(attempts(Some(&json!("five")), Dialect::VirtualService, 2), None);
        assert_eq!(
            attempts(Some(&json!({"attempts": "5"})), Dialect::VirtualService, 2),
            None
        );
    }

    /// A block of the Gateway API without a number leaves it to the implementation, and off keeps what to retry.
    #[test]
    fn blocks_of_the_gateway_api() {
        let dialect = Dialect::HttpRoute;
        let user = Some(json!({"codes": [503], "attempts": 4, "backoff": "100ms"}));
        assert_eq!(
            wanted(&user, RetryState::Off, dialect, 0),
            Some(json!({"codes": [503], "attempts": 0, "backoff": "100ms"}))
        );
        assert_eq!(
            wanted(&user, share(500_000_000), dialect, 0),
            Some(json!({"codes": [503], "attempts": 2, "backoff": "100ms"}))
        );
        assert_eq!(attempts(Some(&json!({"codes": [503]})), dialect, 0), Some(1));
        assert_eq!(attempts(Some(&json!({"codes": [503]})), dialect, 3), Some(3));
        assert_eq!(attempts(Some(&json!({"attempts": 0})), dialect, 3), Some(0));
        assert_eq!(attempts(None, dialect, 0), Some(0));
    }
}
