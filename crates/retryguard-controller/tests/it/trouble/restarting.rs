//! Killed, restarted, stopped.

use retryguard_controller::domain::state::{Observed, RetryState};
use retryguard_controller::reconcile::control_loop::Ended;

use crate::scripted::{DataPlane, Setup, down, reading, seconds, start, unreachable_plane};

/// Killed at every second of an episode and restarted: the next controller finds what the first had changed,
/// goes on, and in the end nothing of ours is left.
#[tokio::test(start_paused = true)]
async fn killed_at_any_point_nothing_stays_switched_off() {
    for killed_after in 1..40 {
        let plane = DataPlane::new();
        let first = start(
            Setup::default(),
            &plane,
            Box::new(|second| Ok(vec![reading("payments", if second < 12 { 60 } else { 0 })])),
        );
        seconds(killed_after).await;
        first.kill();
        let left = plane.held("payments");
        seconds(3).await;
        let _second = start(
            Setup::default(),
            &plane,
            Box::new(|_| Ok(vec![reading("payments", 0)])),
        );
        seconds(1).await;
        assert_eq!(
            plane.held("payments"),
            left,
            "killed after {killed_after} s: it goes on"
        );
        seconds(60).await;
        assert_eq!(
            plane.held("payments"),
            RetryState::Original,
            "killed after {killed_after} s"
        );
    }
}

/// As above, with an overload that lasts: the second controller keeps retries off without a gap.
#[tokio::test(start_paused = true)]
async fn a_restart_during_an_overload_lets_no_retries_through() {
    let plane = DataPlane::new();
    let overload = |_| Ok(vec![reading("payments", 60)]);
    let first = start(Setup::default(), &plane, Box::new(overload));
    seconds(10).await;
    first.kill();
    let _second = start(Setup::default(), &plane, Box::new(overload));
    seconds(120).await;
    assert_eq!(
        plane.desired_states(),
        [RetryState::Off],
        "one change, and never undone"
    );
}

#[tokio::test(start_paused = true)]
async fn restarted_without_data_what_was_found_is_restored_after_the_hold() {
    let plane = DataPlane::new();
    plane.set("payments", Some(Observed::Managed(RetryState::Off)));
    let _running = start(Setup::default(), &plane, Box::new(|_| Err(down())));
    seconds(54).await;
    assert_eq!(plane.held("payments"), RetryState::Off);
    seconds(2).await;
    assert_eq!(plane.held("payments"), RetryState::Original);
}

/// A target that is no longer in the configuration was switched off by the one before.
#[tokio::test(start_paused = true)]
async fn what_a_former_configuration_left_is_restored() {
    let plane = DataPlane::new();
    plane.set("removed", Some(Observed::Managed(RetryState::Off)));
    let _running = start(
        Setup::default(),
        &plane,
        Box::new(|_| Ok(vec![reading("payments", 0)])),
    );
    seconds(3).await;
    assert_eq!(plane.held("removed"), RetryState::Original);
    assert_eq!(plane.desired_states(), [RetryState::Original]);
}

#[tokio::test(start_paused = true)]
async fn a_polite_stop_restores_everything_first() {
    let plane = DataPlane::new();
    let setup = Setup {
        targets: vec!["payments", "orders", "search"],
        ..Setup::default()
    };
    let script = |_| {
        let names = ["payments", "orders", "search"];
        Ok(names.into_iter().map(|name| reading(name, 60)).collect())
    };
    let running = start(setup, &plane, Box::new(script));
    seconds(10).await;
    assert_eq!(plane.desired_states(), [RetryState::Off; 3]);
    assert_eq!(running.stop().await, Ended::Restored);
    assert_eq!(plane.desired_states()[3..], [RetryState::Original; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_leave_changes_nothing() {
    let plane = DataPlane::new();
    let setup = Setup {
        leave: true,
        ..Setup::default()
    };
    let running = start(setup, &plane, Box::new(|_| Ok(vec![reading("payments", 60)])));
    seconds(10).await;
    assert_eq!(running.stop().await, Ended::Left);
    assert_eq!(plane.held("payments"), RetryState::Off);
}

/// The data plane is down at the stop: the controller tries for a stated time, and says that it failed.
#[tokio::test(start_paused = true)]
async fn a_stop_that_cannot_restore_says_so() {
    let plane = DataPlane::new();
    let running = start(
        Setup::default(),
        &plane,
        Box::new(|_| Ok(vec![reading("payments", 60)])),
    );
    seconds(10).await;
    plane.fail(Some(unreachable_plane));
    assert_eq!(running.stop().await, Ended::Incomplete);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_decides_and_changes_nothing() {
    let plane = DataPlane::new();
    let setup = Setup {
        dry_run: true,
        ..Setup::default()
    };
    let running = start(setup, &plane, Box::new(|_| Ok(vec![reading("payments", 60)])));
    seconds(100).await;
    let status = running.status().await;
    assert_eq!(status["targets"][0]["state"], "suspended");
    assert_eq!(status["actuators"][0]["changes"], 1, "said once, and remembered");
    assert_eq!(
        status["would"],
        serde_json::json!([{"target": "payments", "actuator": "plane", "would": "Off for payments"}])
    );
    assert_eq!(plane.desired_states(), []);
    running.stop().await;
    assert_eq!(plane.desired_states(), []);
}
