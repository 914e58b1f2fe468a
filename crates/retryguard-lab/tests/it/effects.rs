//! What really happened is in the databases: duplicates where keys are ignored, and none where they are honoured.

use std::time::Duration;

use retryguard_lab::{
    Configuration,
    database::Effects,
    faults::{Fault, Kind},
    load::{Driver, Plan},
};

use crate::support::system;

/// Answers of payments are torn after the charge was made, and a tenth of the users send an order twice.
async fn run(configuration: Configuration) -> (Effects, u64) {
    let system = system(configuration).await;
    let plan = Plan::steady(Duration::from_secs(30)).with(
        Fault::of(Kind::Reset),
        Duration::from_secs(5),
        Duration::from_secs(25),
    );
    let measured = Driver::new(&system, plan).unwrap().run().await;
    let effects = system.effects().await.unwrap();
    system.stop().await;
    (effects, measured.total.paid)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn torn_answers_charge_twice_without_keys() {
    let (effects, paid) = run(Configuration::C).await;
    assert!(effects.duplicate_charges() > 0, "{effects:?}");
    assert!(effects.duplicate_orders() > 0, "{effects:?}");
    assert!(
        effects.charged_orders >= paid,
        "{effects:?} but {paid} were told that they had paid"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_never_with_them() {
    for configuration in [Configuration::F, Configuration::G] {
        let (effects, paid) = run(configuration).await;
        assert_eq!(effects.duplicate_charges(), 0, "{configuration}: {effects:?}");
        assert_eq!(
            effects.duplicate_reservations(),
            0,
            "{configuration}: {effects:?}"
        );
        assert_eq!(
            effects.duplicate_notifications(),
            0,
            "{configuration}: {effects:?}"
        );
        assert!(
            effects.charged_orders >= paid,
            "{configuration}: {effects:?}, {paid} paid"
        );
        assert!(paid > 0);
    }
}
