//! Two processes race on one key, ten thousand times: one effect each.

use std::{process::Stdio, sync::Arc, time::Duration};

use axum::{Router, body::Body, routing::post};
use http::Request;
use retryguard_store::idempotency::{IdempotencyLayer, IdempotencyStore, SqliteStore};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};
use tower::ServiceExt as _;

use super::{
    backends,
    payments::{self, Payments},
    processes,
};

const RACES: usize = 10_000;
const ADDRESS: &str = "RETRYGUARD_TEST_RACE";

/// One of the two: pays under the key that it is told, as soon as it is told, and says how it was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racer() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    let store: Arc<dyn IdempotencyStore> = if address.contains("://") {
        backends::open(&address).await
    } else {
        Arc::new(
            SqliteStore::with_pool(payments::sqlite_pool(&address).await)
                .await
                .unwrap(),
        )
    };
    let payments = Payments::open(&address).await;
    // The second is notified at once, and the next race begins.
    let layer = IdempotencyLayer::shared(store)
        .wait(Duration::ZERO)
        .store_timeout(Duration::from_secs(60));
    let handler = move |payer: String| {
        let payments = payments.clone();
        async move { payments.pay(&payer).await }
    };
    let app = Router::new().route("/pay", post(handler)).layer(layer);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    println!("\n@ready");
    while let Ok(Some(payer)) = lines.next_line().await {
        let request = Request::post("/pay")
            .header("idempotency-key", format!("\"{payer}\""))
            .body(Body::from(payer))
            .unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let replayed = response.headers().contains_key("idempotency-replayed");
        println!(
            "\n@{}{}",
            response.status().as_u16(),
            if replayed { " replayed" } else { "" }
        );
    }
}

struct Racer {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Racer {
    fn start(address: &str) -> Self {
        let command = processes::command("idempotency::race::racer", ADDRESS, address);
        let mut child = tokio::process::Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
        }
    }

    async fn go(&mut self, payer: &str) {
        self.input
            .write_all(format!("{payer}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn answer(&mut self) -> String {
        loop {
            let line = self.output.next_line().await.unwrap().expect("the racer lives");
            if let Some(answer) = line.strip_prefix('@') {
                return answer.to_owned();
            }
        }
    }
}

async fn race(address: &str) {
    let (mut one, mut two) = (Racer::start(address), Racer::start(address));
    assert_eq!(
        (one.answer().await, two.answer().await),
        ("ready".into(), "ready".into())
    );
    let mut met = 0;
    for number in 0..RACES {
        let payer = number.to_string();
        // Both orders, so that neither is always ahead.
        if number % 2 == 0 {
            one.go(&payer).await;
            two.go(&payer).await;
        } else {
            two.go(&payer).await;
            one.go(&payer).await;
        }
        let answers = [one.answer().await, two.answer().await];
        let paid = answers.iter().filter(|answer| *answer == "200").count();
        assert_eq!(paid, 1, "{payer}: {answers:?}");
        let refused = answers.iter().filter(|answer| *answer == "409").count();
        let replayed = answers.iter().filter(|answer| *answer == "200 replayed").count();
        assert_eq!(refused + replayed, 1, "{payer}: {answers:?}");
        met += refused;
    }
    let paid = Payments::open(address).await.count().await;
    assert_eq!(paid.len(), RACES);
    assert!(paid.values().all(|count| *count == 1), "a payer paid twice");
    println!("{RACES} races, {met} of them met while the first was worked on");
    assert!(met > 0, "they never met, so nothing was tried");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    let place = backends::sqlite().await;
    race(place.address.as_ref().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis"]
async fn redis() {
    let place = backends::redis().await;
    race(place.address.as_ref().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn postgres() {
    let place = backends::postgres().await;
    race(place.address.as_ref().unwrap()).await;
}
