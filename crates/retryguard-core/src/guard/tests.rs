//! The guard by script.

use super::*;
use crate::chance::{Highest, Lowest};

fn sample(calls: u64, rejected: u64) -> Sample {
    Sample {
        calls,
        rejected,
        ..Sample::default()
    }
}

/// Feeds one sample a second from `from` on and returns the state after each.
fn states(guard: &mut Guard, from: u64, samples: &[Sample]) -> Vec<State> {
    samples
        .iter()
        .enumerate()
        .map(|(index, sample)| {
            guard.feed(sample, Instant::from_secs(from + index as u64));
            guard.state()
        })
        .collect()
}

fn default_guard() -> Guard {
    Guard::new(Settings::default(), Instant::ZERO)
}

fn paper_guard(samples: u32) -> Guard {
    let mode = Mode::Algorithm1 {
        threshold: Ratio::percent(20),
        samples,
    };
    Guard::new(
        Settings {
            mode,
            ..Settings::default()
        },
        Instant::ZERO,
    )
}

#[test]
fn algorithm_1_is_off_at_the_start_and_needs_consecutive_samples() {
    let mut guard = paper_guard(3);
    assert_eq!(guard.state(), State::Off);
    let (low, high, equal) = (sample(10, 1), sample(10, 3), sample(10, 2));
    use State::{Off, On};
    let got = states(
        &mut guard,
        0,
        &[low, low, equal, low, low, low, high, high, low, high, high, high],
    );
    assert_eq!(got, [Off, Off, Off, Off, Off, On, On, On, On, On, On, Off]);
}

#[test]
fn algorithm_1_reads_an_empty_sample_as_no_rejection() {
    let mut guard = paper_guard(2);
    states(&mut guard, 0, &[sample(0, 0), sample(0, 0)]);
    assert_eq!(guard.state(), State::On);
}

#[test]
fn an_overload_switches_off_within_two_samples_and_says_why() {
    let mut guard = default_guard();
    states(&mut guard, 0, &[sample(100, 0); 5]);
    assert_eq!(
        guard.feed(&sample(100, 60), Instant::from_secs(5)),
        None,
        "12 % over five seconds"
    );
    let decision = guard.feed(&sample(100, 60), Instant::from_secs(6)).unwrap();
    assert_eq!((decision.from, decision.to), (State::On, State::Off));
    assert_eq!(
        decision.reason.to_string(),
        "rejections 0.2400 above 0.2000 over 500 calls"
    );
    assert!(!guard.allows(&mut Highest));
}

/// Random faults are what retries are for: they are not rejections and do not move the guard.
#[test]
fn faults_that_do_not_speak_of_load_change_nothing() {
    let mut guard = default_guard();
    let faulty = Sample {
        calls: 100,
        rejected: 0,
        retries: 60,
        ..Sample::default()
    };
    assert!(
        states(&mut guard, 0, &[faulty; 60])
            .iter()
            .all(|state| *state == State::On)
    );
}

#[test]
fn it_comes_back_by_the_ramp_after_the_cool_down() {
    let mut guard = default_guard();
    states(&mut guard, 0, &[sample(100, 90)]);
    assert_eq!(guard.state(), State::Off);
    let calm = states(&mut guard, 1, &[sample(100, 0); 16]);
    let ramp = |step| State::Ramping { step };
    assert_eq!(
        calm[..5],
        [State::Off, State::Off, State::Off, State::Off, ramp(0)]
    );
    assert_eq!(calm[5..8], [ramp(0), ramp(0), ramp(1)]);
    assert_eq!(calm[10], ramp(2));
    assert_eq!(calm[13], State::On);
}

#[test]
fn each_step_lets_twice_the_share_through() {
    let rules = Hysteresis::default();
    assert_eq!(rules.share(0), Ratio::from_parts(125_000_000));
    assert_eq!(rules.share(1), Ratio::percent(25));
    assert_eq!(rules.share(2), Ratio::percent(50));
}

#[test]
fn between_the_thresholds_the_state_holds() {
    let mut guard = default_guard();
    states(&mut guard, 0, &[sample(100, 90)]);
    let held = states(&mut guard, 1, &[sample(100, 15); 100]);
    assert!(
        held.iter().all(|state| *state == State::Off),
        "above 10 % is not well yet"
    );
    let mut guard = default_guard();
    assert!(
        states(&mut guard, 0, &[sample(100, 15); 100])
            .iter()
            .all(|state| *state == State::On)
    );
}

#[test]
fn a_relapse_goes_straight_to_off_and_doubles_the_cool_down() {
    let mut guard = default_guard();
    states(&mut guard, 0, &[sample(100, 90)]);
    states(&mut guard, 1, &[sample(100, 0); 5]);
    assert_eq!(guard.state(), State::Ramping { step: 0 });
    states(&mut guard, 6, &[sample(100, 90)]);
    assert_eq!(guard.state(), State::Off);
    let calm = states(&mut guard, 7, &[sample(100, 0); 10]);
    assert_eq!(
        calm.iter().filter(|state| **state == State::Off).count(),
        9,
        "ten seconds, not five"
    );
}

