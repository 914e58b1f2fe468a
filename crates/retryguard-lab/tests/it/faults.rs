//! Each fault breaks what it says, and its end mends it.

use std::time::Duration;

use retryguard_lab::{
    Configuration, Name,
    faults::{Fault, Kind},
};

use crate::support::{post, raw, system};

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

/// The lock is held in the row: whoever wants the same goods waits for it, and nobody else.
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
