//! A controller in a process of its own is killed while retries are off, and comes back.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use retryguard_controller::reconcile::control_loop::Ended;
use retryguard_parts::{Envoy, Process, free_port};

use super::controller::Controller;
use super::world::*;

const VARIABLE: &str = "RETRYGUARD_TEST_CONTROLLER";
/// One attempt per call is 1, and all of them are 6. Calls end and attempts arrive at different times, so what is
/// counted in a window is near these: the four callers have four calls under way.
const FEW: f64 = 1.2;
const MANY: f64 = 4.0;
/// How many calls are looked at together.
const WINDOW: u64 = 100;

/// No test: the process that the one below starts and kills.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_its_own() {
    if let Ok(configuration) = std::env::var(VARIABLE) {
        let _controller = Controller::start(&configuration).await;
        std::future::pending::<()>().await;
    }
}

pub(super) fn launch(configuration: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "envoy::killed::a_process_of_its_own"])
        .env(VARIABLE, configuration)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process::start(command).unwrap()
}

fn configuration(envoy: &Envoy, actuator: &str) -> String {
    format!(
        "sources: {{scrape: {{addresses: [\"{}/stats/prometheus\"]}}}}\nactuators: {{{actuator}}}\n\
         targets: {{reviews: {{scrape: {{envoy: {{}}}}}}}}\n",
        envoy.admin()
    )
}

/// Calls without end, which the service turns away; counts them.
fn calls(envoy: &Envoy) -> Arc<AtomicU64> {
    let made = Arc::new(AtomicU64::new(0));
    let (count, url) = (Arc::clone(&made), envoy.url());
    for _ in 0..4 {
        let (count, url, client) = (Arc::clone(&count), url.clone(), client());
        tokio::spawn(async move {
            loop {
                let _ = client.get(&url).send().await;
                count.fetch_add(1, Ordering::Relaxed);
                pause(10).await;
            }
        });
    }
    made
}

/// Attempts per call, of the next calls.
async fn amplification(service: &Down, made: &AtomicU64) -> f64 {
    let before = (service.attempts(), made.load(Ordering::Relaxed));
    until("so many calls", || async {
        made.load(Ordering::Relaxed) >= before.1 + WINDOW
    })
    .await;
    let after = (service.attempts(), made.load(Ordering::Relaxed));
    (after.0 - before.0) as f64 / (after.1 - before.1) as f64
}

/// Whether Envoy's runtime holds anything of ours.
async fn holds(envoy: &Envoy) -> bool {
    let answer = client()
        .get(format!("{}/runtime", envoy.admin()))
        .send()
        .await
        .unwrap();
    answer.text().await.unwrap().contains("retryguard.reviews.share")
}

async fn killed_and_back(envoy: &Envoy, service: &Down, configuration: &str) {
    let made = calls(envoy);
    let mut process = launch(configuration);
    until("off", || async { amplification(service, &made).await < FEW }).await;
    process.kill();
    // Envoy keeps what it was sent.
    let alone = amplification(service, &made).await;
    assert!(alone < FEW, "while no controller is there: {alone}");
    // The next one never lets the storm back in on its way to knowing what was done.
    let next = Controller::start(configuration).await;
    until("found, and decided by its own data", || async {
        let back = amplification(service, &made).await;
        assert!(back < FEW, "after the restart: {back}");
        assert!(holds(envoy).await, "it lets go on its way");
        let status = next.status().await;
        status["targets"][0]["state"] == "suspended"
            && status["targets"][0]["calls"].is_number()
            && status["targets"][0]["actuators"][0]["holds"] == "suspended"
    })
    .await;
    // Stopped by a signal it restores.
    assert_eq!(next.stop().await, Ended::Restored);
    assert!(!holds(envoy).await, "nothing of ours is left");
    until("restored", || async {
        amplification(service, &made).await > MANY
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn with_discovery() {
    let service = Down::start().await;
    let port = free_port();
    let envoy = envoy(service.port, port, |text| text);
    let actuator = format!("envoy-rtds: {{listen: \"127.0.0.1:{port}\", learnFor: 10s}}");
    killed_and_back(&envoy, &service, &configuration(&envoy, &actuator)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn with_the_admin_endpoint() {
    let service = Down::start().await;
    let envoy = envoy(service.port, free_port(), |text| text);
    let actuator = format!("envoy-admin: {{addresses: [\"{}\"]}}", envoy.admin());
    killed_and_back(&envoy, &service, &configuration(&envoy, &actuator)).await;
}
