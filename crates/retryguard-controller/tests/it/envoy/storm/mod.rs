//! A storm: clients → a real Envoy with five retries → a service of limited capacity.

mod arm;
mod experiment;
mod four_phases;
mod load;
mod service;
mod timeline;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arm::{Actuator, Arm, Source, World};
use load::{Dial, Phase};
use service::Fault;
use timeline::Totals;

use super::world::until;

/// What the service can do, in calls a second.
const CAPACITY: f64 = 100.0;
/// Half as much again, as in the paper's Table 1.
const OVERLOAD: f64 = 150.0;
const CALM: f64 = 40.0;
/// What the service of the tests can do: little, so that a busy machine can overload it.
const SMALL: f64 = 50.0;

fn phases(before: u64, overload: u64, after: u64) -> [Phase; 3] {
    [(CALM, before), (OVERLOAD, overload), (CALM, after)].map(|(rate, seconds)| Phase {
        rate,
        lasts: Duration::from_secs(seconds),
        fault: Fault::None,
    })
}

/// One storm at a time: the load of one would be the noise of the other.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// How many calls are looked at together.
const WINDOW: u64 = 300;

/// What happens while so many calls are made.
#[expect(clippy::disallowed_methods, reason = "a rate needs the real clock")]
async fn window(world: &World, load: &Dial) -> (Totals, f64) {
    let seen = [Arc::clone(&load.seen)];
    let (before, begun) = (world.totals(0, &seen), Instant::now());
    until("so many calls", || async {
        world.totals(0, &seen).calls >= before.calls + WINDOW
    })
    .await;
    let elapsed = begun.elapsed().as_secs_f64();
    (world.totals(0, &seen).since(before), elapsed)
}

/// The same storm without a controller, once for all tests.
async fn without_controller() {
    static ONCE: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    ONCE.get_or_init(|| async {
        let world = Arm::WITHOUT_CONTROLLER.before(SMALL).start().await;
        let load = Dial::start(world.envoy.url(), 1.5 * SMALL);
        until("a storm without a controller", || async {
            let (counts, _) = window(&world, &load).await;
            println!("no controller: {counts:?}");
            counts.attempts_per_call() > 2.0
        })
        .await;
    })
    .await;
}

async fn storm(arm: Arm) {
    let _alone = ALONE.lock().await;
    without_controller().await;
    let world = arm.before(SMALL).start().await;
    let controller = world.controller.as_ref().expect("this arm has one");
    let load = Dial::start(world.envoy.url(), 0.5 * SMALL);
    until("data", || async {
        controller.status().await["targets"][0]["calls"].is_number()
    })
    .await;
    load.set(1.5 * SMALL);
    until("suspended", || async {
        let target = &controller.status().await["targets"][0];
        target["state"] == "suspended" && target["actuators"][0]["holds"] == "suspended"
    })
    .await;
    // A retry that waited in Envoy's back-off is still sent: one window for those.
    window(&world, &load).await;
    until("as much gets done as can be", || async {
        let (counts, seconds) = window(&world, &load).await;
        println!("{arm}: {counts:?} in {seconds:.1} s");
        // Short tests whether retries help again send some of them, so this need not hold in each window either.
        let quiet = counts.attempts_per_call() < 1.3;
        // Nothing that retries could add: no more can be served than the service can, or than is asked for. A machine
        // that stands still for a moment makes calls come in a heap, so this need not hold in each window.
        quiet && counts.served as f64 >= 0.9 * (counts.calls as f64).min(SMALL * seconds)
    })
    .await;
    load.set(0.5 * SMALL);
    // By the ramp; at once where a machine that stood still looked like an outage.
    until("retries come back", || async {
        world.state().await != "suspended"
    })
    .await;
    until("and are back", || async { world.state().await == "allowed" }).await;
    drop(load);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn a_storm_ends_through_discovery() {
    storm(Arm::new(Actuator::Rtds, Source::Scrape)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn a_storm_ends_through_the_admin_endpoint() {
    storm(Arm::new(Actuator::Admin, Source::Scrape)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy and Prometheus"]
async fn a_storm_ends_with_prometheus_as_the_source() {
    storm(Arm::new(Actuator::Rtds, Source::Prometheus)).await;
}
