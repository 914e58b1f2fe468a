use retryguard_controller::domain::counts::Counts;
use retryguard_controller::reconcile::source::SourceError;

use super::{serve, source};

const ISTIO: &str = "
sources: {prometheus: {url: '{address}', every: 30s}}
actuators: {policy-server: {folder: .}}
targets: {reviews: {prometheus: {istio: {namespace: shop}}}}
";

const FREE: &str = "
sources: {prometheus: {url: '{address}', every: 30s}}
actuators: {policy-server: {folder: .}}
targets:
  reviews:
    guard: {signal: delay, offAbove: 1s}
    prometheus:
      queries:
        calls: sum(increase(calls_total[$window]))
        rejected: sum(increase(rejected_total[$window]))
        delay: histogram_quantile(0.9, sum by (le) (rate(delay_bucket[$window])))
";

fn vector(service: &str, value: &str) -> String {
    format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[
        {{"metric":{{"destination_service_name":"{service}","destination_service_namespace":"shop"}},"value":[1,"{value}"]}},
        {{"metric":{{"destination_service_name":"other","destination_service_namespace":"shop"}},"value":[1,"1e9"]}}]}}}}"#
    )
}

fn scalar(value: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"{value}"]}}}}"#)
}

#[tokio::test]
async fn a_mesh_is_asked_once_for_all_targets() {
    let (server, address) = serve().await;
    server.lock().unwrap().by_query = vec![
        ("timestamp", vector("reviews", "12.5")),
        ("response_code=~", vector("reviews", "80")),
        ("grpc_response_status", vector("unknown", "1")),
        ("source", vector("reviews", "100")),
        ("", vector("reviews", "160")),
    ];
    let mut source = source(ISTIO, &address).await;
    let readings = source.read().await.unwrap();
    let reading = &readings[0];
    assert_eq!(readings.len(), 1);
    assert_eq!(reading.age.as_millis(), 12_500);
    // 160 attempts for 100 calls, half of the attempts rejected.
    let expected = Counts {
        calls: 100,
        rejected: Some(50),
        retries: Some(60),
        ..Counts::default()
    };
    assert_eq!(reading.counts, expected);
    for query in &server.lock().unwrap().queries {
        assert!(
            !query.contains("response_flags") && !query.contains("overflow"),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_target_that_the_server_does_not_know_is_left_out() {
    let (server, address) = serve().await;
    server.lock().unwrap().text = vector("another", "5");
    assert_eq!(source(ISTIO, &address).await.read().await.unwrap(), []);
    server.lock().unwrap().text = vector("reviews", "NaN");
    assert_eq!(source(ISTIO, &address).await.read().await.unwrap(), []);
}

#[tokio::test]
async fn free_queries_get_the_window_and_give_one_number() {
    let (server, address) = serve().await;
    server.lock().unwrap().by_query = vec![
        ("rejected", scalar("25")),
        ("histogram", scalar("0.25")),
        ("", scalar("100")),
    ];
    let mut source = source(FREE, &address).await;
    let reading = source.read().await.unwrap().remove(0);
    assert_eq!((reading.counts.calls, reading.counts.rejected), (100, Some(25)));
    assert_eq!(reading.counts.delay.unwrap().as_millis(), 250);
    let asked = server.lock().unwrap().queries[0].clone();
    assert_eq!(asked, "sum(increase(calls_total[30000ms]))");
    server.lock().unwrap().by_query = vec![("", vector("reviews", "5"))];
    assert_eq!(source.read().await.unwrap(), [], "two series are not a number");
}

/// More rejections than calls were clamped to all of them, which switched retries off.
#[tokio::test]
async fn queries_that_count_different_things_are_not_a_total_overload() {
    let (server, address) = serve().await;
    server.lock().unwrap().by_query = vec![("rejected", scalar("250")), ("", scalar("100"))];
    let reading = source(FREE, &address).await.read().await.unwrap().remove(0);
    assert_eq!((reading.counts.calls, reading.counts.rejected), (100, Some(250)));
    assert!(!reading.counts.plausible());
    assert_eq!(
        (reading.counts.retries, reading.counts.retries_succeeded),
        (None, None)
    );
}

#[tokio::test]
async fn a_refusal_carries_the_servers_words_and_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let (server, address) = serve().await;
    let config = ISTIO.replace("every: 30s", &format!("tokenFile: '{}'", token.display()));
    let mut source = source(&config, &address).await;
    server.lock().unwrap().text = r#"{"status":"error","error":"too\nmany"}"#.to_owned();
    let error = source.read().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{address}/api/v1/query refuses: too many")
    );
    assert_eq!(server.lock().unwrap().tokens[0], "Bearer s3cret");
    server.lock().unwrap().status = 401;
    let error = source.read().await.unwrap_err();
    assert!(matches!(error, SourceError::Refused { .. }));
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn overlapping_windows_count_a_call_once() {
    let (server, address) = serve().await;
    server.lock().unwrap().text = scalar("600");
    let config = FREE.replace("every: 30s", "every: 5s, window: 30s");
    let reading = source(&config, &address).await.read().await.unwrap().remove(0);
    assert_eq!(reading.counts.calls, 100);
}
