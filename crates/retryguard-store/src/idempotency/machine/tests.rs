//! The machine by every case, and by every order in which two requests, a crash, a release, the clock and a clock that
//! is set back can meet on one key.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::*;

const OURS: Fingerprint = Fingerprint([1; 32]);
const THEIRS: Fingerprint = Fingerprint([2; 32]);

fn seconds(count: i8) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}

fn response(author: u8) -> StoredResponse {
    StoredResponse {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Some(Bytes::copy_from_slice(&[author])),
    }
}

/// Every combination of fingerprint, lock, clock, expiry and completion, against the table of the module.
#[test]
fn every_record_has_one_decision() {
    assert_eq!(decide(None, OURS), Decision::Insert);
    let mut seen = 0;
    for fingerprint in [OURS, THEIRS] {
        for (lock_left, lock) in [(0, 0), (0, 3), (1, 3), (3, 3), (4, 3), (1, 0)] {
            for expired in [false, true] {
                for done in [None, Some(response(7))] {
                    let record = Record {
                        fingerprint,
                        token: 5,
                        lock_left: seconds(lock_left),
                        lock: seconds(lock),
                        expired,
                        response: done.clone(),
                    };
                    let version = Version {
                        token: 5,
                        completed: done.is_some(),
                    };
                    let same = fingerprint == OURS;
                    let wanted = match (expired, same, done.is_some()) {
                        (true, _, _) => Decision::TakeOver(version),
                        (false, false, _) => Decision::Mismatch,
                        (false, true, true) => Decision::Replay,
                        (false, true, false) if lock_left == 0 => Decision::TakeOver(version),
                        (false, true, false) if lock_left > lock => Decision::Relock(version, seconds(lock)),
                        (false, true, false) => Decision::Busy(seconds(lock_left)),
                    };
                    assert_eq!(decide(Some(&record), OURS), wanted, "{record:?}");
                    seen += 1;
                }
            }
        }
    }
    assert_eq!(seen, 48);
}

