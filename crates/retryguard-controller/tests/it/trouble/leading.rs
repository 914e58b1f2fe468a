//! Two controllers, a partition, a term that ends.

use std::time::Duration;

use retryguard_controller::domain::state::RetryState;
use retryguard_controller::reconcile::control_loop::Ended;
use retryguard_controller::reconcile::election::Leadership;

use crate::scripted::{DataPlane, Judge, Setup, reading, seconds, start};

fn leading(term: u64) -> Leadership {
    Leadership::Leader {
        term,
        lasts: Duration::from_secs(15),
        asked_by: None,
    }
}

fn following() -> Leadership {
    Leadership::Follower {
        leader: Some("the other".to_owned()),
    }
}

fn with(backend: &Judge) -> Setup {
    Setup {
        election: Box::new(backend.clone()),
        ..Setup::default()
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_acts_and_the_next_one_goes_on() {
    let plane = DataPlane::new();
    let (one, two) = (Judge::new(leading(1)), Judge::new(following()));
    let overload = |_| Ok(vec![reading("payments", 60)]);
    let first = start(with(&one), &plane, Box::new(overload));
    let second = start(with(&two), &plane, Box::new(overload));
    seconds(10).await;
    assert_eq!(plane.changes().len(), 1);
    assert_eq!(plane.changes()[0].1.term, 1);
    one.say(Ok(following()));
    seconds(2).await;
    two.say(Ok(leading(2)));
    seconds(60).await;
    assert_eq!(
        plane.desired_states(),
        [RetryState::Off],
        "the second found it and had nothing to change"
    );
    assert_eq!(
        first.stop().await,
        Ended::Following,
        "what is changed is the other's"
    );
    assert_eq!(plane.held("payments"), RetryState::Off);
    assert_eq!(second.stop().await, Ended::Restored);
    assert_eq!(plane.changes().last().unwrap().1.term, 2);
}

/// Cut off from its backend a leader acts until its term could end, and not a moment longer: a change that might
/// outlast the term is not begun.
#[tokio::test(start_paused = true)]
async fn a_leader_that_hears_nothing_stops_before_its_term_ends() {
    let plane = DataPlane::new();
    let backend = Judge::new(leading(1));
    let began = retryguard_controller::clock::Clock::start();
    let running = start(
        with(&backend),
        &plane,
        // A change is wanted every few seconds.
        Box::new(|second| Ok(vec![reading("payments", if second % 10 < 3 { 100 } else { 0 })])),
    );
    seconds(20).await;
    let heard = began.now();
    backend.say(Err("connection refused".to_owned()));
    seconds(60).await;
    let last = plane.changes().last().unwrap().0;
    let (limit, heard) = (15 - 5, heard.as_nanos() / 1_000_000_000);
    assert!(
        last <= heard + limit,
        "the last change was at {last}, the last word at {heard}"
    );
    assert_eq!(running.status().await["leads"], false);
    backend.say(Ok(leading(2)));
    seconds(30).await;
    assert_eq!(plane.changes().last().unwrap().1.term, 2);
}

/// Two controllers ask a Prometheus once, not twice; what compares with the round before goes on.
#[tokio::test(start_paused = true)]
async fn a_follower_asks_its_source_only_after_it_leads() {
    let plane = DataPlane::new();
    let backend = Judge::new(following());
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = std::sync::Arc::clone(&asked);
    let _running = start(
        with(&backend),
        &plane,
        Box::new(move |_| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(vec![reading("payments", 60)])
        }),
    );
    seconds(60).await;
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 0);
    backend.say(Ok(leading(1)));
    seconds(15).await;
    assert_eq!(plane.held("payments"), RetryState::Off);
}

/// Suspended between what it has read and what it would write. When it wakes up the answer is there, its term is long
/// over, and another leads: what it was about to write must not be written.
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_suspended_in_the_middle_of_a_change_does_not_go_on_with_it() {
    let plane = DataPlane::new();
    let backend = Judge::new(leading(1));
    let answer = plane.slow();
    let _running = start(
        with(&backend),
        &plane,
        Box::new(|_| Ok(vec![reading("payments", 60)])),
    );
    while plane.begun() == 0 {
        retryguard_controller::clock::sleep(Duration::from_millis(100)).await;
    }
    backend.say(Ok(following()));
    // No task runs between these two: to the controller they are one moment.
    answer.notify_one();
    tokio::time::advance(Duration::from_secs(60)).await;
    seconds(10).await;
    assert_eq!(plane.desired_states(), []);
    assert_eq!(plane.begun(), 1, "and a follower begins nothing");
}

/// The same without a pause: an answer in time is taken.
#[tokio::test(start_paused = true)]
async fn a_change_whose_answer_comes_in_time_is_made() {
    let plane = DataPlane::new();
    let answer = plane.slow();
    let _running = start(
        with(&Judge::new(leading(1))),
        &plane,
        Box::new(|_| Ok(vec![reading("payments", 60)])),
    );
    while plane.begun() == 0 {
        retryguard_controller::clock::sleep(Duration::from_millis(100)).await;
    }
    seconds(4).await;
    answer.notify_one();
    seconds(1).await;
    assert_eq!(plane.desired_states(), [RetryState::Off]);
}
