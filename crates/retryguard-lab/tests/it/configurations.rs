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

/// What a run on a healthy system says, which its databases must bear out. Whether all was paid.
async fn run(configuration: Configuration) -> bool {
    let system = start(configuration).await;
    let plan = Plan {
        replays: 0.0,
        ..Plan::steady(Duration::from_secs(4))
    };
    let driver = Driver::new(&system, plan).unwrap();
    let total = driver.run().await.total;
    assert!(total.sent > 0, "{configuration}: {total:?}");
    let all_paid = total.paid == total.sent;
    if all_paid {
        let effects = system.effects().await.unwrap();
        assert_eq!(effects.charges, total.paid, "{configuration}: {effects:?}");
        assert_eq!(effects.paid_orders, total.paid, "{configuration}: {effects:?}");
        assert_eq!(
            effects.reserved_orders, effects.reservations,
            "{configuration}: {effects:?}"
        );
    } else {
        println!("{configuration}: the machine was too busy: {total:?}");
    }
    system.stop().await;
    all_paid
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_paid_reserved_and_told_of_in_every_configuration() {
    for configuration in Configuration::ALL {
        // A machine that stands still for a moment makes the later configurations turn orders away, as they should.
        let mut paid = false;
        for _ in 0..5 {
            paid = paid || run(configuration).await;
        }
        assert!(paid, "{configuration}: not once was every order paid");
    }
}
