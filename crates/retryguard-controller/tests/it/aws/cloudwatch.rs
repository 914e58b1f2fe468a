use std::time::Duration;

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, MetricDatum};
use retryguard_controller::clock::unix_time;
use retryguard_controller::domain::counts::Counts;
use retryguard_controller::reconcile::source::SourceError;
use retryguard_parts::AwsKind;

use super::world::{Failure, World};

const ORDERS: &str = "  orders:
    cloudwatch:
      metrics:
        calls: {namespace: shop, name: calls, dimensions: {Service: orders}}
        rejected: {namespace: shop, name: rejected, dimensions: {Service: orders}, sparse: true}
        retries: {namespace: shop, name: retries, dimensions: {Service: orders}}
        delay: {namespace: shop, name: latency, dimensions: {Service: orders}, unit: seconds}
  quiet:
    cloudwatch: {lambda: {function: quiet}}
  table:
    cloudwatch: {dynamodb: {table: table, operation: PutItem}}";

/// The beginning of the newest minute that is over and settled, less one: it stays within what is read though the next
/// minute begins during the test.
fn minute() -> i64 {
    let settled = i64::try_from(unix_time().as_secs()).unwrap() - 60;
    settled - settled % 60 - 120
}

fn datum(name: &str, dimensions: &[(&str, &str)], second: i64, value: f64) -> MetricDatum {
    let dimensions = dimensions
        .iter()
        .map(|(name, value)| Dimension::builder().name(*name).value(*value).build());
    MetricDatum::builder()
        .metric_name(name)
        .set_dimensions(Some(dimensions.collect()))
        .timestamp(DateTime::from_secs(second))
        .value(value)
        .build()
}

async fn put(world: &World, namespace: &str, data: Vec<MetricDatum>) {
    Client::new(&world.sdk)
        .put_metric_data()
        .namespace(namespace)
        .set_metric_data(Some(data))
        .send()
        .await
        .unwrap();
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn whole_minutes_are_read_once_and_what_is_missing_is_no_reading() {
    let world = World::start(AwsKind::Ministack).await;
    let mut source = world.source(ORDERS).await;
    assert_eq!(source.read().await.unwrap(), [], "nothing was written yet");

    let (minute, service) = (minute(), [("Service", "orders")]);
    let now = i64::try_from(unix_time().as_secs()).unwrap();
    let mut data: Vec<MetricDatum> = Vec::new();
    // Two values of one minute are added; the minute that is not over yet is left out.
    for (name, second, value) in [
        ("calls", minute + 5, 60.0),
        ("calls", minute + 45, 40.0),
        ("calls", now, 1_000.0),
        ("rejected", minute + 5, 30.0),
        ("retries", minute + 5, 12.0),
    ] {
        data.push(datum(name, &service, second, value));
    }
    data.extend((1_u32..=100).map(|n| datum("latency", &service, minute + 7, f64::from(n) / 100.0)));
    put(&world, "shop", data).await;
    // A table that throttles everything.
    let table = [("Operation", "PutItem"), ("TableName", "table")];
    put(
        &world,
        "AWS/DynamoDB",
        vec![datum("ThrottledRequests", &table, minute + 5, 25.0)],
    )
    .await;

    let readings = source.read().await.unwrap();
    let names: Vec<&str> = readings.iter().map(|reading| reading.target.as_str()).collect();
    assert_eq!(names, ["orders", "table"], "`quiet` has no reading");
    let orders = &readings[0];
    let counts = (orders.counts.calls, orders.counts.rejected, orders.counts.retries);
    assert_eq!(counts, (100, Some(30), Some(12)));
    let delay = orders.counts.delay.unwrap();
    assert!(
        delay > Duration::from_millis(970) && delay <= Duration::from_secs(1),
        "p99: {delay:?}"
    );
    assert!(
        orders.age >= Duration::from_secs(60) && orders.age < Duration::from_secs(300),
        "{:?}",
        orders.age
    );
    let throttled = Counts {
        calls: 25,
        rejected: Some(25),
        ..Counts::default()
    };
    assert_eq!(readings[1].counts, throttled);

    // The same minute twice would be two samples of one event.
    let again = source.read().await.unwrap();
    assert!(
        again.iter().all(|reading| reading.counts.calls == 1_000),
        "{again:?}"
    );
}

/// 260 targets with two metrics each are more than one call may ask for.
#[tokio::test]
#[ignore = "needs Ministack"]
async fn more_metrics_than_one_call_takes_are_asked_for_in_several() {
    let world = World::start(AwsKind::Ministack).await;
    let minute = minute();
    let mut targets = String::new();
    let mut data = Vec::new();
    for number in 0..260_u32 {
        let name = format!("s{number:03}");
        targets.push_str(&format!(
            "  {name}: {{cloudwatch: {{metrics: {{calls: {{namespace: shop, name: calls, dimensions: {{Service: {name}}}}}, \
             rejected: {{namespace: shop, name: rejected, dimensions: {{Service: {name}}}}}}}}}}}\n"
        ));
        data.push(datum(
            "calls",
            &[("Service", &name)],
            minute,
            f64::from(number + 1),
        ));
        data.push(datum("rejected", &[("Service", &name)], minute, 1.0));
    }
    put(&world, "shop", data).await;
    let mut source = world.source(&targets).await;
    world.way.count();
    let readings = source.read().await.unwrap();
    assert_eq!(world.way.count(), 2);
    assert_eq!(readings.len(), 260);
    for (number, reading) in (1_u64..).zip(&readings) {
        assert_eq!((reading.counts.calls, reading.counts.rejected), (number, Some(1)));
    }
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn throttling_is_met_with_patience_and_then_told() {
    let world = World::start(AwsKind::Ministack).await;
    let throttled = Failure {
        status: 429,
        kind: "Throttling",
        body: "",
    };
    let mut source = world.source(ORDERS).await;
    world.way.fail(2, throttled);
    assert_eq!(source.read().await.unwrap(), []);
    assert_eq!(world.way.count(), 3);
    world.way.fail(100, throttled);
    let error = source.read().await.unwrap_err();
    assert!(matches!(error, SourceError::Refused { .. }), "{error}");
    assert_eq!(world.way.count(), 6);
}
