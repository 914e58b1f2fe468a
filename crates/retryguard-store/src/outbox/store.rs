use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use super::Message;
use crate::{Backend, StoreError};

/// Where an outbox is kept, as its worker and its operator see it. Writing an event is not here, because it
/// belongs into the application's own transaction, whose type differs.
pub trait OutboxStore: Clone + Send + Sync + 'static {
    /// Which backend.
    fn backend(&self) -> Backend;

    /// Takes up to `lanes` lanes that are due for the time of `lease`, with up to `events` events in all.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn claim(
        &self,
        lanes: u32,
        events: u32,
        lease: Duration,
    ) -> impl Future<Output = Result<Vec<Claimed>, StoreError>> + Send;

    /// As [`OutboxStore::claim`], but only lanes that a batch leaves out: those that failed, are held or take long.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn claim_exceptions(
        &self,
        lanes: u32,
        events: u32,
        lease: Duration,
    ) -> impl Future<Output = Result<Vec<Claimed>, StoreError>> + Send {
        self.claim(lanes, events, lease)
    }

    /// Takes up to `events` events of any number of lanes under one lease, where the store can.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn claim_batch(
        &self,
        _events: u32,
        _lease: Duration,
    ) -> impl Future<Output = Result<Taken, StoreError>> + Send {
        std::future::ready(Ok(Taken::Nothing))
    }

    /// Reports a batch and gives its lease back. Lanes whose events failed or are still being published become
    /// exceptions. Answers the tokens of the latter, and how many parts of the batch had gone to another worker.
    ///
    /// # Errors
    /// Where the store does not answer; then nothing or everything was done, and reporting again is harmless.
    fn settle_batch(
        &self,
        _batch: &BatchSettled,
        _keep: bool,
    ) -> impl Future<Output = Result<BatchReport, StoreError>> + Send {
        std::future::ready(Ok(BatchReport::default()))
    }

    /// Reports a batch of which every event was published, keeps its parts under a lease that begins anew, and takes up to
    /// `events` of what waits in them. A store that cannot do both at once gives the lease back and takes nothing.
    ///
    /// # Errors
    /// Where the store does not answer; then nothing or everything was done, and [`OutboxStore::settle_batch`] is right in
    /// both cases: it reports again, which is harmless, and gives the lease back.
    fn settle_and_go_on(
        &self,
        batch: &BatchSettled,
        keep: bool,
        _events: u32,
        _lease: Duration,
    ) -> impl Future<Output = Result<(BatchReport, Taken), StoreError>> + Send {
        async move { Ok((self.settle_batch(batch, keep).await?, Taken::Nothing)) }
    }

    /// Corrects what was stored before the clock was set back, so that nothing waits for the old time.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn follow_clock(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Tells how claimed lanes went, and gives them back. Of those whose lease has gone to another nothing is
    /// changed; answers how many those are. `keep` is whether published events are kept to be looked at.
    ///
    /// # Errors
    /// Where the store does not answer; then nothing or everything was done, and telling it again is harmless.
    fn settle(&self, lanes: &[Settled], keep: bool)
    -> impl Future<Output = Result<usize, StoreError>> + Send;

    /// What is waiting.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn counts(&self) -> impl Future<Output = Result<Counts, StoreError>> + Send;

    /// Parked events with a number above `after`, in the order of their numbers, at most `limit`.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn parked(&self, after: i64, limit: u32) -> impl Future<Output = Result<Vec<Parked>, StoreError>> + Send;

    /// Lets a parked event be published again, with all its tries, and releases what it held. False where it is
    /// not parked.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn retry(&self, number: i64) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Deletes a parked event, and releases what it held. False where it is not parked.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn discard(&self, number: i64) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Lets every held key go on. A worker that does not hold keys does so when it starts, for the sake of
    /// those that one with another setting has left.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn release_held(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Deletes at most `limit` published events that are older than `age`; says how many it were.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn clean(&self, age: Duration, limit: u32) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Tells workers that there is something to do. Called after the commit; without it a worker finds the
    /// event when it next looks.
    fn wake(&self);

    /// Ends when [`OutboxStore::wake`] has been called since it last ended.
    fn woken(&self) -> impl Future<Output = ()> + Send;

    /// Listens for other processes and wakes the workers of this one, for ever.
    fn listen(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// A lane that a worker has claimed, and the first of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its name.
    pub lane: String,
    /// The fence: what proves that a lane is still this claim's.
    pub token: i64,
    /// How often it was claimed since a worker last told how it went, this time not counted.
    pub crashes: u32,
    /// In order.
    pub events: Vec<Message>,
}

