//! No data, stale data, data that lies, and a source that is down.

use std::time::Duration;

use retryguard_controller::domain::counts::Counts;
use retryguard_controller::domain::state::RetryState;
use retryguard_core::guard::{Hysteresis, Mode, Settings, Signal};

use crate::scripted::{DataPlane, Setup, conflict, down, reading, seconds, start, unreachable_plane};

#[tokio::test(start_paused = true)]
async fn an_overload_switches_off_and_its_end_brings_retries_back_by_the_ramp() {
    let plane = DataPlane::new();
    let running = start(
        Setup::default(),
        &plane,
        Box::new(|second| Ok(vec![reading("payments", if second < 20 { 60 } else { 0 })])),
    );
    seconds(15).await;
    assert_eq!(plane.held("payments"), RetryState::Off);
    let status = running.status().await;
    assert_eq!(status["targets"][0]["state"], "suspended");
    assert_eq!(status["targets"][0]["signal"], "rejections");
    assert_eq!(status["targets"][0]["value"], 0.6);
    let metrics = running.metrics().await;
    let off =
        "retryguard_controller_decisions_total{target=\"payments\",to=\"suspended\",reason=\"above\"} 1\n";
    assert!(metrics.contains(off), "{metrics}");
    seconds(45).await;
    let desired_states = plane.desired_states();
    assert_eq!(desired_states[0], RetryState::Off);
    let ramp = desired_states[1..4]
        .iter()
        .all(|desired| matches!(desired, RetryState::Part { .. }));
    assert!(ramp, "{desired_states:?}");
    assert_eq!(desired_states[4..], [RetryState::Original]);
    let (_, off) = &plane.changes()[0];
    assert!(off.why.contains("rejections 0.6000 above 0.2000"), "{}", off.why);
}

/// The source goes down while retries are off: the decision holds, and within a minute the user's own configuration is back,
/// because nothing shows that it is still needed.
#[tokio::test(start_paused = true)]
async fn without_data_the_decision_holds_and_the_original_is_back_by_the_stated_time() {
    let plane = DataPlane::new();
    let running = start(
        Setup::default(),
        &plane,
        Box::new(|second| {
            if second < 10 {
                Ok(vec![reading("payments", 60)])
            } else {
                Err(down())
            }
        }),
    );
    // The last data came at second 9. To restore may take up to `limits.timeout`, 5 s.
    seconds(63).await;
    assert_eq!(
        plane.held("payments"),
        RetryState::Off,
        "holds for 55 s after the last data"
    );
    let status = running.status().await;
    assert_eq!(status["targets"][0]["holding"], true);
    assert!(
        status["sources"][0]["error"]
            .as_str()
            .unwrap()
            .contains("does not answer")
    );
    seconds(2).await;
    assert_eq!(plane.desired_states(), [RetryState::Off, RetryState::Original]);
    let status = running.status().await;
    assert_eq!(status["targets"][0]["state"], "allowed");
    assert_eq!(status["targets"][0]["reason"], "no fresh data for 55 s");
    let metrics = running.metrics().await;
    let back = "decisions_total{target=\"payments\",to=\"allowed\",reason=\"no-data\"} 1\n";
    assert!(metrics.contains(back), "{metrics}");
}

/// The alert for a controller without data read `holding`, which is 0 again when the decision has ended: it could never fire.
#[tokio::test(start_paused = true)]
async fn a_controller_without_data_says_so_for_as_long_as_that_lasts() {
    let blind = |metrics: &str| metrics.contains("retryguard_controller_blind{target=\"payments\"} 1\n");
    for had_data in [true, false] {
        let plane = DataPlane::new();
        let running = start(
            Setup::default(),
            &plane,
            Box::new(move |second| match second {
                0..10 if had_data => Ok(vec![reading("payments", 0)]),
                600.. => Ok(vec![reading("payments", 0)]),
                _ => Ok(Vec::new()),
            }),
        );
        seconds(50).await;
        assert!(!blind(&running.metrics().await));
        seconds(20).await;
        assert!(blind(&running.metrics().await));
        seconds(500).await;
        assert!(blind(&running.metrics().await));
        seconds(60).await;
        assert!(!blind(&running.metrics().await));
    }
}

