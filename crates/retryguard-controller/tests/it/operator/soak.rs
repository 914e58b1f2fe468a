//! Half an hour of a thousand targets through the whole loop: source, guards, plan, actuator, status. Time is
//! simulated; everything else is the code that runs in production.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use retryguard_controller::adapters::election::single::SingleInstance;
use retryguard_controller::clock::sleep;
use retryguard_controller::domain::limits::Limits;
use retryguard_controller::domain::state::{Change, Found, Loss, Observed, RetryState};
use retryguard_controller::domain::target::{TargetName, TargetSpec};
use retryguard_controller::reconcile::actuator::{Actuator, Answer};
use retryguard_controller::reconcile::control_loop::{
    Components, Ended, MOST_QUERIES, Query, QuerySender, run,
};
use retryguard_controller::reconcile::source::{Round, Source};
use retryguard_core::guard::{Guard, Settings, State};
use tokio::sync::{mpsc, oneshot};

use crate::scripted::reading;

const TARGETS: usize = 1_000;
const MINUTES: u64 = 30;

/// Every target has an overload of a minute every five minutes, each at its own time.
fn rejected(target: usize, second: u64) -> u64 {
    if (second + target as u64) % 300 < 60 {
        60
    } else {
        0
    }
}

/// A sample of every target, once a second.
struct Fleet {
    names: Vec<String>,
    second: u64,
}

impl Source for Fleet {
    fn name(&self) -> &'static str {
        "fleet"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn read(&mut self) -> Round<'_> {
        self.second += 1;
        let second = self.second;
        let readings = self.names.iter().enumerate();
        let readings = readings.map(|(target, name)| reading(name, rejected(target, second)));
        Box::pin(std::future::ready(Ok(readings.collect())))
    }
}

/// A data plane that holds what it was sent, and counts.
#[derive(Default)]
struct Ledger {
    held: Mutex<BTreeMap<TargetName, RetryState>>,
    offs: AtomicU64,
    changes: AtomicU64,
}

impl Actuator for Ledger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn find(&self) -> Answer<'_, Vec<Found>> {
        let held = self.held.lock().unwrap();
        let found = held.iter().map(|(target, desired)| Found {
            target: target.clone(),
            held: Observed::Managed(*desired),
        });
        let found = Ok(found.collect());
        Box::pin(std::future::ready(found))
    }

    fn apply<'a>(&'a self, change: &'a Change) -> Answer<'a, Vec<Loss>> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let mut held = self.held.lock().unwrap();
        match change.desired {
            RetryState::Original => held.remove(&change.target),
            desired => {
                self.offs
                    .fetch_add(u64::from(desired == RetryState::Off), Ordering::Relaxed);
                held.insert(change.target.clone(), desired)
            }
        };
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn describe(&self, change: &Change) -> String {
        change.target.to_string()
    }
}

fn parts(ledger: &Arc<Ledger>) -> Components {
    let names: Vec<String> = (0..TARGETS).map(|number| format!("service-{number}")).collect();
    let targets = names.iter().map(|name| TargetSpec {
        name: TargetName::new(name),
        guards: vec![Settings::default()],
        price: retryguard_controller::domain::gain::PRICE,
        source: "fleet",
        actuators: vec![0],
    });
    Components {
        targets: targets.collect(),
        sources: vec![Box::new(Fleet { names, second: 0 })],
        actuators: vec![Arc::clone(ledger) as Arc<dyn Actuator>],
        election: Box::new(SingleInstance),
        limits: Limits {
            changes_per_minute_in_all: 100_000,
            ..Limits::default()
        },
        dry_run: false,
        leave: false,
    }
}

/// So much simulated time, with an operator who looks once a minute.
async fn minutes(asks: &QuerySender, count: u64) {
    for _ in 0..count {
        sleep(Duration::from_secs(60)).await;
        let (send, answer) = oneshot::channel();
        asks.send(Query::Status(send)).await.unwrap();
        assert_eq!(
            answer.await.unwrap()["targets"].as_array().unwrap().len(),
            TARGETS
        );
    }
}

/// Memory is flat: after the first ten minutes, in which every target has been through an episode, what is
/// allocated is given back. What a target costs is printed, as a ratio to the guard alone.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a ratio of two times is reported and never compared"
)]
fn thirty_minutes_of_a_thousand_targets_keep_no_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let ledger = Arc::new(Ledger::default());
    let (asks, questions) = mpsc::channel(MOST_QUERIES);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = runtime.spawn(run(parts(&ledger), questions, async {
        let _ = stopped.await;
    }));
    runtime.block_on(minutes(&asks, 10));
    let begun = Instant::now();
    let later = allocation_counter::measure(|| runtime.block_on(minutes(&asks, MINUTES - 10)));
    let took = begun.elapsed().as_secs_f64();

    let rounds = (MINUTES - 10) * 60 * TARGETS as u64;
    let alone = guards_alone(MINUTES - 10);
    println!(
        "{} changes; per target and round: {:.1} allocations of {:.0} bytes in all, {:.1} times the guard alone",
        ledger.changes.load(Ordering::Relaxed),
        later.count_total as f64 / rounds as f64,
        later.bytes_total as f64 / rounds as f64,
        took / alone,
    );
    let kept = later.bytes_current;
    println!(
        "kept after twenty more minutes: {kept} bytes, {:.1} a target",
        kept as f64 / TARGETS as f64
    );
    let offs = ledger.offs.load(Ordering::Relaxed);
    assert!(offs >= 5 * TARGETS as u64, "{offs}");
    assert!(kept.abs() < 64 * TARGETS as i64, "{kept} bytes kept");
    stop.send(()).unwrap();
    assert_eq!(runtime.block_on(task).unwrap(), Ended::Restored);
    assert!(ledger.held.lock().unwrap().is_empty());
}

/// How long the guards take by themselves for the same samples.
#[expect(
    clippy::disallowed_methods,
    reason = "a ratio of two times is reported and never compared"
)]
fn guards_alone(minutes: u64) -> f64 {
    let start = retryguard_core::Instant::ZERO;
    let mut guards: Vec<Guard> = (0..TARGETS)
        .map(|_| Guard::resume(Settings::default(), State::On, start))
        .collect();
    let begun = Instant::now();
    let mut decided = 0_u64;
    for second in 1..=minutes * 60 {
        let now = retryguard_core::Instant::from_secs(second);
        for (target, guard) in guards.iter_mut().enumerate() {
            let sample = retryguard_core::guard::Sample {
                calls: 100,
                rejected: rejected(target, second),
                ..Default::default()
            };
            decided += u64::from(guard.feed(&sample, now).is_some());
        }
    }
    assert!(decided > 0);
    begun.elapsed().as_secs_f64()
}
