use std::time::Duration;

use retryguard_core::{
    Ratio,
    backoff::{Backoff, Growth, Jitter},
};

/// How a worker works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The value of the label `outbox` of its metrics.
    pub name: String,
    /// How many keys are published at once.
    pub concurrency: u32,
    /// How many events are claimed at once, over all keys.
    pub batch: u32,
    /// How long no other worker may take a claimed key. What a dead worker held is taken up by another after it.
    pub lease: Duration,
    /// How long publishing one event may take. No publishing begins that might end after the lease, so a key
    /// gets at most `lease - publish_timeout` in one claim.
    pub publish_timeout: Duration,
    /// How often publishing an event may fail before it is parked.
    pub tries: u32,
    /// How often a worker may end in the middle of a key before the key's first event is taken to be what ends
    /// it, and parked. High, because an orderly worker may be killed for other reasons.
    pub crashes: u32,
    /// The waits between the tries of one event, and between tries of a database that does not answer.
    pub backoff: Backoff,
    /// What becomes of the events behind a parked one of the same key.
    pub after_parking: AfterParking,
    /// How long an idle worker waits before it looks again, up to half less by chance. Being woken by
    /// [`OutboxStore::wake`](super::OutboxStore::wake) is quicker, but reaches a worker in another process only
    /// on PostgreSQL.
    pub poll: Duration,
    /// How long published events are kept to be looked at; none are kept where it is zero.
    pub keep: Duration,
    /// How often published events that are old enough are deleted and the gauges are updated.
    pub housekeeping: Duration,
}

/// What becomes of the events behind a parked one of the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterParking {
    /// They are published; the parked one, when it is retried, comes after them. One bad event costs itself.
    GoOn,
    /// They wait until the parked one is retried or discarded. The order holds whatever happens, and one bad
    /// event stops its key until an operator acts.
    Hold,
}

/// A setting that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("outbox settings: `{setting}` must be {must}, and is {is}")]
pub struct SettingsError {
    /// Which.
    pub setting: &'static str,
    /// What it must be.
    pub must: String,
    /// What it is.
    pub is: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "outbox".to_owned(),
            concurrency: 32,
            batch: 200,
            lease: Duration::from_secs(30),
            publish_timeout: Duration::from_secs(10),
            // With the waits below: about ten minutes.
            tries: 10,
            crashes: 20,
            backoff: Backoff {
                growth: Growth::Exponential(Ratio::percent(300)),
                initial: Duration::from_millis(100),
                cap: Duration::from_secs(300),
                jitter: Jitter::Equal,
                stop_beyond: None,
            },
            after_parking: AfterParking::GoOn,
            poll: Duration::from_millis(500),
            keep: Duration::from_secs(24 * 3600),
            housekeeping: Duration::from_secs(15),
        }
    }
}

impl Settings {
    /// The most keys that one worker publishes at once.
    pub const MOST_CONCURRENCY: u32 = 1024;
    /// The most events that are claimed at once: with the largest payloads, a quarter of a gigabyte.
    pub const MOST_BATCH: u32 = 1000;
    /// The shortest time between two looks at the database.
    pub const SHORTEST_POLL: Duration = Duration::from_millis(1);

    /// Whether every setting can work.
    ///
    /// # Errors
    /// The first that cannot.
    pub fn check(&self) -> Result<(), SettingsError> {
        let error = |setting, must: String, is: String| Err(SettingsError { setting, must, is });
        let counts = [
            ("concurrency", self.concurrency, Self::MOST_CONCURRENCY),
            ("batch", self.batch, Self::MOST_BATCH),
            ("tries", self.tries, u32::MAX),
            ("crashes", self.crashes, u32::MAX),
        ];
        for (setting, is, most) in counts {
            if is == 0 || is > most {
                return error(setting, format!("between 1 and {most}"), is.to_string());
            }
        }
        if self.publish_timeout.is_zero() {
            return error(
                "publish_timeout",
                "longer than nothing".to_owned(),
                "0".to_owned(),
            );
        }
        let least = self.publish_timeout.saturating_mul(2);
        if self.lease < least {
            return error(
                "lease",
                format!("at least twice `publish_timeout`, {least:?}"),
                format!("{:?}", self.lease),
            );
        }
        for (setting, is) in [("poll", self.poll), ("housekeeping", self.housekeeping)] {
            if is < Self::SHORTEST_POLL {
                return error(
                    setting,
                    format!("at least {:?}", Self::SHORTEST_POLL),
                    format!("{is:?}"),
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Settings)) -> String {
        let mut settings = Settings::default();
        change(&mut settings);
        settings.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_work_is_refused_at_its_limit() {
        let mut edge = Settings {
            concurrency: Settings::MOST_CONCURRENCY,
            batch: Settings::MOST_BATCH,
            tries: 1,
            crashes: 1,
            poll: Settings::SHORTEST_POLL,
            ..Settings::default()
        };
        edge.lease = 2 * edge.publish_timeout;
        edge.check().unwrap();
        assert!(refused(|s| s.concurrency = 0).contains("`concurrency` must be between 1 and 1024"));
        assert!(refused(|s| s.batch = Settings::MOST_BATCH + 1).contains("and is 1001"));
        assert!(refused(|s| s.tries = 0).contains("`tries`"));
        assert!(refused(|s| s.lease = Duration::from_millis(19_999)).contains("at least twice"));
        assert!(refused(|s| s.publish_timeout = Duration::ZERO).contains("longer than nothing"));
        assert!(refused(|s| s.poll = Duration::ZERO).contains("`poll`"));
    }

    /// What the comment at `tries` says.
    #[test]
    fn the_default_waits_add_up_to_ten_minutes() {
        let settings = Settings::default();
        let sum: Duration = (1..settings.tries)
            .map(|retry| settings.backoff.longest(retry))
            .sum();
        assert!(
            sum > Duration::from_secs(600) && sum < Duration::from_secs(660),
            "{sum:?}"
        );
    }
}
