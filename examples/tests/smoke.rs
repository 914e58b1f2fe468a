//! Every example runs, ends by itself and prints what it promises.

use std::{path::PathBuf, process::Stdio, time::Duration};

use tokio::process::Command;

/// Far longer than any of them takes.
const AT_MOST: Duration = Duration::from_secs(60);

/// `cargo test` builds the examples of a package before it runs its tests, in a folder beside theirs.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let profile = test.ancestors().nth(2).expect("<profile>/deps/<test>");
    let program = profile.join("examples").join(name);
    assert!(
        program.exists(),
        "{} is not built: run `cargo test -p retryguard-examples` without `--test`",
        program.display()
    );
    program
}

async fn output(name: &str) -> String {
    let run = Command::new(program(name))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(AT_MOST, run)
        .await
        .unwrap_or_else(|_| panic!("{name} does not end"))
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {}\n{text}", output.status);
    text
}

/// Runs an example and looks for what it must print.
async fn check(name: &str, promised: &[&str]) {
    let text = output(name).await;
    for part in promised {
        assert!(text.contains(part), "{name} does not print {part:?}:\n{text}");
    }
}

#[tokio::test]
async fn reqwest_client() {
    let promised = [
        "200 OK after 2 attempts",
        "not-retryable",
        "not-idempotent",
        "not sent: breaker-open",
    ];
    check("reqwest_client", &promised).await;
}

#[tokio::test]
async fn endpoints() {
    let promised = [
        "of 100 calls were served",
        "endpoint 0: left out",
        "endpoint 0: used",
    ];
    check("endpoints", &promised).await;
}

#[tokio::test]
async fn axum_server() {
    let promised = [
        "critical     1             4     0",
        "retryguard-do-not-retry: overloaded",
        "overloaded: too many requests",
    ];
    check("axum_server", &promised).await;
    // The example says that retries are shed before first attempts; its table must show it.
    let text = output("axum_server").await;
    let served = |level: &str, attempt: &str| -> u32 {
        let mut rows = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| row.len() == 4 && (row[0], row[1]) == (level, attempt));
        row.expect("a row of the table")[2].parse().expect("a number")
    };
    assert!(served("sheddable", "2") < served("sheddable", "1"), "{text}");
    assert!(served("critical", "2") <= served("critical", "1"), "{text}");
}

#[tokio::test]
async fn tonic_pair() {
    check("tonic_pair", &["request 3:", "the client got status 1"]).await;
}

#[tokio::test]
async fn periodic_client() {
    check("periodic_client", &["update check: 204", "they are off"]).await;
}

#[tokio::test]
async fn payment() {
    let promised = [
        "killed before the commit; payments in the database: 0",
        "200 OK after retries, worked on anew\n  receipt 1 for 10 euros\n  payments in the database: 1",
        "killed between commit and response; payments in the database: 2",
        "200 OK after retries, the stored response\n  receipt 2 for 10 euros\n  payments in the database: 2",
    ];
    check("payment", &promised).await;
}

#[tokio::test]
async fn prometheus() {
    let promised = [
        "retryguard_calls_total{target=\"prices\",result=\"success\"}",
        "retryguard_breaker_state{target=\"prices\"} 1",
        "retryguard_served_total{service=\"prices\",attempt=\"first\"}",
    ];
    check("prometheus", &promised).await;
}

#[tokio::test]
async fn opentelemetry() {
    let promised = [
        "retryguard_attempts_total",
        "retryguard_breaker_changes_total",
        "Name         : stock",
    ];
    check("opentelemetry", &promised).await;
}

#[tokio::test]
async fn outbox() {
    let promised = [
        "4 events wait",
        "mail to ann: tea\nmail to ann: pot\nmail to ben: cup\n",
        "parked, for eve: 400 Bad Request",
    ];
    check("outbox", &promised).await;
}
