//! One claimed lane: its events are published one after the other, and what came of it is told.

use std::time::Duration;

use retryguard_core::Chance;
use tokio::time::Instant;

use super::{AfterParking, Claimed, Message, PublishError, Publisher, Settings, Settled, Trouble};
use crate::clock;

/// What the worker does when a lane has ended.
pub(super) struct Ended {
    pub(super) settled: Settled,
    /// Until when the lane is surely this worker's.
    pub(super) lease_ends: Instant,
    pub(super) failed: u64,
}

/// Publishes the events of a lane until one fails, the lease runs out or the worker stops.
pub(super) async fn publish(
    claimed: Claimed,
    lease_ends: Instant,
    publisher: &impl Publisher,
    settings: &Settings,
    stopping: impl Fn() -> bool,
) -> Ended {
    let mut ended = Ended {
        settled: Settled {
            lane: claimed.lane,
            token: claimed.token,
            published: Vec::new(),
            parked: Vec::new(),
            retry: None,
            hold: false,
        },
        lease_ends,
        failed: 0,
    };
    let mut crashes = claimed.crashes;
    for message in &claimed.events {
        if stopping() || clock::now() + settings.publish_timeout > lease_ends {
            break;
        }
        let result = if crashes >= settings.crashes {
            let error = format!("{crashes} workers in a row ended while they published its key");
            Err(PublishError::Poison(error))
        } else {
            one(message, publisher, settings.publish_timeout).await
        };
        // Whatever ended workers before was this event, if it was any.
        crashes = 0;
        match result {
            Ok(()) => ended.settled.published.push(message.number),
            Err(error) => {
                ended.failed += 1;
                if !ended.on_failure(message, &error, settings, &mut clock::Random) {
                    break;
                }
            }
        }
    }
    ended
}

async fn one(message: &Message, publisher: &impl Publisher, limit: Duration) -> Result<(), PublishError> {
    tokio::time::timeout(limit, publisher.publish(message))
        .await
        .unwrap_or_else(|_| {
            Err(PublishError::Retry(format!(
                "publishing did not end within {limit:?}"
            )))
        })
}

impl Ended {
    /// Notes a failed try; whether the lane goes on.
    fn on_failure(
        &mut self,
        message: &Message,
        error: &PublishError,
        settings: &Settings,
        chance: &mut impl Chance,
    ) -> bool {
        let tries = message.failed.saturating_add(1);
        let trouble = Trouble::new(message.number, tries, &error.to_string());
        let again = match error {
            PublishError::Retry(_) if tries < settings.tries => {
                settings.backoff.delay(tries, message.waited, chance)
            }
            PublishError::Retry(_) | PublishError::Poison(_) => None,
        };
        match again {
            Some(wait) => {
                self.settled.retry = Some((trouble, wait));
                false
            }
            None => {
                tracing::warn!(
                    target: "retryguard",
                    number = message.number,
                    topic = message.topic,
                    tries,
                    error = trouble.error,
                    "outbox event parked"
                );
                self.settled.parked.push(trouble);
                self.settled.hold = settings.after_parking == AfterParking::Hold;
                !self.settled.hold
            }
        }
    }
}