/// The source answers, but no longer with this target, or with a signal that the target is not watched by.
#[tokio::test(start_paused = true)]
async fn a_series_that_is_gone_counts_as_no_data() {
    for gone in [true, false] {
        let plane = DataPlane::new();
        let _running = start(
            Setup::default(),
            &plane,
            Box::new(move |second| {
                let mut last = reading("payments", 60);
                if second >= 10 && gone {
                    return Ok(Vec::new());
                }
                if second >= 10 {
                    last.counts = Counts {
                        calls: 100,
                        delay: Some(Duration::from_millis(1)),
                        ..Counts::default()
                    };
                }
                Ok(vec![last])
            }),
        );
        seconds(63).await;
        assert_eq!(plane.held("payments"), RetryState::Off);
        seconds(2).await;
        assert_eq!(plane.desired_states(), [RetryState::Off, RetryState::Original]);
    }
}

#[tokio::test(start_paused = true)]
async fn stale_data_and_data_that_cannot_be_true_decide_nothing() {
    let lies: [fn(&mut retryguard_controller::domain::counts::Reading); 5] = [
        |reading| reading.age = Duration::from_secs(31),
        |reading| reading.counts.rejected = Some(reading.counts.calls + 1),
        |reading| reading.counts.calls = u64::MAX,
        |reading| reading.counts.retries = Some(u64::MAX),
        |reading| reading.counts.delay = Some(Duration::from_secs(100_000)),
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let plane = DataPlane::new();
        let running = start(
            Setup::default(),
            &plane,
            Box::new(move |_| {
                let mut wrong = reading("payments", 90);
                lie(&mut wrong);
                Ok(vec![wrong])
            }),
        );
        seconds(60).await;
        assert_eq!(plane.desired_states(), [], "lie {number}");
        let refused = &running.status().await["sources"][0]["refused"];
        let word = if number == 0 { "stale" } else { "nonsense" };
        assert!(refused[word].as_u64().unwrap() > 50, "lie {number}: {refused}");
    }
}

/// At the limit: data exactly as old as it may be is taken.
#[tokio::test(start_paused = true)]
async fn data_at_the_age_limit_is_taken() {
    let plane = DataPlane::new();
    let _running = start(
        Setup::default(),
        &plane,
        Box::new(|_| {
            let mut old = reading("payments", 90);
            old.age = Duration::from_secs(30);
            Ok(vec![old])
        }),
    );
    seconds(10).await;
    assert_eq!(plane.desired_states(), [RetryState::Off]);
}

#[tokio::test(start_paused = true)]
async fn too_few_samples_decide_nothing() {
    let plane = DataPlane::new();
    let _running = start(
        Setup::default(),
        &plane,
        Box::new(|_| {
            let mut few = reading("payments", 0);
            // Five pooled samples of three calls stay under the minimum of twenty.
            few.counts = Counts {
                calls: 3,
                rejected: Some(3),
                ..Counts::default()
            };
            Ok(vec![few])
        }),
    );
    seconds(120).await;
    assert_eq!(plane.desired_states(), []);
}

/// The signals in their order: the first that the source can measure decides, and another takes its place only
/// after the first has been missing for as long as a decision holds.
#[tokio::test(start_paused = true)]
async fn the_first_available_signal_decides() {
    let plane = DataPlane::new();
    let retries = Settings {
        signal: Signal::RetriesPerCall,
        mode: Mode::Hysteresis(Hysteresis::default()),
        ..Settings::default()
    };
    let setup = Setup {
        guards: vec![Settings::default(), retries],
        ..Setup::default()
    };
    let running = start(
        setup,
        &plane,
        Box::new(|second| {
            let mut reading = reading("payments", 0);
            reading.counts.retries = Some(80);
            if second >= 30 {
                reading.counts.rejected = None;
            }
            Ok(vec![reading])
        }),
    );
    seconds(80).await;
    assert_eq!(
        plane.desired_states(),
        [],
        "rejections are chosen, and there are none"
    );
    assert_eq!(running.status().await["targets"][0]["signal"], "rejections");
    seconds(15).await;
    assert_eq!(running.status().await["targets"][0]["signal"], "retries-per-call");
    assert_eq!(plane.desired_states()[0], RetryState::Off);
}

