//! A storm: clients → a real Envoy with five retries → a service of limited capacity.

mod arm;
mod experiment;
mod load;
mod service;
mod timeline;

use std::time::Duration;

use arm::{Actuator, Arm, Source};
use load::Phase;
use timeline::Totals;

/// What the service can do, in calls a second.
const CAPACITY: f64 = 100.0;
/// Half as much again, as in the paper's Table 1.
const OVERLOAD: f64 = 150.0;
const CALM: f64 = 40.0;

fn phases(before: u64, overload: u64, after: u64) -> [Phase; 3] {
    [(CALM, before), (OVERLOAD, overload), (CALM, after)].map(|(rate, seconds)| Phase {
        rate,
        lasts: Duration::from_secs(seconds),
    })
}

/// One storm at a time: the load of one would be the noise of the other.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The same storm without a controller.
async fn nobody() -> Option<Totals> {
    static ONCE: tokio::sync::OnceCell<Option<Totals>> = tokio::sync::OnceCell::const_new();
    *ONCE
        .get_or_init(|| async {
            let line = Arm::NOBODY.run(&phases(3, 12, 1), 1).await?;
            Some(line.during(5, 15))
        })
        .await
}

async fn storm(arm: Arm) {
    let _alone = ALONE.lock().await;
    let Some(without) = nobody().await else { return };
    assert!(
        without.attempts_per_call() > 2.0,
        "without a controller there is a storm: {without:?}"
    );
    // A cool-down and steps shorter than the defaults keep the test short.
    let Some(line) = arm.run(&phases(3, 22, 25), 1).await else {
        return;
    };
    // Ten seconds for the sources to see it and for the guard to be sure; then it is over.
    let with = line.during(13, 25);
    println!("{arm}: without {without:?}; with {with:?}\n{line}");
    assert!(
        with.attempts_per_call() < 1.3,
        "about one attempt per call: {with:?}"
    );
    assert!(
        with.goodput() >= 0.9 * without.goodput(),
        "no less gets done: {with:?} beside {without:?}"
    );
    assert!(line.saw("ramping"), "retries come back by the ramp");
    assert_eq!(line.last_state(), "on", "and are back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_ends_through_discovery() {
    storm(Arm::new(Actuator::Rtds, Source::Scrape)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_ends_through_the_admin_endpoint() {
    storm(Arm::new(Actuator::Admin, Source::Scrape)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_ends_with_prometheus_as_the_source() {
    storm(Arm::new(Actuator::Rtds, Source::Prometheus)).await;
}