const LOCK: i8 = 2;
const KEEP: i8 = 20;
/// How far the true clock is followed.
const END: i8 = 9;
/// How many claims there are before nothing is released any more: otherwise there is no end of states.
const TOKENS: i64 = 4;
/// The clock is set back once, by more than a lock.
const BACK: i8 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stored {
    owner_request: u8,
    token: i64,
    locked_until: i8,
    expires_at: i8,
    /// Which actor's response.
    done: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Actor {
    Ready,
    /// Has loaded a record and decided; the change is not stored yet.
    Decided {
        token: i64,
        completed: bool,
        relock: bool,
    },
    /// Works, since this true moment.
    Holds {
        token: i64,
        since: i8,
    },
    Done,
    Replayed(u8),
    Lost,
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    true_time: i8,
    /// What the backend's clock shows less than the true one.
    behind: i8,
    stored: Option<Stored>,
    tokens: i64,
    actors: [Actor; 2],
    /// The responses that were ever stored.
    completions: Vec<u8>,
}

impl World {
    fn new() -> Self {
        Self {
            true_time: 0,
            behind: 0,
            stored: None,
            tokens: 0,
            actors: [Actor::Ready; 2],
            completions: Vec::new(),
        }
    }

    const fn wall(&self) -> i8 {
        self.true_time - self.behind
    }

    fn record(&self) -> Option<Record> {
        self.stored.map(|stored| Record {
            fingerprint: if stored.owner_request == 0 { OURS } else { THEIRS },
            token: stored.token,
            lock_left: seconds(stored.locked_until - self.wall()),
            lock: seconds(LOCK),
            expired: stored.expires_at <= self.wall(),
            response: stored.done.map(response),
        })
    }

    fn at(&mut self, seen: Version) -> Option<&mut Stored> {
        let stored = self.stored.as_mut()?;
        let is = Version {
            token: stored.token,
            completed: stored.done.is_some(),
        };
        (is == seen).then_some(stored)
    }

    fn claim(&mut self, actor: usize) {
        self.tokens += 1;
        self.stored = Some(Stored {
            owner_request: 0,
            token: self.tokens,
            locked_until: self.wall() + LOCK,
            expires_at: self.wall() + KEEP,
            done: None,
        });
        self.actors[actor] = Actor::Holds {
            token: self.tokens,
            since: self.true_time,
        };
    }

    /// One step of an actor that wants the key: loading with its decision, or storing what it decided.
    fn ask(&self, actor: usize) -> Option<Self> {
        let mut next = self.clone();
        match self.actors[actor] {
            Actor::Ready => match decide(self.record().as_ref(), OURS) {
                // Storing where there is no record is one step of every backend.
                Decision::Insert => next.claim(actor),
                Decision::TakeOver(seen) | Decision::Relock(seen, _) => {
                    next.actors[actor] = Actor::Decided {
                        token: seen.token,
                        completed: seen.completed,
                        relock: matches!(decide(self.record().as_ref(), OURS), Decision::Relock(..)),
                    };
                }
                Decision::Busy(left) => {
                    assert!(left <= seconds(LOCK), "a wait is never longer than a lock");
                    return None;
                }
                Decision::Replay => next.actors[actor] = Actor::Replayed(self.stored?.done?),
                Decision::Mismatch => panic!("there is one request"),
            },
            Actor::Decided {
                token,
                completed,
                relock,
            } => {
                let until = self.wall() + LOCK;
                next.actors[actor] = Actor::Ready;
                if let Some(stored) = next.at(Version { token, completed }) {
                    if relock {
                        stored.locked_until = until;
                    } else {
                        next.claim(actor);
                    }
                }
            }
            _ => return None,
        }
        Some(next)
    }

    fn complete(&self, actor: usize) -> Option<Self> {
        let Actor::Holds { token, .. } = self.actors[actor] else {
            return None;
        };
        let mut next = self.clone();
        let author = u8::try_from(actor).ok()?;
        let until = self.wall() + KEEP;
        let held = Held {
            id: KeyId([0; 32]),
            token,
        };
        match next.at(Version::held(held)) {
            Some(stored) => {
                stored.done = Some(author);
                stored.expires_at = until;
                next.completions.push(author);
                next.actors[actor] = Actor::Done;
            }
            None => next.actors[actor] = Actor::Lost,
        }
        Some(next)
    }

    fn release(&self, actor: usize) -> Option<Self> {
        if self.tokens >= TOKENS {
            return None;
        }
        let Actor::Holds { token, .. } = self.actors[actor] else {
            return None;
        };
        let mut next = self.clone();
        let held = Held {
            id: KeyId([0; 32]),
            token,
        };
        if let Some(stored) = next.at(Version::held(held)) {
            stored.locked_until = i8::MIN / 2;
        }
        next.actors[actor] = Actor::Ready;
        Some(next)
    }

    fn next(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for actor in 0..self.actors.len() {
            all.extend(self.ask(actor));
            all.extend(self.complete(actor));
            all.extend(self.release(actor));
            if self.actors[actor] != Actor::Gone {
                let mut crashed = self.clone();
                crashed.actors[actor] = Actor::Gone;
                all.push(crashed);
            }
        }
        if self.true_time < END {
            let mut later = self.clone();
            later.true_time += 1;
            all.push(later);
        }
        if self.behind == 0 {
            let mut back = self.clone();
            back.behind = BACK;
            all.push(back);
        }
        all
    }

    fn check(&self) {
        assert!(
            self.completions.len() <= 1,
            "a key is completed once within its time: {self:?}"
        );
        let live =
            |actor: &&Actor| matches!(actor, Actor::Holds { since, .. } if self.true_time - since < LOCK);
        assert!(
            self.actors.iter().filter(live).count() <= 1,
            "two hold the key at the same time: {self:?}"
        );
        for actor in &self.actors {
            if let Actor::Replayed(author) = actor {
                assert_eq!(Some(author), self.completions.first(), "{self:?}");
            }
        }
    }

    /// A newcomer gets the key or the response within two locks, whatever was left behind and wherever the clock is.
    fn check_that_a_newcomer_is_served(&self) {
        let mut world = self.clone();
        world.actors[1] = Actor::Ready;
        if let Actor::Holds { .. } = world.actors[0] {
            world.actors[0] = Actor::Gone;
        }
        for _ in 0..=2 * LOCK + 1 {
            while let Some(next) = world.ask(1) {
                world = next;
                if matches!(world.actors[1], Actor::Holds { .. } | Actor::Replayed(_)) {
                    return;
                }
            }
            world.true_time += 1;
        }
        panic!("no request is served: from {self:?} to {world:?}");
    }
}

#[test]
fn every_order_of_two_requests_crashes_and_clocks_keeps_the_promises() {
    let mut seen = HashSet::from([World::new()]);
    let mut queue = VecDeque::from([World::new()]);
    while let Some(world) = queue.pop_front() {
        world.check();
        world.check_that_a_newcomer_is_served();
        for next in world.next() {
            if seen.insert(next.clone()) {
                queue.push_back(next);
            }
        }
    }
    // Released keys are claimed again and again, so there are many.
    assert!(seen.len() > 10_000, "only {} states", seen.len());
}
