//! Nothing stays off for longer than `limits.hold` without data, whatever else is going on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use retryguard_controller::adapters::election::single::SingleInstance;
use retryguard_controller::clock::{Clock, sleep};
use retryguard_controller::domain::limits::Limits;
use retryguard_controller::domain::state::RetryState;
use retryguard_controller::domain::target::{TargetName, TargetSpec};
use retryguard_controller::reconcile::actuator::Actuator;
use retryguard_controller::reconcile::control_loop::{Components, MOST_QUERIES, run};
use retryguard_core::guard::Settings;
use tokio::sync::mpsc;

use crate::scripted::{DataPlane, Plane, ScriptedSource, Setup, down, reading, seconds, start};

/// For how long after its last data `payments` stays off.
async fn off_for(limits: Limits, plane: &Arc<DataPlane>) -> Duration {
    let clock = Clock::start();
    let last_data = Arc::new(AtomicU64::new(0));
    let noted = Arc::clone(&last_data);
    let setup = Setup {
        limits,
        ..Setup::default()
    };
    let _running = start(
        setup,
        plane,
        Box::new(move |second| {
            if second >= 10 {
                return Err(down());
            }
            noted.store(clock.now().as_nanos(), Ordering::Relaxed);
            Ok(vec![reading("payments", 60)])
        }),
    );
    seconds(10).await;
    assert_eq!(plane.held("payments"), RetryState::Off);
    while plane.held("payments") == RetryState::Off {
        sleep(Duration::from_millis(1)).await;
    }
    Duration::from_nanos(clock.now().as_nanos() - last_data.load(Ordering::Relaxed))
}

/// The end of a decision was looked for four times a second, from the end of the hold time on, so that retries stayed off for a
/// quarter of a second longer than was said.
#[tokio::test(start_paused = true)]
async fn retries_are_back_before_the_hold_time_is_over() {
    for milliseconds in [3_000, 7_300, 8_000, 60_000] {
        let hold = Duration::from_millis(milliseconds);
        let limits = Limits {
            hold,
            ..Limits::default()
        };
        let lasted = off_for(limits, &DataPlane::new()).await;
        assert!(lasted <= hold, "{lasted:?} of {hold:?}");
        assert!(lasted >= limits.restore_after(), "{lasted:?} of {hold:?}");
        assert!(limits.restore_after() >= hold * 3 / 4);
    }
}

/// A data plane that takes almost as long as a change may take.
#[tokio::test(start_paused = true)]
async fn the_time_that_a_slow_data_plane_takes_is_within_the_hold_time() {
    let plane = DataPlane::new();
    let answer = plane.slow();
    let served = Arc::clone(&plane);
    tokio::spawn(async move {
        let mut answered = 0;
        loop {
            if served.begun() > answered {
                sleep(Duration::from_millis(4_900)).await;
                answer.notify_one();
                answered += 1;
            }
            sleep(Duration::from_millis(1)).await;
        }
    });
    let lasted = off_for(Limits::default(), &plane).await;
    assert!(lasted <= Duration::from_secs(60), "{lasted:?}");
}

/// Switching off has used up the changes of this minute, of the target and of all.
#[tokio::test(start_paused = true)]
async fn the_rate_limits_do_not_make_it_longer() {
    for (per_target, in_all) in [(1, 600), (12, 1)] {
        let limits = Limits {
            hold: Duration::from_secs(8),
            changes_per_minute: per_target,
            changes_per_minute_in_all: in_all,
            ..Limits::default()
        };
        let plane = DataPlane::new();
        let lasted = off_for(limits, &plane).await;
        assert!(lasted <= limits.hold, "{lasted:?}");
        assert_eq!(plane.changes().len(), 2);
    }
}

/// Two hundred targets of a data plane that does not answer; another data plane is switched as fast as ever.
#[tokio::test(start_paused = true)]
async fn a_data_plane_that_hangs_does_not_delay_another() {
    let (hung, other) = (DataPlane::new(), DataPlane::new());
    let _never = hung.slow();
    let names: Vec<String> = (0..200)
        .map(|number| format!("hung-{number:03}"))
        .chain(["other".to_owned()])
        .collect();
    let targets = names.iter().map(|name| TargetSpec {
        name: TargetName::new(name),
        guards: vec![Settings::default()],
        price: retryguard_controller::domain::gain::PRICE,
        source: "scripted",
        actuators: vec![usize::from(name == "other")],
    });
    let plane = |plane: &Arc<DataPlane>| Arc::new(Plane(Arc::clone(plane))) as Arc<dyn Actuator>;
    let targets = targets.collect();
    let script = move |second: u64| {
        // The other one becomes overloaded when all changes that may be under way are.
        let rejected = |name: &str| if name == "other" && second < 10 { 0 } else { 60 };
        Ok(names.iter().map(|name| reading(name, rejected(name))).collect())
    };
    let source = ScriptedSource {
        script: Box::new(script),
        second: 0,
    };
    let components = Components {
        targets,
        sources: vec![Box::new(source)],
        actuators: vec![plane(&hung), plane(&other)],
        election: Box::new(SingleInstance),
        limits: Limits::default(),
        dry_run: false,
        leave: false,
    };
    let (_queries, received) = mpsc::channel(MOST_QUERIES);
    let _running = tokio::spawn(run(components, received, std::future::pending()));
    seconds(30).await;
    assert!(hung.begun() > 0);
    let (second, change) = other.changes().into_iter().next().expect("it was switched");
    assert_eq!(change.desired, RetryState::Off);
    assert!(second <= 16, "switched at second {second}");
}

/// A source that panics would never be read again.
#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_controller() {
    let plane = DataPlane::new();
    let running = start(
        Setup::default(),
        &plane,
        Box::new(|second| {
            assert!(second < 10, "a defect");
            Ok(vec![reading("payments", 60)])
        }),
    );
    seconds(12).await;
    assert!(running.ended().await.is_err(), "it ended with the panic");
    assert_eq!(
        plane.held("payments"),
        RetryState::Off,
        "what was set is left to the next one"
    );
}
