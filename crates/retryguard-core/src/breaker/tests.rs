//! The breaker by script.

use super::*;

const NOW: Instant = Instant::from_secs(100);

fn settings(trip: Trip) -> Settings {
    Settings {
        trip,
        open_for: Duration::from_secs(10),
        open_for_at_most: Duration::from_secs(40),
        probes: 2,
        close_after: 3,
        when_down: WhenDown::Fail,
    }
}

fn end(breaker: &mut Breaker, healthy: bool, now: Instant) {
    let pass = breaker.admit(now).unwrap();
    breaker.on_end(pass, healthy, now);
}

fn tripped() -> Breaker {
    let mut breaker = Breaker::new(settings(Trip::Consecutive(1)), NOW);
    end(&mut breaker, false, NOW);
    assert_eq!(breaker.state(), State::Open);
    breaker
}

#[test]
fn opens_by_failures_in_a_row() {
    let mut breaker = Breaker::new(settings(Trip::Consecutive(3)), NOW);
    for healthy in [false, false, true, false, false] {
        end(&mut breaker, healthy, NOW);
    }
    assert_eq!(breaker.state(), State::Closed);
    end(&mut breaker, false, NOW);
    assert_eq!(breaker.admit(NOW), Err(Refusal::BreakerOpen));
}

