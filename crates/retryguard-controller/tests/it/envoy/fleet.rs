//! A hundred Envoy streams on one controller.

use std::sync::Arc;
use std::time::Instant;

use retryguard_controller::domain::state::RetryState;
use retryguard_controller::reconcile::actuator::Actuator;
use retryguard_parts::free_port;

use super::hostile::{Speaker, channel};
use super::world::*;

const SPEAKERS: usize = 100;
const ENVOYS: usize = 3;

/// Every one gets the change and says so; how long that took is printed, and depends on the machine.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
#[expect(
    clippy::disallowed_methods,
    reason = "the time is reported and never compared"
)]
async fn a_change_reaches_all_of_a_hundred() {
    let service = Down::start().await;
    let port = free_port();
    let rtds = Arc::new(rtds(port).await);
    rtds.find().await.unwrap();
    let mut envoys = Vec::new();
    for number in 0..ENVOYS {
        let named = move |text: String| text.replace("sidecar-1", &format!("sidecar-{number}"));
        let envoy = envoy(service.port, port, named);
        envoys.push(envoy);
    }
    let (told, mut times) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..SPEAKERS {
        let channel = channel(port).await;
        let told = told.clone();
        tokio::spawn(async move {
            let mut speaker = Speaker::open(channel, None).await.unwrap();
            speaker
                .subscribe(&format!("speaker-{number}"), &["retryguard"], "")
                .await;
            while let Ok(Some(answer)) = speaker.answers.message().await {
                speaker.reply(&answer, None).await;
                let _ = told.send((answer.version_info, Instant::now()));
            }
        });
    }
    streams(&rtds, (SPEAKERS + ENVOYS) as u64).await;
    until("the first layer is everywhere", || async {
        rtds.details()["accepted"].as_u64() == Some((SPEAKERS + ENVOYS) as u64)
    })
    .await;
    let begun = Instant::now();
    assert_eq!(apply(&*rtds, RetryState::Off).await, Vec::<String>::new());
    let confirmed = begun.elapsed();
    let mut delays = Vec::new();
    while delays.len() < SPEAKERS {
        let (version, at) = times.recv().await.unwrap();
        if version == "retryguard/1 reviews=off" {
            delays.push(at.saturating_duration_since(begun));
        }
    }
    delays.sort();
    println!(
        "{SPEAKERS} streams and {ENVOYS} Envoys: told after {:?} (median), {:?} (99 of 100), {:?} (last); all confirmed after {confirmed:?}",
        delays[SPEAKERS / 2],
        delays[SPEAKERS - 2],
        delays[SPEAKERS - 1],
    );
    for envoy in &envoys {
        assert_eq!(service.attempts_of_a_call(envoy).await, 1);
    }
}
