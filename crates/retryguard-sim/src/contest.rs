//! The public contest of backoffs: clients that all write one versioned row.
//!
//! Each client reads the version, writes under it, and where another client was faster waits and begins again.
//! Only one write of a round can win, so the work grows with the square of the clients, and the wait between
//! rounds decides how much of it is wasted. Network delays are |Normal(10, 2)| milliseconds a message.

use std::time::Duration;

use retryguard_core::{
    Backoff, Instant, Ratio,
    backoff::{Growth, Jitter},
};

use crate::{
    distribution::Distribution,
    kernel::Queue,
    statistics::{Estimate, Tally},
    streams::{Purpose, Seed, Stream},
};

/// The contestants: their names and their backoffs; `None` for no wait at all.
#[must_use]
pub fn contestants() -> Vec<(&'static str, Option<Backoff>)> {
    let grown = |jitter| {
        // 5 · 2ⁿ from the first retry on, at most 2000.
        Some(Backoff {
            growth: Growth::Exponential(Ratio::from_parts(2 * Ratio::PARTS)),
            initial: Duration::from_millis(10),
            cap: Duration::from_millis(2000),
            jitter,
            stop_beyond: None,
        })
    };
    let decorrelated = Backoff {
        initial: Duration::from_millis(5),
        ..grown(Jitter::Decorrelated).unwrap_or_default()
    };
    vec![
        ("exponential", grown(Jitter::None)),
        ("decorrelated", Some(decorrelated)),
        ("equal", grown(Jitter::Equal)),
        ("full", grown(Jitter::Full)),
        ("none", None),
    ]
}

/// What a contest came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// Writes that were sent.
    pub writes: u64,
    /// When the last client was done, in milliseconds.
    pub millis: f64,
}

#[derive(Debug, Clone, Copy, Default)]
enum Event {
    /// A client begins, or begins again.
    Begin(u32),
    /// Its read reaches the row.
    Read(u32),
    /// The version reaches the client, which writes.
    Version(u32, u32),
    /// Its write reaches the row.
    Write(u32, u32),
    /// The client learns that its write lost.
    Lost(u32),
    /// The client learns that its write won.
    #[default]
    Won,
}

struct Client {
    chance: Stream,
    network: Stream,
    attempts: u32,
    waited: Duration,
}

/// One contest.
#[must_use]
pub fn round(clients: u32, backoff: Option<&Backoff>, seed: Seed) -> Round {
    let network = Distribution::Normal(Duration::from_millis(10), Duration::from_millis(2));
    let mut all: Vec<Client> = (0..u64::from(clients))
        .map(|client| Client {
            chance: seed.stream(client, Purpose::Policy),
            network: seed.stream(client, Purpose::Network),
            attempts: 0,
            waited: Duration::ZERO,
        })
        .collect();
    let mut queue = Queue::new();
    (0..clients).for_each(|client| queue.push(Instant::ZERO, Event::Begin(client)));
    let (mut version, mut writes, mut ends) = (0_u32, 0_u64, Instant::ZERO);
    while let Some((now, event)) = queue.pop() {
        let mut travel = |client: u32| now.after(network.draw(&mut all[client as usize].network));
        match event {
            Event::Begin(client) => queue.push(travel(client), Event::Read(client)),
            Event::Read(client) => queue.push(travel(client), Event::Version(client, version)),
            Event::Version(client, read) => {
                writes += 1;
                queue.push(travel(client), Event::Write(client, read));
            }
            Event::Write(client, read) if read == version => {
                version += 1;
                queue.push(travel(client), Event::Won);
            }
            Event::Write(client, _) => queue.push(travel(client), Event::Lost(client)),
            Event::Lost(client) => {
                let entry = &mut all[client as usize];
                entry.attempts += 1;
                if let Some(backoff) = backoff {
                    let wait = backoff.delay(entry.attempts, entry.waited, &mut entry.chance);
                    entry.waited = wait.unwrap_or_default();
                }
                queue.push(now.after(entry.waited), Event::Begin(client));
            }
            Event::Won => ends = now,
        }
    }
    Round {
        writes,
        #[expect(clippy::cast_precision_loss, reason = "a contest lasts minutes")]
        millis: ends.as_nanos() as f64 / 1e6,
    }
}

/// Means over many contests: writes and milliseconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a contest has few writes")]
pub fn rounds(clients: u32, backoff: Option<&Backoff>, seed: Seed, count: u32) -> (Estimate, Estimate) {
    let all = (0..u64::from(count)).map(|number| round(clients, backoff, seed.replication(number)));
    let (mut writes, mut millis) = (Tally::default(), Tally::default());
    for round in all {
        writes.add(round.writes as f64);
        millis.add(round.millis);
    }
    (writes.estimate(), millis.estimate())
}

/// What the public contest reports, as means of a hundred runs: clients, contestant, writes, milliseconds.
pub const REPORTED: &[(u32, &str, f64, f64)] = &[
    (10, "exponential", 50.9, 3554.0),
    (10, "decorrelated", 37.6, 436.0),
    (10, "equal", 42.6, 737.0),
    (10, "full", 38.9, 458.0),
    (10, "none", 50.6, 381.0),
    (50, "exponential", 627.0, 36_545.0),
    (50, "decorrelated", 376.0, 2228.0),
    (50, "equal", 348.0, 4340.0),
    (50, "full", 333.0, 2866.0),
    (50, "none", 689.0, 1136.0),
    (100, "exponential", 1851.0, 63_065.0),
    (100, "decorrelated", 999.0, 4582.0),
    (100, "equal", 812.0, 6665.0),
    (100, "full", 795.0, 4889.0),
    (100, "none", 2423.0, 2025.0),
];
