//! The measurement on services that fail by chance, by load and altogether.

use super::*;

/// What a service's callers see in a second, with up to two retries for each call.
#[derive(Clone, Copy)]
enum World {
    Random(f64),
    /// Calls and capacity a second; what does not fit is rejected at once.
    Overload(f64, f64),
    Down,
    Calm,
}

fn second(world: World, retries_on: bool) -> Counts {
    let attempts = if retries_on { 3 } else { 1 };
    let (calls, p): (f64, f64) = match world {
        World::Calm => (200.0, 0.0),
        World::Down => (200.0, 1.0),
        World::Random(p) => (200.0, p),
        World::Overload(calls, capacity) => {
            // The share of attempts that are rejected: p with calls · (1 + p + p²) · (1 − p) = capacity.
            let served = |p: f64| calls * (1.0 - f64::powi(p, attempts));
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..50 {
                let middle = f64::midpoint(low, high);
                if served(middle) > capacity {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            (calls, low)
        }
    };
    let failed = calls * f64::powi(p, attempts);
    let retries: f64 = (1..attempts).map(|number| calls * f64::powi(p, number)).sum();
    Counts {
        calls: calls as u64,
        rejected: Some((calls * p).round() as u64),
        retries: Some(retries.round() as u64),
        retries_succeeded: None,
        failed: Some(failed.round() as u64),
        delay: None,
    }
}

/// Plays `seconds` of a world; a stand-in for the threshold guard goes off above 20 % and on below 10 %.
struct Play {
    measurement: Measurement,
    guard_on: bool,
    advice: Advice,
    now: u64,
    above: u32,
    on_for: u32,
    of: u32,
}

impl Play {
    fn new() -> Self {
        Self {
            measurement: Measurement::default(),
            guard_on: true,
            advice: Advice::AsGuarded,
            now: 0,
            above: 0,
            on_for: 0,
            of: 0,
        }
    }

    fn is_on(&self) -> bool {
        match self.advice {
            Advice::On | Advice::Recovered => true,
            Advice::Off => false,
            Advice::AsGuarded => self.guard_on,
        }
    }

    fn play(&mut self, world: World, seconds: u32) -> f64 {
        (self.on_for, self.of) = (0, seconds);
        for _ in 0..seconds {
            self.now += 1;
            let on = self.is_on();
            self.on_for += u32::from(on);
            let counts = second(world, on);
            let share = counts.rejected.unwrap() as f64 / counts.calls as f64;
            self.above = if share > 0.2 { self.above + 1 } else { 0 };
            if self.above >= 5 {
                self.guard_on = false;
            } else if share < 0.1 {
                self.guard_on = self.guard_on || on;
            }
            self.advice = self
                .measurement
                .observe(&counts, self.guard_on, Instant::from_secs(self.now));
            if self.advice == Advice::Recovered {
                self.guard_on = true;
                self.above = 0;
            }
        }
        f64::from(self.on_for) / f64::from(seconds)
    }
}

/// With 25 % random failures the threshold alone kept retries off and lowered the success from 100 % to 77 %.
#[test]
fn random_failures_keep_their_retries() {
    let mut play = Play::new();
    play.play(World::Calm, 20);
    assert_eq!(play.play(World::Random(0.25), 120), 1.0);
    assert!(play.measurement.is_productive());
    assert_eq!(play.measurement.gain(), None, "nothing had to be switched");
}

/// Where calls fail in spite of their retries, only the two arms can say whether these help.
#[test]
fn many_random_failures_are_measured_and_keep_their_retries() {
    let mut play = Play::new();
    play.play(World::Calm, 20);
    let on = play.play(World::Random(0.4), 120);
    assert!(on > 0.9 && on < 1.0, "{on}");
    assert!(play.measurement.is_productive());
    let gain = play.measurement.gain().unwrap();
    assert!((gain.value - 0.6).abs() < 0.1, "{gain:?}");
}

/// At an overload by 5 % few calls fail, but most retries are wasted.
#[test]
fn a_slight_overload_is_not_taken_for_random_failures() {
    let mut play = Play::new();
    play.play(World::Calm, 20);
    let on = play.play(World::Overload(210.0, 200.0), 300);
    assert!(on < 0.15, "{on}");
}

#[test]
fn an_outage_ends_a_test_with_its_first_sample() {
    let mut play = Play::new();
    play.play(World::Calm, 20);
    play.play(World::Overload(300.0, 150.0), 6);
    while !play.is_on() {
        play.play(World::Overload(300.0, 150.0), 1);
    }
    play.play(World::Down, 1);
    assert!(!play.is_on());
    play.play(World::Down, 300);
    assert_eq!(play.on_for, 0, "and there is no other while it lasts");
    play.play(World::Calm, 1);
    assert!(play.is_on());
}

/// The sample that covers the end of an outage has failures too.
#[test]
fn an_outage_that_ends_within_a_sample_is_over_with_the_next() {
    for share in [0.05, 0.3, 0.7, 0.95] {
        let mut play = Play::new();
        play.play(World::Calm, 20);
        play.play(World::Down, 20);
        play.play(World::Random(share), 1);
        play.play(World::Calm, 1);
        assert!(play.is_on(), "{share}");
    }
}

#[test]
fn an_overload_loses_its_retries_but_for_tests() {
    let mut play = Play::new();
    play.play(World::Calm, 20);
    let on = play.play(World::Overload(300.0, 150.0), 300);
    assert!(on < 0.15, "{on}");
    assert!(play.measurement.gain().unwrap().value < PRICE.as_f64());
}

/// A test was made every 30 s although each second showed that the service serves no more, and one fell on the first second of an
/// outage. It is put off, but not for ever: what looks like a limit may be something else.
#[test]
fn a_service_that_is_seen_at_its_capacity_is_tested_seldom() {
    let mut play = Play::new();
    play.play(World::Calm, 20);
    let mut tests = Vec::new();
    for now in 0..1_200_u32 {
        let was_on = play.is_on();
        // The load varies from one second to the next.
        let calls = 300.0 + f64::from(now * 37 % 41);
        play.play(World::Overload(calls, 150.0), 1);
        if play.is_on() && !was_on {
            tests.push(now);
        }
    }
    assert!((4..=5).contains(&tests.len()), "{tests:?}");
    let gaps = tests.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.clone().all(|gap| (240..300).contains(&gap)), "{tests:?}");
}

/// A load that varies does not keep the retries off that help.
#[test]
fn random_failures_are_tested_in_time() {
    let mut play = Play::new();
    play.play(World::Calm, 20);
    play.play(World::Overload(300.0, 150.0), 40);
    for now in 0..70 {
        let mut counts = second(World::Random(0.4), play.is_on());
        let share = 1.0 + f64::from(now * 37 % 41) / 100.0;
        let more = |count: u64| (count as f64 * share).round() as u64;
        counts = Counts {
            calls: more(counts.calls),
            rejected: counts.rejected.map(more),
            retries: counts.retries.map(more),
            failed: counts.failed.map(more),
            ..counts
        };
        play.now += 1;
        play.advice = play
            .measurement
            .observe(&counts, false, Instant::from_secs(play.now));
    }
    assert!(play.measurement.is_productive());
}

/// Retries that helped against random failures go off within five samples of an overload.
#[test]
fn a_random_failure_that_turns_into_an_overload_is_noticed() {
    let mut play = Play::new();
    play.play(World::Random(0.25), 60);
    assert!(play.measurement.is_productive());
    play.play(World::Overload(300.0, 150.0), 5);
    assert!(!play.is_on());
    let on = play.play(World::Overload(300.0, 150.0), 60);
    assert!(on < 0.2, "{on}");
}

#[test]
fn an_outage_is_off_and_its_end_brings_retries_back_within_two_samples() {
    let mut play = Play::new();
    play.play(World::Calm, 20);
    play.play(World::Down, 60);
    assert!(!play.is_on());
    assert_eq!(play.on_for, 5, "no tests while nothing answers");
    play.play(World::Calm, 2);
    assert!(play.is_on());
}

/// The price of a policy was ignored: 15 % held for every target. It also holds after an outage, which begins everything else anew.
#[test]
fn a_retry_must_bring_what_the_policy_asks_for() {
    for (price, productive) in [(Ratio::percent(15), true), (Ratio::percent(80), false)] {
        let mut play = Play::new();
        play.measurement = Measurement::new(price);
        for _ in 0..2 {
            play.play(World::Calm, 20);
            // A gain of 0.6.
            play.play(World::Random(0.4), 20);
            assert_eq!(play.measurement.is_productive(), productive, "{price:?}");
            play.play(World::Down, 20);
            play.play(World::Calm, 2);
            assert!(play.is_on());
        }
    }
}

/// Retries were on for 2.3 s of an outage, because a test had begun right before it.
#[test]
fn a_sample_that_covers_the_beginning_of_an_outage_ends_a_test() {
    let mut play = Play::new();
    play.play(World::Calm, 20);
    let overload = World::Overload(300.0, 200.0);
    play.play(overload, 6);
    while !play.is_on() {
        play.play(overload, 1);
    }
    // Four of ten calls meet the outage, and half of the others succeed.
    play.play(World::Overload(300.0, 90.0), 1);
    assert!(!play.is_on());
}

/// A test had begun in the second in which an outage began. The service still answered what was in its queue, so that as many calls
/// succeeded as before; only the retries, which came to nothing, told the outage. It took another sample.
#[test]
fn retries_that_come_to_nothing_end_a_test_with_its_first_sample() {
    // Few calls, whose retries failed; and enough calls to compare with those before.
    let few = (19, 4, Some(3));
    let many = (34, 13, None);
    // A fifth of the retries may have helped.
    let useful = (19, 4, Some(16));
    for ((calls, failed, retries_succeeded), ended) in
        [(few, Advice::Off), (many, Advice::Off), (useful, Advice::On)]
    {
        let mut play = Play::new();
        play.play(World::Calm, 20);
        let overload = World::Overload(75.0, 50.0);
        while !(play.is_on() && play.measurement.gain().is_some()) {
            play.play(overload, 1);
        }
        let counts = Counts {
            calls,
            failed: Some(failed),
            rejected: Some(failed),
            retries: Some(79),
            retries_succeeded,
            ..Counts::default()
        };
        let now = Instant::from_secs(10_000);
        assert_eq!(play.measurement.observe(&counts, false, now), ended, "{counts:?}");
    }
}

#[test]
fn the_four_phases_in_a_row() {
    let mut play = Play::new();
    assert_eq!(play.play(World::Calm, 30), 1.0);
    assert!(play.play(World::Random(0.25), 60) > 0.85);
    assert!(play.play(World::Overload(300.0, 150.0), 60) < 0.25);
    assert!(play.play(World::Down, 60) < 0.15);
    play.play(World::Calm, 2);
    assert!(play.is_on());
}

#[test]
fn a_source_without_the_counts_measures_nothing() {
    let mut measurement = Measurement::default();
    let counts = Counts {
        failed: None,
        ..second(World::Random(0.25), true)
    };
    for now in 0..100 {
        let advice = measurement.observe(&counts, now < 50, Instant::from_secs(now));
        assert_eq!(advice, Advice::AsGuarded);
    }
    assert_eq!(measurement.gain(), None);
}
