//! Data planes that tell when they change.

use std::time::Duration;

use retryguard_controller::domain::limits::Limits;
use retryguard_controller::domain::state::{Observed, RetryState};
use retryguard_controller::reconcile::election::Leadership;

use crate::scripted::{DataPlane, Judge, Setup, reading, seconds, start, unreachable_plane};

/// Looks once an hour: what is known sooner was told.
fn seldom() -> Setup {
    Setup {
        limits: Limits {
            resync: Duration::from_secs(3600),
            ..Limits::default()
        },
        ..Setup::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_from_outside_is_known_at_once() {
    let plane = DataPlane::new();
    let running = start(seldom(), &plane, Box::new(|_| Ok(vec![reading("payments", 60)])));
    seconds(10).await;
    assert_eq!(plane.held("payments"), RetryState::Off);
    plane.set("payments", Some(Observed::Overridden("by hand".to_owned())));
    plane.stir();
    seconds(3).await;
    let status = running.status().await;
    assert_eq!(
        status["targets"][0]["actuators"][0]["holds"], "theirs",
        "{status:#}"
    );
    assert_eq!(
        plane.desired_states(),
        [RetryState::Off],
        "and what they wrote stands"
    );
}

/// A restarted proxy that says so is sent the setting again without waiting for the next look.
#[tokio::test(start_paused = true)]
async fn what_was_forgotten_is_said_again() {
    let plane = DataPlane::new();
    let _running = start(seldom(), &plane, Box::new(|_| Ok(vec![reading("payments", 60)])));
    seconds(10).await;
    plane.set("payments", None);
    plane.stir();
    seconds(3).await;
    assert_eq!(plane.held("payments"), RetryState::Off);
}

#[tokio::test(start_paused = true)]
async fn one_that_changes_all_the_time_is_not_asked_all_the_time() {
    let plane = DataPlane::new();
    let _running = start(seldom(), &plane, Box::new(|_| Ok(vec![reading("payments", 0)])));
    seconds(1).await;
    let before = plane.questions();
    for _ in 0..300 {
        plane.stir();
        retryguard_controller::clock::sleep(Duration::from_millis(100)).await;
    }
    let asked = plane.questions() - before;
    assert!(
        (10..=15).contains(&asked),
        "every two seconds at most: {asked} in 30 s"
    );
}

#[tokio::test(start_paused = true)]
async fn one_change_is_one_question() {
    let plane = DataPlane::new();
    let _running = start(seldom(), &plane, Box::new(|_| Ok(vec![reading("payments", 0)])));
    seconds(1).await;
    let before = plane.questions();
    plane.stir();
    seconds(60).await;
    assert_eq!(plane.questions() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_answer_is_not_asked_sooner_because_it_changes() {
    let plane = DataPlane::new();
    plane.fail(Some(unreachable_plane));
    let _running = start(seldom(), &plane, Box::new(|_| Ok(vec![reading("payments", 0)])));
    for _ in 0..600 {
        plane.stir();
        retryguard_controller::clock::sleep(Duration::from_millis(100)).await;
    }
    // At 0, 1, 3, 7, 15 and 31 s.
    assert_eq!(plane.questions(), 6);
}

#[tokio::test(start_paused = true)]
async fn who_follows_is_not_stirred() {
    let plane = DataPlane::new();
    let leader = Some("another".to_owned());
    let backend = Judge::new(Leadership::Follower { leader });
    let setup = Setup {
        election: Box::new(backend.clone()),
        ..seldom()
    };
    let _running = start(setup, &plane, Box::new(|_| Ok(vec![reading("payments", 60)])));
    for _ in 0..10 {
        plane.stir();
        seconds(1).await;
    }
    assert_eq!(plane.questions(), 0);
    backend.say(Ok(Leadership::Leader {
        term: 2,
        lasts: Duration::from_secs(15),
        asked_by: None,
    }));
    seconds(10).await;
    assert_eq!(plane.held("payments"), RetryState::Off);
}
