//! Each fault breaks what it says, and its end repairs it.

use std::time::Duration;

use retryguard_lab::{
    Configuration, Name, System,
    faults::{Fault, Kind},
    load::{Driver, Plan, Shape},
};

use crate::support::{post, raw, settings, system};

fn order(number: u32) -> String {
    format!(r#"{{"order":"f-{number}","items":[{{"sku":1,"quantity":1}}]}}"#)
}

#[tokio::test]
async fn a_killed_service_is_gone_and_comes_back_with_its_rows() {
    let system = system(Configuration::A).await;
    let gateway = system.address(Name::Gateway);
    assert_eq!(post(gateway, "/orders", &order(1)).await.status, 201);
    system.faults().start(Fault::of(Kind::Kill));
    let mut status = 201;
    while status == 201 {
        status = post(gateway, "/orders", &order(2)).await.status;
    }
    assert_eq!(status, 502);
    system.faults().end(Kind::Kill);
    while post(gateway, "/orders", &order(3)).await.status != 201 {
        tokio::task::yield_now().await;
    }
    let effects = system.effects().await.unwrap();
    assert!(effects.charged_orders >= 2, "{effects:?}");
    system.stop().await;
}

#[tokio::test]
async fn a_torn_connection_has_no_answer_and_leaves_the_charge() {
    let system = system(Configuration::A).await;
    system.faults().start(Fault::of(Kind::Reset).share(1.0).unwrap());
    let body = r#"{"order":"r-1","amount":5}"#;
    let request = format!(
        "POST /charges HTTP/1.1\r\nhost: lab\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = raw(system.address(Name::Payments), request.as_bytes()).await;
    assert!(answer.is_none(), "{answer:?}");
    assert_eq!(system.effects().await.unwrap().charges, 1);
    let through = post(system.address(Name::Gateway), "/orders", &order(1)).await;
    assert_eq!(through.status, 502, "{through:?}");
    system.stop().await;
}

#[tokio::test]
async fn dripping_answers_run_into_the_timeout() {
    let system = system(Configuration::C).await;
    system.faults().start(Fault::of(Kind::Drip));
    let answer = post(system.address(Name::Gateway), "/orders", &order(1)).await;
    assert_eq!(answer.status, 504, "{answer:?}");
    system.stop().await;
}

/// The lock is held in the row: orders for the same goods wait for it, others do not.
#[tokio::test]
async fn a_lock_holds_back_those_who_want_the_same_goods() {
    let system = system(Configuration::A).await;
    system.faults().start(Fault::of(Kind::InventoryLock));
    let gateway = system.address(Name::Gateway);
    let first = order(1);
    let (same, free) = (order(2), r#"{"order":"f-3","items":[{"sku":2,"quantity":1}]}"#);
    let started = retryguard_lab::clock::now();
    let timed = async |body: &str| {
        assert_eq!(post(gateway, "/orders", body).await.status, 201);
        retryguard_lab::clock::now() - started
    };
    let (one, two, three) = tokio::join!(timed(&first), timed(&same), timed(free));
    // Two locks of 140 ms at the least, one after the other.
    assert!(one.max(two) >= Duration::from_millis(280), "{one:?} {two:?}");
    assert!(
        three < one.max(two),
        "{three:?} waited for goods that it did not want"
    );
    system.stop().await;
}

/// Three seconds as described are three tenths here: nothing is faster while it lasts, and something is afterwards.
#[tokio::test]
async fn slow_payments_make_orders_slow() {
    const LONGER: Duration = Duration::from_millis(300);
    let system = system(Configuration::A).await;
    let gateway = system.address(Name::Gateway);
    let timed = async |number: u32| {
        let started = retryguard_lab::clock::now();
        assert_eq!(post(gateway, "/orders", &order(number)).await.status, 201);
        retryguard_lab::clock::now() - started
    };
    system.faults().start(Fault::of(Kind::PaymentSlow));
    for number in 0..5 {
        let took = timed(number).await;
        assert!(took >= LONGER, "{took:?}");
    }
    system.faults().end(Kind::PaymentSlow);
    let mut number = 5;
    while timed(number).await >= LONGER {
        number += 1;
    }
    system.stop().await;
}

fn closed(users: usize, duration: Duration) -> Plan {
    Plan {
        shape: Shape::Closed {
            users,
            think: (Duration::from_millis(500), Duration::from_millis(1500)),
        },
        replays: 0.0,
        ..Plan::steady(duration)
    }
}

/// A fifth of the charges fails and the users try again at once: they send more than they want, though no service
/// retries anything. When it is over they no longer do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_storm_comes_from_the_users() {
    let system = system(Configuration::A).await;
    let length = Duration::from_secs(60);
    let plan = closed(10, length).with(Fault::of(Kind::RetryStorm), Duration::ZERO, length);
    let driver = Driver::new(&system, plan).unwrap();
    let measured = driver.run().await;
    let edge = system.counts().edge(Name::Orders, Name::Payments).unwrap();
    println!(
        "{} orders, {} attempts of the users, {} failed at payments",
        measured.total.sent,
        driver.attempts(),
        edge.failures.get()
    );
    assert!(edge.failures.get() > 0, "no charge has failed");
    assert!(
        driver.attempts() > measured.total.sent,
        "the users do not retry: {} attempts, {} orders",
        driver.attempts(),
        measured.total.sent
    );
    assert_eq!(edge.retries.get(), 0, "a service has retried");
    assert!(system.faults().active().is_empty(), "the fault has not ended");
    let calm = Driver::new(&system, closed(3, Duration::from_secs(10))).unwrap();
    let measured = calm.run().await;
    assert_eq!(calm.attempts(), measured.total.sent);
    assert_eq!(measured.total.paid, measured.total.sent, "{:?}", measured.total);
    system.stop().await;
}

/// Five hundred users who hardly think meet a gateway that takes two hundred at once: the rest is turned away at the
/// door, and afterwards all is well again. Nothing but the door: configuration E has breakers too, which on a busy machine
/// open first and leave it nothing to turn away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_gateway_sheds_and_recovers() {
    let mut settings = settings(Configuration::A);
    settings.policy +=
        "services:\n  gateway:\n    server: {inFlight: 200, queueTime: 6m, queueInterval: 100ms}\n";
    let system = System::start(settings).await.unwrap();
    let (from, until) = (Duration::from_secs(5), Duration::from_secs(30));
    let plan = closed(5, Duration::from_secs(35)).with(Fault::of(Kind::GatewayOverload), from, until);
    let driver = Driver::new(&system, plan).unwrap();
    let measured = driver.run().await;
    println!("{:?}", measured.total);
    assert!(
        measured.total.shed > 0,
        "no request was turned away: {:?}",
        measured.total
    );
    assert!(
        measured.total.paid > 0,
        "no request was served: {:?}",
        measured.total
    );
    let answer = post(system.address(Name::Gateway), "/orders", &order(1)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    system.stop().await;
}