/// Light load gave false offs: three rejections of four calls are no evidence.
#[test]
fn too_few_calls_decide_nothing() {
    let mut guard = default_guard();
    assert!(
        states(&mut guard, 0, &[sample(2, 2); 60])
            .iter()
            .all(|state| *state == State::On)
    );
}

/// Nothing stays switched off for ever: where the calls have all but stopped, retries come back.
#[test]
fn a_quiet_target_is_taken_for_well() {
    let mut guard = default_guard();
    states(&mut guard, 0, &[sample(100, 90)]);
    let quiet = states(&mut guard, 1, &[sample(1, 1); 200]);
    assert_eq!(quiet.last(), Some(&State::On));
    assert_eq!(quiet[28], State::Off);
    assert_eq!(quiet[29], State::Ramping { step: 0 });
}

#[test]
fn retries_per_call_are_read_against_the_share_that_is_let_through() {
    let settings = Settings {
        signal: Signal::RetriesPerCall,
        ..Settings::default()
    };
    let mut guard = Guard::new(settings, Instant::ZERO);
    let storm = Sample {
        calls: 100,
        retries: 150,
        ..Sample::default()
    };
    states(&mut guard, 0, &[storm]);
    assert_eq!(guard.state(), State::Off);
    let blind = states(&mut guard, 1, &[sample(100, 0); 5]);
    assert_eq!(
        blind.last(),
        Some(&State::Ramping { step: 0 }),
        "only the ramp can tell"
    );
    // An eighth is let through; 15 retries per 100 calls are what 120 would be if all were.
    states(
        &mut guard,
        6,
        &[Sample {
            calls: 100,
            retries: 15,
            ..Sample::default()
        }],
    );
    assert_eq!(guard.state(), State::Off);
}

#[test]
fn a_delay_is_read_in_seconds() {
    let settings = Settings {
        signal: Signal::Delay,
        ..Settings::default()
    };
    let mut guard = Guard::new(settings, Instant::ZERO);
    let slow = Sample {
        calls: 100,
        delay: Some(Duration::from_millis(300)),
        ..Sample::default()
    };
    states(&mut guard, 0, &[slow]);
    assert_eq!(guard.state(), State::Off, "300 ms is above 0.2 s");
}

#[test]
fn new_settings_keep_the_state_within_a_mode() {
    let mut guard = default_guard();
    states(&mut guard, 0, &[sample(100, 90)]);
    let rules = Hysteresis {
        on_below: Ratio::percent(5),
        ..Hysteresis::default()
    };
    let settings = Settings {
        mode: Mode::Hysteresis(rules),
        ..Settings::default()
    };
    guard.replace(settings, Instant::from_secs(1));
    assert_eq!(guard.state(), State::Off);
    assert!(!guard.allows(&mut Lowest));
}

/// The ring was as long as the pool, so that a longer pool read places that were never written in this state.
#[test]
fn a_longer_pool_reads_no_stale_sample() {
    let pooling = |samples| Settings {
        mode: Mode::Hysteresis(Hysteresis {
            samples,
            ..Hysteresis::default()
        }),
        ..Settings::default()
    };
    let mut guard = Guard::new(pooling(5), Instant::ZERO);
    states(&mut guard, 0, &[sample(100, 15); 5]);
    guard.replace(pooling(1), Instant::from_secs(5));
    states(&mut guard, 5, &[sample(1000, 0)]);
    guard.replace(pooling(2), Instant::from_secs(6));
    let decision = guard.feed(&sample(1000, 500), Instant::from_secs(6)).unwrap();
    assert_eq!(
        decision.reason.to_string(),
        "rejections 0.2500 above 0.2000 over 2000 calls"
    );
}

/// A controller was killed while a target's retries were off; the next one must neither forget it nor keep it.
#[test]
fn a_guard_goes_on_from_where_another_one_was() {
    let mut guard = Guard::resume(Settings::default(), State::Off, Instant::ZERO);
    assert_eq!(guard.share(), Ratio::ZERO);
    let well = [sample(100, 0); 7];
    let seen = states(&mut guard, 1, &well);
    assert_eq!(seen[3], State::Off, "the cool-down begins anew");
    assert_eq!(seen[4], State::Ramping { step: 0 });
    let far = Guard::resume(Settings::default(), State::Ramping { step: 9 }, Instant::ZERO);
    assert_eq!(far.state(), State::Ramping { step: 2 });
    let mode = Mode::Hysteresis(Hysteresis {
        ramp_steps: 0,
        ..Hysteresis::default()
    });
    let settings = Settings {
        mode,
        ..Settings::default()
    };
    let none = Guard::resume(settings, State::Ramping { step: 0 }, Instant::ZERO);
    assert_eq!(none.state(), State::Off);
    let paper = Guard::resume(*paper_guard(3).settings(), State::On, Instant::ZERO);
    assert_eq!(paper.state(), State::On);
}
