use std::time::Duration;

use super::*;
use crate::time::nanos;

const ALLOWED: Duration = Duration::from_secs(1);

/// A limiter with the latency that it follows, and a clock.
struct Client {
    limiter: Limiter,
    pace: Pace,
    now: Instant,
    /// The time between two attempts.
    gap: Duration,
}

impl Client {
    fn new(gap: Duration) -> Self {
        Self {
            limiter: Limiter::new(Settings::default()),
            pace: Pace::default(),
            now: Instant::ZERO,
            gap,
        }
    }

    /// Makes an attempt that ends after `millis`, with seven others under way, while the guard suspends retries.
    fn attempt(&mut self, end: End, millis: u64) {
        self.now = self.now.after(self.gap);
        let started = self.now;
        self.limiter.on_start(started);
        let ends = started.after(Duration::from_millis(millis));
        let weight = self.pace.on_end(
            end == End::Success,
            ends.nanos_since(started),
            Some(nanos(ALLOWED)),
            ends,
        );
        let ended = Ended {
            end,
            started,
            weight,
            retries: guard::State::Off,
        };
        self.limiter.on_end(&ended, 8, &self.pace, ends);
        self.now = ends;
    }

    fn pauses(&self) -> bool {
        self.limiter.opens() > self.now
    }
}

fn busy() -> Client {
    let mut client = Client::new(Duration::from_millis(1));
    (0..64).for_each(|_| client.attempt(End::Success, 20));
    client
}

/// Attempts of which every fifth runs out of its time, while the others take `millis`.
fn with_timeouts(millis: u64) -> Client {
    let mut client = busy();
    for number in 0..200 {
        if number % 5 == 4 {
            client.attempt(End::TimedOut, 1000);
        } else {
            client.attempt(End::Success, millis);
        }
    }
    client
}

#[test]
fn lost_messages_beside_answers_of_nearly_the_usual_speed_do_not_shrink_it() {
    let client = with_timeouts(27);
    assert_eq!(client.limiter.places(), 1000);
}

/// Attempts of which every fifth is rejected after so long, while the others take `millis`.
fn with_rejections(after: u64, millis: u64) -> Client {
    let mut client = busy();
    for number in 0..200 {
        if number % 5 == 4 {
            client.attempt(End::Rejected, after);
        } else {
            client.attempt(End::Success, millis);
        }
    }
    client
}

#[test]
fn rejections_beside_the_same_answers_do() {
    let client = with_rejections(1, 27);
    assert!(client.limiter.places() < 20, "{}", client.limiter.places());
}

#[test]
fn rejections_later_than_slow_answers_do_not() {
    assert!(with_rejections(300, 300).limiter.places() < 20);
    assert_eq!(with_rejections(600, 300).limiter.places(), 1000);
}

#[test]
fn timeouts_beside_slow_answers_do_not() {
    let client = with_timeouts(300);
    assert_eq!(client.limiter.places(), 1000);
}

#[test]
fn timeouts_beside_late_answers_do() {
    let client = with_timeouts(500);
    assert!(client.limiter.places() < 20, "{}", client.limiter.places());
}

#[test]
fn a_client_of_few_calls_slows_down_after_timeouts_in_a_row_and_not_between_fast_answers() {
    let mut client = Client::new(Duration::from_secs(10));
    for _ in 0..8 {
        client.attempt(End::Success, 20);
        client.attempt(End::TimedOut, 1000);
        assert!(!client.pauses(), "every other message is lost");
    }
    (0..4).for_each(|_| client.attempt(End::TimedOut, 1000));
    assert!(client.pauses(), "nothing is answered any more");
}

#[test]
fn attempts_that_were_given_up_keep_their_places_until_a_later_one_is_answered() {
    let mut client = busy();
    client.attempt(End::TimedOut, 1000);
    assert_eq!(client.limiter.abandoned(client.now), 0, "nothing is limited");
    assert_eq!(client.limiter.abandoned_until(), Instant::ZERO);
    // Slow answers and timeouts: the limit is made.
    for _ in 0..60 {
        client.attempt(End::Success, 600);
        client.attempt(End::TimedOut, 1000);
    }
    client.attempt(End::TimedOut, 1000);
    let (now, until) = (client.now, client.limiter.abandoned_until());
    assert_eq!(
        client.limiter.abandoned(now),
        1,
        "the one since the last answer is older than it is kept"
    );
    assert!(until > now);
    assert_eq!(client.limiter.abandoned(until), 0, "forgotten");
    client.attempt(End::Success, 20);
    assert_eq!(client.limiter.abandoned(client.now), 0);
    assert_eq!(client.limiter.abandoned_until(), Instant::ZERO);
}
