//! The whole loop: CloudWatch in, a function's environment out, through a configuration file as a user writes it.

use std::time::Duration;

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, MetricDatum};
use retryguard_controller::clock::{sleep, unix_time};
use retryguard_controller::reconcile::control_loop::{Ended, MOST_QUERIES, Query, run};
use retryguard_controller::start;
use retryguard_parts::AwsKind;
use tokio::sync::{mpsc, oneshot};

use super::world::{World, config};

/// One more second of the function: a hundred invocations, and so many throttles.
async fn write_second(world: &World, throttled: f64) {
    let second = i64::try_from(unix_time().as_secs()).unwrap();
    let datum = |name: &str, value: f64| {
        MetricDatum::builder()
            .metric_name(name)
            .dimensions(Dimension::builder().name("FunctionName").value("callee").build())
            .timestamp(DateTime::from_secs(second))
            .value(value)
            .storage_resolution(1)
            .build()
    };
    aws_sdk_cloudwatch::Client::new(&world.sdk)
        .put_metric_data()
        .namespace("AWS/Lambda")
        .metric_data(datum("Invocations", 100.0 - throttled))
        .metric_data(datum("Throttles", throttled))
        .send()
        .await
        .unwrap();
}

async fn attempts_until(world: &World, last: &str, throttled: f64) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..600 {
        write_second(world, throttled).await;
        let now = world.variables("writer").await["AWS_MAX_ATTEMPTS"].clone();
        if seen.last() != Some(&now) {
            seen.push(now.clone());
        }
        if now == last {
            return seen;
        }
        sleep(Duration::from_millis(200)).await;
    }
    panic!("never {last}: {seen:?}");
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn throttles_switch_the_callers_off_and_calm_brings_them_back() {
    let world = World::start(AwsKind::Ministack).await;
    world
        .create_function("writer", &[("AWS_MAX_ATTEMPTS", "9"), ("PASSWORD", "hunter2")])
        .await;
    let before = world.variables("writer").await;
    // High-resolution metrics, so that the test does not take the minutes that usual ones do.
    let text = format!(
        "sources: {{cloudwatch: {{{reach}, period: 1s, every: 1s, settle: 1s}}}}
actuators: {{aws: {{{reach}}}}}
limits: {{staleAfter: 30s, hold: 60s, timeout: 20s, changesPerMinute: 100}}
targets:
  callee:
    guard: {{samples: 2, coolDown: 1s, stepFor: 2s}}
    cloudwatch: {{lambda: {{}}}}
    aws: {{lambda: {{functions: [writer]}}}}
",
        reach = world.reach()
    );
    let parts = start::components(&config(&text), false, false).await.unwrap();
    let (asks, questions) = mpsc::channel(MOST_QUERIES);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(run(parts, questions, async {
        let _ = stopped.await;
    }));
    attempts_until(&world, "1", 60.0).await;
    let back = attempts_until(&world, "9", 0.0).await;
    let steps = ["1", "2", "3", "5", "9"];
    assert!(back.iter().all(|now| steps.contains(&now.as_str())), "{back:?}");
    // A slow emulator may hide steps from an observer; the loop has counted them.
    let (send, answer) = oneshot::channel();
    asks.send(Query::Status(send)).await.unwrap();
    let changes = answer.await.unwrap()["actuators"][0]["changes"].clone();
    assert!(changes.as_u64() > Some(2), "off, steps, and back: {changes}");
    assert_eq!(world.variables("writer").await, before);
    attempts_until(&world, "1", 60.0).await;
    stop.send(()).unwrap();
    assert_eq!(task.await.unwrap(), Ended::Restored);
    assert_eq!(world.variables("writer").await, before);
}
