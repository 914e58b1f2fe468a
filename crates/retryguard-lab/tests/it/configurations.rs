//! Every configuration takes orders, and says truly what became of them.

use std::time::Duration;

use retryguard_lab::{
    Configuration, Settings, System, TimeScale,
    load::{Driver, Plan},
};

fn settings(configuration: Configuration) -> Settings {
    Settings {
        scale: TimeScale::new(0.1).unwrap(),
        seed: 7,
        ..Settings::described(configuration)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_paid_reserved_and_told_of_in_every_configuration() {
    for configuration in Configuration::ALL {
        let system = System::start(settings(configuration)).await.unwrap();
        let plan = Plan {
            replays: 0.0,
            ..Plan::steady(Duration::from_secs(10))
        };
        let driver = Driver::new(&system, plan).unwrap();
        let measured = driver.run().await;
        let total = measured.total;
        assert!(total.sent > 20, "{configuration}: {total:?}");
        if configuration == Configuration::G {
            // A cold throttle counts what is under way as not accepted, and turns some of the first calls away.
            assert!(total.paid * 2 > total.sent, "{total:?}");
        } else {
            assert_eq!(total.paid, total.sent, "{configuration}: {total:?}");
        }
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
