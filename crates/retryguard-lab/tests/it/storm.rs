//! Retries make a storm, and RetryGuard stops it: counted at the service, and compared as ratios.

use std::time::Duration;

use retryguard_lab::{
    Configuration, Name, System,
    faults::{Fault, Kind},
    load::{Driver, Measurements, Plan},
    settings::Capacity,
};

use crate::support::settings;

const LENGTH: Duration = Duration::from_secs(80);
const FAULT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(40));

/// Payments that have room for the load until four fifths of their workers are gone: attempts that arrived per
/// order, and what was measured.
async fn run(configuration: Configuration) -> (f64, Measurements) {
    let mut settings = settings(configuration);
    settings.payments = Capacity {
        workers: 5,
        queue: 20,
    };
    settings.payment_time.usual = Duration::from_secs(1);
    let system = System::start(settings).await.unwrap();
    let fault = Fault::of(Kind::CapacityLoss).share(0.2).unwrap();
    let plan = Plan {
        replays: 0.0,
        patience: Duration::from_secs(30),
        ..Plan::open(30.0, LENGTH)
    }
    .with(fault, FAULT.0, FAULT.1);
    let measured = Driver::new(&system, plan).unwrap().run().await;
    let arrived = system.counts().service(Name::Payments).arrived.get();
    system.stop().await;
    (arrived as f64 / measured.total.sent as f64, measured)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn immediate_retries_make_a_storm_and_the_guard_stops_it() {
    let (naive, _) = run(Configuration::B).await;
    let (guarded, _) = run(Configuration::G).await;
    println!("attempts per order: {naive:.2} with immediate retries, {guarded:.2} with RetryGuard");
    assert!(naive > 1.5, "no storm: {naive:.2}");
    assert!(guarded < 1.3, "a storm: {guarded:.2}");
}
