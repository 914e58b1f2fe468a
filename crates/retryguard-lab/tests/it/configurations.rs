//! Every configuration takes orders, and says truly what became of them.

use std::time::Duration;

use retryguard_lab::{
    Configuration, System, TimeScale,
    load::{Driver, Plan},
};

use crate::support::settings;

/// Half of every duration: a busy machine must not run into the timeouts.
async fn start(configuration: Configuration) -> System {
    let mut settings = settings(configuration);
    settings.scale = TimeScale::new(0.5).unwrap();
    System::start(settings).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_paid_reserved_and_told_of_in_every_configuration() {
    for configuration in Configuration::ALL {
        let system = start(configuration).await;
        let plan = Plan {
            replays: 0.0,
            ..Plan::steady(Duration::from_secs(4))
        };
        let driver = Driver::new(&system, plan).unwrap();
        let measured = driver.run().await;
        let total = measured.total;
        assert!(total.sent > 0, "{configuration}: {total:?}");
        assert_eq!(total.paid, total.sent, "{configuration}: {total:?}");
        let effects = system.effects().await.unwrap();
        assert_eq!(effects.charges, total.paid, "{configuration}: {effects:?}");
        assert_eq!(effects.paid_orders, total.paid, "{configuration}: {effects:?}");
        assert_eq!(
            effects.reserved_orders, effects.reservations,
            "{configuration}: {effects:?}"
        );
        system.stop().await;
    }
}
