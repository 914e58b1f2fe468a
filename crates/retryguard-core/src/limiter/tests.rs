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
            end == End::TimedOut,
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

#[test]
fn lost_messages_beside_answers_of_nearly_the_usual_speed_do_not_shrink_it() {
    let mut client = busy();
    for number in 0..200 {
        let lost = number % 5 == 4;
        client.attempt(
            if lost { End::TimedOut } else { End::Success },
            if lost { 1000 } else { 27 },
        );
    }
    assert_eq!(client.limiter.places(), 1000);
}

#[test]
fn rejections_beside_the_same_answers_do() {
    let mut client = busy();
    for number in 0..200 {
        let rejected = number % 5 == 4;
        client.attempt(
            if rejected { End::Rejected } else { End::Success },
            if rejected { 1 } else { 27 },
        );
    }
    assert!(client.limiter.places() < 20, "{}", client.limiter.places());
}

#[test]
fn timeouts_beside_slow_answers_do() {
    let mut client = busy();
    for number in 0..200 {
        let late = number % 5 == 4;
        client.attempt(
            if late { End::TimedOut } else { End::Success },
            if late { 1000 } else { 300 },
        );
    }
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
