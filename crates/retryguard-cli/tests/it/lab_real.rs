//! The laboratory on PostgreSQL and Redis: five processes, killed where they stand, and what the database holds afterwards.

use std::{
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use retryguard_lab::{
    Configuration, Name, Settings, TimeScale,
    chance::SharedRandom,
    clock,
    database::Effects,
    experiment::Fleet,
    load::{Driver, Measurements, Plan},
};
use retryguard_parts::{Postgres, Redis};

async fn start(configuration: Configuration, scale: f64, postgres: &Postgres, redis: &Redis) -> Fleet {
    let settings = Settings {
        scale: TimeScale::new(scale).expect("a scale"),
        seed: 7,
        ..Settings::described(configuration)
    };
    let program = Path::new(env!("CARGO_BIN_EXE_retryguard"));
    Fleet::start(program, settings, &postgres.url(), &redis.url())
        .await
        .expect("five processes")
}

fn driver(fleet: &Fleet, plan: Plan) -> Driver {
    let settings = fleet.settings();
    let gateway = fleet.address(Name::Gateway);
    Driver::against(gateway, plan, settings.scale, settings.seed, settings.goods, None).expect("a plan")
}

/// Nothing is broken, so nearly all is paid, and the databases hold what users were told. A machine that is too busy for that
/// is asked again, with more time for each order.
#[test]
#[ignore = "needs PostgreSQL and Redis"]
fn every_configuration_pays_orders_on_real_stores() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    for configuration in Configuration::ALL {
        let nearly_all = [0.5, 1.0, 2.0].into_iter().any(|scale| {
            retryguard_lab::block_on(pays(configuration, scale, &postgres, &redis)).expect("a run") >= 0.95
        });
        assert!(
            nearly_all,
            "{configuration}: orders failed although nothing was broken"
        );
    }
}

/// The share of the orders that was paid. What users were told is true in any case.
async fn pays(
    configuration: Configuration,
    scale: f64,
    postgres: &Postgres,
    redis: &Redis,
) -> anyhow::Result<f64> {
    let fleet = start(configuration, scale, postgres, redis).await;
    let plan = Plan {
        replays: 0.0,
        ..Plan::steady(Duration::from_secs(4))
    };
    let total = driver(&fleet, plan).run().await.total;
    let effects = fleet.effects().await?;
    let arrived = fleet.reading(false).await.service(Name::Payments).arrived;
    println!("{configuration}: {total:?}, {effects:?}, {arrived} arrived at payments");
    assert!(
        effects.paid_orders >= total.paid && effects.charged_orders >= total.paid,
        "{configuration}: {effects:?}, {total:?}"
    );
    assert!(
        arrived >= effects.charges,
        "{configuration}: {arrived}, {effects:?}"
    );
    fleet.stop().await?;
    Ok(total.paid as f64 / total.sent.max(1) as f64)
}

/// A run that is interrupted ends its processes and removes what it made in the database.
#[test]
#[ignore = "needs PostgreSQL and Redis"]
fn an_interrupted_run_leaves_nothing_in_the_database() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let (url, cache) = (postgres.url(), redis.url());
    let mut run = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args([
            "lab",
            "run",
            "--config",
            "A,G",
            "--at-once",
            "2",
            "--time-scale",
            "1",
        ])
        .args(["--stores", "real", "--postgres", &url, "--redis", &cache])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let schemas = || retryguard_lab::database::Postgres::schemas(&url);
    let begun = retryguard_lab::block_on(async {
        for _ in 0..600 {
            clock::sleep(Duration::from_millis(100)).await;
            if schemas().await?.len() == 2 {
                return Ok(true);
            }
        }
        Ok(false)
    });
    let begun = begun.expect("a server that answers");
    assert!(begun, "two runs, a schema each");
    let sent = Command::new("kill")
        .args(["-INT", &run.id().to_string()])
        .status()
        .expect("a signal");
    assert!(sent.success());
    let mut said = String::new();
    run.stderr
        .take()
        .expect("a pipe")
        .read_to_string(&mut said)
        .expect("text");
    assert_eq!(run.wait().expect("it ends").code(), Some(130), "{said}");
    assert!(said.contains("stopped by Ctrl-C"), "{said}");
    let left = retryguard_lab::block_on(schemas()).expect("a server that answers");
    assert_eq!(left, Vec::<String>::new());
}

/// Payments or orders die at a random moment and come back, again and again, while users send orders and a third of them
/// twice.
fn killed(configuration: Configuration, postgres: &Postgres, redis: &Redis) -> (Effects, Measurements) {
    const KILLS: u32 = 6;
    retryguard_lab::block_on(async {
        let mut fleet = start(configuration, 0.25, postgres, redis).await;
        let plan = Plan {
            replays: 0.3,
            ..Plan::steady(Duration::from_secs(60))
        };
        let driver = driver(&fleet, plan);
        let dice = SharedRandom::new(7, configuration.letter());
        let kills = async {
            for _ in 0..KILLS {
                clock::sleep(Duration::from_millis(200 + dice.below(800))).await;
                let victim = if dice.happens(0.5) {
                    Name::Payments
                } else {
                    Name::Orders
                };
                fleet.restart(victim).await?;
            }
            anyhow::Ok(())
        };
        let (measured, restarted) = tokio::join!(driver.run(), kills);
        restarted?;
        let effects = fleet.effects().await?;
        fleet.stop().await?;
        Ok((effects, measured))
    })
    .expect("a run")
}

#[test]
#[ignore = "needs PostgreSQL and Redis"]
fn nothing_is_done_twice_by_services_that_were_killed() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    for configuration in [Configuration::F, Configuration::G] {
        let (effects, measured) = killed(configuration, &postgres, &redis);
        println!("{configuration}: {effects:?}, {:?}", measured.total);
        assert!(measured.total.paid > 0, "{:?}", measured.total);
        assert!(measured.replays > 0);
        assert_eq!(effects.duplicate_charges(), 0, "{configuration}: {effects:?}");
        assert_eq!(effects.duplicate_orders(), 0, "{configuration}: {effects:?}");
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
            effects.charged_orders >= measured.total.paid,
            "{configuration}: {effects:?}, told to have paid: {}",
            measured.total.paid
        );
    }
    // Without keys the number is random: it is printed, and not asserted.
    let (effects, measured) = killed(Configuration::C, &postgres, &redis);
    println!(
        "C, without keys: {} charges and {} orders twice, {:?}",
        effects.duplicate_charges(),
        effects.duplicate_orders(),
        measured.total
    );
}