/// The data plane refuses a change or does not answer: it is asked again, ever more slowly, and the change is
/// made when it can be.
#[tokio::test(start_paused = true)]
async fn a_data_plane_that_is_down_is_asked_again() {
    let plane = DataPlane::new();
    plane.fail(Some(unreachable_plane));
    let running = start(
        Setup::default(),
        &plane,
        Box::new(|_| Ok(vec![reading("payments", 60)])),
    );
    seconds(30).await;
    assert_eq!(plane.desired_states(), []);
    assert!(running.status().await["actuators"][0]["error"].is_string());
    plane.fail(None);
    seconds(65).await;
    assert_eq!(plane.held("payments"), RetryState::Off);
}

/// A change was made although its answer was lost, and then it was no longer wanted. It must not stay.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_nothing_behind() {
    let plane = DataPlane::new();
    plane.lie(true);
    let running = start(
        Setup::default(),
        &plane,
        Box::new(|_| Ok(vec![reading("payments", 60)])),
    );
    seconds(5).await;
    assert_eq!(plane.held("payments"), RetryState::Off);
    plane.lie(false);
    assert_eq!(
        running.stop().await,
        retryguard_controller::reconcile::control_loop::Ended::Restored
    );
    assert_eq!(plane.held("payments"), RetryState::Original);
}

/// Another process changed what we had set: what they wrote stands, and we come back only for the next overload.
#[tokio::test(start_paused = true)]
async fn what_the_user_changed_is_left_to_the_user() {
    let plane = DataPlane::new();
    let _running = start(
        Setup::default(),
        &plane,
        Box::new(|second| Ok(vec![reading("payments", if second % 100 < 50 { 60 } else { 0 })])),
    );
    seconds(10).await;
    assert_eq!(plane.held("payments"), RetryState::Off);
    plane.set(
        "payments",
        Some(retryguard_controller::domain::state::Observed::Overridden(
            "by hand".to_owned(),
        )),
    );
    seconds(35).await;
    assert_eq!(
        plane.desired_states(),
        [RetryState::Off],
        "theirs is respected while retries shall be off"
    );
    seconds(50).await;
    assert_eq!(
        plane.desired_states().last(),
        Some(&RetryState::Original),
        "the dispute is forgotten"
    );
    seconds(20).await;
    assert_eq!(
        plane.held("payments"),
        RetryState::Off,
        "the next overload is ours again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_respected_like_a_find() {
    let plane = DataPlane::new();
    let running = start(
        Setup::default(),
        &plane,
        Box::new(|second| {
            let rejected = if second < 3 { 0 } else { 60 };
            Ok(vec![reading("payments", rejected)])
        }),
    );
    seconds(2).await;
    plane.fail(Some(conflict));
    seconds(10).await;
    plane.fail(None);
    seconds(60).await;
    assert_eq!(plane.desired_states(), []);
    assert_eq!(
        running.status().await["targets"][0]["actuators"][0]["holds"],
        "theirs"
    );
}

/// A proxy restarts and forgets: it is sent the setting again.
#[tokio::test(start_paused = true)]
async fn a_data_plane_that_forgot_is_told_again() {
    let plane = DataPlane::new();
    let _running = start(
        Setup::default(),
        &plane,
        Box::new(|_| Ok(vec![reading("payments", 60)])),
    );
    seconds(10).await;
    plane.set("payments", None);
    seconds(35).await;
    assert_eq!(plane.desired_states(), [RetryState::Off, RetryState::Off]);
}