/// What a worker got when it asked for a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// Nothing waits.
    Nothing,
    /// Other workers have the parts in which something may wait: ask again soon.
    Busy,
    /// Events.
    Batch(Batch),
}

/// A part of an outbox that a worker has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartClaim {
    /// Which part.
    pub part: i16,
    /// The fence: what proves that the part is still this claim's.
    pub token: i64,
}

/// Events of many lanes under one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The parts that were claimed.
    pub parts: Vec<PartClaim>,
    /// All events of a lane are together, and in order.
    pub lanes: Vec<BatchLane>,
}

/// The events of one lane in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchLane {
    /// Its name.
    pub lane: String,
    /// Its part.
    pub part: i16,
    /// In order.
    pub events: Vec<Message>,
}

/// How a batch went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchSettled {
    /// As claimed.
    pub parts: Vec<PartClaim>,
    /// The numbers of the events that were published.
    pub published: Vec<i64>,
    /// The lanes with failures, and their parts. What they have published is above.
    pub failed: Vec<(i16, Settled)>,
    /// The lanes whose events are still being published, and their parts.
    pub running: Vec<(i16, String)>,
    /// What is left of the lease, for the lanes that still run.
    pub lease_left: Duration,
}

impl BatchSettled {
    /// Whether all of a batch of `events` events was published, so that none of its keys is an exception or was cut short.
    pub(super) fn is_published(&self, events: usize) -> bool {
        self.published.len() == events && self.failed.is_empty() && self.running.is_empty()
    }
}

/// What a store answers to a [`BatchSettled`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchReport {
    /// The tokens of lanes that still run. A lane that is missing has gone to another worker.
    pub tokens: Vec<(String, i64)>,
    /// How many parts had gone to another worker.
    pub lost: usize,
}

/// How a claimed lane went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// As claimed.
    pub lane: String,
    /// As claimed.
    pub token: i64,
    /// The numbers of the events that were published.
    pub published: Vec<i64>,
    /// The events that were parked.
    pub parked: Vec<Trouble>,
    /// The event that failed and is to be tried again, and the wait before it. It stops the lane for that long.
    pub retry: Option<(Trouble, Duration)>,
    /// Whether the lane is held until a parked event of it is retried or discarded.
    pub hold: bool,
}

/// What is remembered of an event that was not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Its number.
    pub number: i64,
    /// How many tries have failed.
    pub tries: u32,
    /// How the last one failed.
    pub error: String,
}

impl Trouble {
    /// The most bytes of an error that are kept.
    pub const LONGEST_ERROR: usize = 2000;

    pub(super) fn new(number: i64, tries: u32, error: &str) -> Self {
        let mut end = error.len().min(Self::LONGEST_ERROR);
        while !error.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            number,
            tries,
            // PostgreSQL cannot keep a NUL in a text, and the error must not be lost for it.
            error: error[..end].replace('\0', "\u{fffd}"),
        }
    }
}

/// What an outbox holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events that are to be published.
    pub pending: u64,
    /// Events that were given up.
    pub parked: u64,
    /// The age of the oldest event that is to be published.
    pub lag: Duration,
}

/// An event that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parked {
    /// The event.
    pub message: Message,
    /// How the last try failed.
    pub error: String,
    /// When it was parked, by the database's clock.
    pub parked: SystemTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let error = "ä".repeat(Trouble::LONGEST_ERROR);
        assert_eq!(Trouble::new(1, 1, &error).error.len(), Trouble::LONGEST_ERROR);
        let odd = format!("a{error}");
        assert_eq!(Trouble::new(1, 1, &odd).error.len(), Trouble::LONGEST_ERROR - 1);
        assert_eq!(Trouble::new(1, 1, "a\0b").error, "a\u{fffd}b");
    }
}