#[test]
fn opens_by_count_in_a_window() {
    let trip = Trip::Count {
        failures: 3,
        window: Duration::from_secs(60),
    };
    let mut breaker = Breaker::new(settings(trip), NOW);
    end(&mut breaker, false, NOW);
    end(&mut breaker, false, NOW);
    let later = NOW.after(Duration::from_secs(61));
    end(&mut breaker, false, later);
    assert_eq!(
        breaker.state(),
        State::Closed,
        "the first two have left the window"
    );
    for healthy in [true, false, true, false] {
        end(&mut breaker, healthy, later);
    }
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn opens_by_rate_once_there_are_enough_calls() {
    let trip = Trip::Rate {
        ratio: Ratio::percent(50),
        minimum_calls: 4,
        window: Duration::from_secs(10),
        slow: None,
    };
    let mut breaker = Breaker::new(settings(trip), NOW);
    for healthy in [false, false, true] {
        end(&mut breaker, healthy, NOW);
    }
    assert_eq!(
        breaker.state(),
        State::Closed,
        "two of three, but three are not enough"
    );
    end(&mut breaker, false, NOW);
    assert_eq!(breaker.state(), State::Open);
}

/// A breaker by rate that opens at half of four calls slower than a second.
fn against_slow_calls() -> Breaker {
    let trip = Trip::Rate {
        ratio: Ratio::percent(90),
        minimum_calls: 4,
        window: Duration::from_secs(10),
        slow: Some(Slow {
            above: Duration::from_secs(1),
            ratio: Ratio::percent(50),
        }),
    };
    Breaker::new(settings(trip), NOW)
}

fn end_after(breaker: &mut Breaker, how: End, millis: u64, now: Instant) {
    let pass = breaker.admit(now).unwrap();
    breaker.on_end_as(pass, how, millis * 1_000_000, now);
}

#[test]
fn opens_by_the_share_of_slow_calls_although_they_succeed() {
    let mut breaker = against_slow_calls();
    for millis in [1001, 5, 5000] {
        end_after(&mut breaker, End::Healthy, millis, NOW);
    }
    assert_eq!(breaker.state(), State::Closed, "three are not enough");
    end_after(&mut breaker, End::Healthy, 1000, NOW);
    assert_eq!(breaker.state(), State::Closed, "exactly the limit is not slow");
    end_after(&mut breaker, End::Healthy, 2000, NOW);
    assert_eq!(breaker.state(), State::Open, "three of five");
}

#[test]
fn a_slow_failure_counts_among_both() {
    let mut breaker = against_slow_calls();
    for millis in [1, 1, 3000, 3000] {
        end_after(&mut breaker, End::Failed, millis, NOW);
    }
    // All failed, which is more than nine of ten; of the slow ones alone it would be the fourth as well.
    assert_eq!(breaker.state(), State::Open);
    let mut breaker = against_slow_calls();
    end_after(&mut breaker, End::Healthy, 1, NOW);
    end_after(&mut breaker, End::Healthy, 1, NOW);
    end_after(&mut breaker, End::TimedOut, 3000, NOW);
    end_after(&mut breaker, End::Failed, 3000, NOW);
    assert_eq!(
        breaker.state(),
        State::Open,
        "half of them failed, and half were slow"
    );
}

#[test]
fn slow_calls_leave_the_window_and_a_closed_breaker_begins_anew() {
    let mut breaker = against_slow_calls();
    for _ in 0..3 {
        end_after(&mut breaker, End::Healthy, 2000, NOW);
    }
    let later = NOW.after(Duration::from_secs(10));
    for _ in 0..4 {
        end_after(&mut breaker, End::Healthy, 1, later);
    }
    end_after(&mut breaker, End::Healthy, 2000, later);
    assert_eq!(
        breaker.state(),
        State::Closed,
        "one of five is left in the window"
    );
    breaker.hold_open(later);
    breaker.close();
    for _ in 0..3 {
        end_after(&mut breaker, End::Healthy, 2000, later);
    }
    assert_eq!(breaker.state(), State::Closed, "three calls since it was closed");
}

#[test]
fn a_slow_probe_has_not_proven_anything() {
    let mut breaker = against_slow_calls();
    for _ in 0..4 {
        end_after(&mut breaker, End::Healthy, 2000, NOW);
    }
    let later = NOW.after(Duration::from_secs(10));
    end_after(&mut breaker, End::Healthy, 2000, later);
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn a_new_policy_can_begin_and_stop_to_look_at_slow_calls() {
    let mut breaker = against_slow_calls();
    let with = breaker.settings;
    let without = settings(Trip::Rate {
        ratio: Ratio::percent(90),
        minimum_calls: 4,
        window: Duration::from_secs(10),
        slow: None,
    });
    breaker.replace(without, NOW);
    for _ in 0..10 {
        end_after(&mut breaker, End::Healthy, 2000, NOW);
    }
    assert_eq!(breaker.state(), State::Closed);
    breaker.replace(with, NOW);
    for _ in 0..9 {
        end_after(&mut breaker, End::Healthy, 2000, NOW);
    }
    assert_eq!(
        breaker.state(),
        State::Closed,
        "nine of nineteen are known to be slow"
    );
    end_after(&mut breaker, End::Healthy, 2000, NOW);
    assert_eq!(breaker.state(), State::Open);
}

/// Half-open floods: the named number of probes, and not one more.
#[test]
fn half_open_lets_the_named_number_through() {
    let mut breaker = tripped();
    let later = NOW.after(Duration::from_secs(10));
    let probes = [breaker.admit(later).unwrap(), breaker.admit(later).unwrap()];
    assert_eq!(breaker.admit(later), Err(Refusal::ProbesBusy));
    breaker.on_end(probes[0], true, later);
    breaker.on_end(probes[1], true, later);
    let last = breaker.admit(later).unwrap();
    assert_eq!(
        breaker.admit(later),
        Err(Refusal::ProbesBusy),
        "three in all are enough to decide"
    );
    breaker.on_end(last, true, later);
    assert_eq!(breaker.state(), State::Closed);
}

/// A late result of an old phase must not free a probe's place, close, or open anything.
#[test]
fn a_late_result_of_an_old_phase_is_nothing() {
    let mut breaker = Breaker::new(settings(Trip::Consecutive(1)), NOW);
    let late = breaker.admit(NOW).unwrap();
    end(&mut breaker, false, NOW);
    let later = NOW.after(Duration::from_secs(10));
    let _probes = [breaker.admit(later).unwrap(), breaker.admit(later).unwrap()];
    breaker.on_end(late, true, later);
    breaker.on_abandon(late);
    assert_eq!(breaker.admit(later), Err(Refusal::ProbesBusy));
}

#[test]
fn an_abandoned_probe_frees_its_place() {
    let mut breaker = tripped();
    let later = NOW.after(Duration::from_secs(10));
    let probe = breaker.admit(later).unwrap();
    breaker.admit(later).unwrap();
    breaker.on_abandon(probe);
    assert!(breaker.admit(later).is_ok());
}

#[test]
fn the_open_time_doubles_to_its_cap_and_starts_over_after_closing() {
    let mut breaker = tripped();
    let mut now = NOW;
    for seconds in [10, 20, 40, 40] {
        assert_eq!(
            breaker.opens_until(),
            Some(now.after(Duration::from_secs(seconds)))
        );
        now = now.after(Duration::from_secs(seconds));
        end(&mut breaker, false, now);
    }
    now = now.after(Duration::from_secs(40));
    (0..3).for_each(|_| end(&mut breaker, true, now));
    assert_eq!(breaker.state(), State::Closed);
    end(&mut breaker, false, now);
    assert_eq!(breaker.opens_until(), Some(now.after(Duration::from_secs(10))));
}

#[test]
fn probes_that_never_end_speak_as_failed_ones() {
    let mut breaker = tripped();
    let later = NOW.after(Duration::from_secs(10));
    let lost = [breaker.admit(later).unwrap(), breaker.admit(later).unwrap()];
    let much_later = later.after(Duration::from_secs(10));
    assert_eq!(breaker.admit(much_later), Err(Refusal::BreakerOpen));
    breaker.on_end(lost[0], true, much_later);
    assert_eq!(breaker.state(), State::Open, "it answered for an old phase");
    assert!(breaker.admit(much_later.after(Duration::from_secs(20))).is_ok());
}

#[test]
fn new_settings_keep_the_state() {
    let mut breaker = tripped();
    breaker.replace(settings(Trip::Consecutive(9)), NOW);
    assert_eq!(breaker.state(), State::Open);
}

/// The time after which a probe counts as lost ran from the first probe of the phase. Where calls are
/// rare, the next call found the second probe lost the moment it had begun, and opened the breaker again.
#[test]
fn a_probe_that_begins_late_has_its_own_time() {
    let mut breaker = tripped();
    let first = NOW.after(Duration::from_secs(10));
    end(&mut breaker, true, first);
    let second = first.after(Duration::from_secs(60));
    let probe = breaker.admit(second).unwrap();
    assert!(breaker.admit(second).is_ok(), "there is room for two");
    assert_eq!(breaker.admit(second), Err(Refusal::ProbesBusy));
    breaker.on_end(probe, true, second);
    assert_eq!(breaker.state(), State::HalfOpen);
}

/// New settings that ask for no more successes than there have been left no room for a probe, and with
/// none under way nothing could ever end the phase.
#[test]
fn fewer_successes_to_close_do_not_wedge_a_half_open_breaker() {
    let mut breaker = tripped();
    let later = NOW.after(Duration::from_secs(10));
    (0..2).for_each(|_| end(&mut breaker, true, later));
    assert_eq!(breaker.state(), State::HalfOpen);
    breaker.replace(
        Settings {
            close_after: 2,
            ..settings(Trip::Consecutive(1))
        },
        later,
    );
    assert_eq!(breaker.state(), State::Closed);
}

/// Failures that were counted without the calls beside them made nine successes of eleven look like
/// a rate of 500 %.
#[test]
fn a_count_is_not_read_as_a_rate() {
    let window = Duration::from_secs(60);
    let mut breaker = Breaker::new(
        settings(Trip::Count {
            failures: 100,
            window,
        }),
        NOW,
    );
    (0..50).for_each(|_| end(&mut breaker, false, NOW));
    breaker.replace(
        settings(Trip::Rate {
            ratio: Ratio::percent(50),
            minimum_calls: 10,
            window,
            slow: None,
        }),
        NOW,
    );
    (0..9).for_each(|_| end(&mut breaker, true, NOW));
    (0..2).for_each(|_| end(&mut breaker, false, NOW));
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn another_process_may_hold_it_open_and_close_it() {
    let mut breaker = Breaker::new(settings(Trip::Consecutive(1)), NOW);
    let early = breaker.admit(NOW).unwrap();
    let until = NOW.after(Duration::from_secs(3));
    breaker.hold_open(until);
    assert_eq!(
        (breaker.state(), breaker.opens_until()),
        (State::Open, Some(until))
    );
    assert_eq!(breaker.admit(NOW), Err(Refusal::BreakerOpen));
    breaker.on_end(early, true, NOW);
    breaker.hold_open(NOW);
    assert_eq!(breaker.opens_until(), Some(until), "the longer of the two");
    // When the time is over it probes as if it had opened by itself.
    assert!(breaker.admit(until).unwrap().is_probe());
    breaker.hold_open(until.after(Duration::from_secs(1)));
    assert_eq!(
        breaker.state(),
        State::Open,
        "what the others know is newer than a probe"
    );
    breaker.close();
    assert_eq!(breaker.state(), State::Closed);
    assert!(!breaker.admit(NOW).unwrap().is_probe());
}
