//! A signal that swings.

use retryguard_controller::domain::limits::Limits;
use retryguard_controller::domain::state::RetryState;
use retryguard_core::guard::{Hysteresis, Mode, Settings};

use crate::scripted::{DataPlane, Setup, reading, seconds, start};

/// A signal that swings around one threshold moves nothing: off above 20 %, back below 10 %.
#[tokio::test(start_paused = true)]
async fn a_swing_within_the_hysteresis_changes_nothing_after_the_first() {
    let plane = DataPlane::new();
    let _running = start(
        Setup::default(),
        &plane,
        Box::new(|second| Ok(vec![reading("payments", if second % 2 == 0 { 26 } else { 16 })])),
    );
    seconds(300).await;
    assert_eq!(plane.desired_states(), [RetryState::Off]);
}

/// Overload comes back whenever retries do. Each relapse doubles the cool-down, so that changes become rare.
#[tokio::test(start_paused = true)]
async fn a_storm_that_returns_with_the_retries_is_met_ever_more_slowly() {
    let plane = DataPlane::new();
    let seen = plane.clone();
    let _running = start(
        Setup::default(),
        &plane,
        Box::new(move |_| {
            let rejected = if seen.held("payments") == RetryState::Off {
                0
            } else {
                60
            };
            Ok(vec![reading("payments", rejected)])
        }),
    );
    seconds(600).await;
    let changes = plane.changes();
    let offs: Vec<u64> = changes
        .iter()
        .filter(|(_, change)| change.desired == RetryState::Off)
        .map(|(second, _)| *second)
        .collect();
    let gaps: Vec<u64> = offs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.is_sorted(), "{gaps:?}");
    assert!(*gaps.last().unwrap() >= 60, "{gaps:?}");
}

/// Settings without any brake of their own: the cap holds, in every minute.
#[tokio::test(start_paused = true)]
async fn the_cap_holds_in_every_minute() {
    let guard = Settings {
        mode: Mode::Algorithm1 {
            threshold: retryguard_core::Ratio::percent(20),
            samples: 1,
        },
        ..Settings::default()
    };
    for (per_target, in_all, expected) in [(12, 600, 24), (600, 9, 9)] {
        let plane = DataPlane::new();
        let setup = Setup {
            targets: vec!["payments", "orders"],
            guards: vec![guard],
            limits: Limits {
                changes_per_minute: per_target,
                changes_per_minute_in_all: in_all,
                ..Limits::default()
            },
            ..Setup::default()
        };
        let _running = start(
            setup,
            &plane,
            Box::new(|second| {
                let rejected = if second % 2 == 0 { 60 } else { 0 };
                Ok(vec![reading("payments", rejected), reading("orders", rejected)])
            }),
        );
        seconds(600).await;
        let times: Vec<u64> = plane.changes().iter().map(|(second, _)| *second).collect();
        let most = (0..540)
            .map(|from| {
                times
                    .iter()
                    .filter(|time| (from..from + 60).contains(*time))
                    .count()
            })
            .max();
        assert_eq!(most, Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn an_overload_at_light_load_is_no_overload() {
    let mode = Mode::Hysteresis(Hysteresis {
        minimum_calls: 1_000,
        ..Hysteresis::default()
    });
    let plane = DataPlane::new();
    let setup = Setup {
        guards: vec![Settings {
            mode,
            ..Settings::default()
        }],
        ..Setup::default()
    };
    let _running = start(setup, &plane, Box::new(|_| Ok(vec![reading("payments", 60)])));
    seconds(300).await;
    assert_eq!(plane.desired_states(), []);
}
