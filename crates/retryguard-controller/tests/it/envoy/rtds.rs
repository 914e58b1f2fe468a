//! Runtime discovery under one real Envoy.

use retryguard_controller::domain::state::{Found, Observed, RetryState};
use retryguard_controller::reconcile::actuator::Actuator;
use retryguard_parts::free_port;

use super::world::*;

const ON: u64 = 6;

fn as_it_is(text: String) -> String {
    text
}

async fn off_and_back(edit: impl Fn(String) -> String) {
    let service = Down::start().await;
    let port = free_port();
    let rtds = rtds(port).await;
    assert_eq!(rtds.find().await.unwrap(), []);
    let envoy = envoy(service.port, port, edit);
    streams(&rtds, 1).await;
    assert_eq!(service.attempts_of_a_call(&envoy).await, ON);
    assert_eq!(apply(&rtds, RetryState::Off).await, Vec::<String>::new());
    // The answer to `apply` is the Envoy's own word that it has it.
    assert_eq!(service.attempts_of_a_call(&envoy).await, 1);
    let losses = apply(&rtds, half()).await;
    assert_eq!(losses.len(), 2, "{losses:?}");
    let partly = service.attempts_of_a_call(&envoy).await;
    assert!(partly > 1, "one retry at a time is let through: {partly}");
    assert_eq!(apply(&rtds, RetryState::Original).await, Vec::<String>::new());
    assert_eq!(service.attempts_of_a_call(&envoy).await, ON);
    let details = rtds.details();
    assert_eq!(details["nodes"][0]["id"], "sidecar-1", "{details}");
    assert_eq!(details["nodes"][0]["upToDate"], true, "{details}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn retries_go_off_and_come_back() {
    off_and_back(as_it_is).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn a_cluster_with_a_budget_of_its_own() {
    off_and_back(|text| {
        let budget = "retry_budget: {budget_percent: {value: 100}, min_retry_concurrency: 10}";
        text.replace("max_retries: 4096", budget)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn a_route_of_high_priority() {
    off_and_back(|text| {
        text.replace(
            "cluster: reviews\n",
            "cluster: reviews\n                  priority: HIGH\n",
        )
        .replace("thresholds: [{", "thresholds: [{priority: HIGH, ")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn the_delta_dialect() {
    off_and_back(|text| text.replace("api_type: GRPC", "api_type: DELTA_GRPC")).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn the_aggregated_service() {
    off_and_back(|text| {
        let from = text.find("        api_config_source:").unwrap();
        let to = text.find("            # With `tokenFile`").unwrap();
        let rest = text[to..].lines().skip(2).collect::<Vec<_>>().join("\n");
        format!(
            "{}        ads: {{}}\n{rest}\ndynamic_resources:\n  ads_config:\n    api_type: GRPC\n    \
             transport_api_version: V3\n    grpc_services: [{{envoy_grpc: {{cluster_name: retryguard}}}}]\n",
            &text[..from]
        )
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn an_envoy_that_restarts_is_told_at_once() {
    let service = Down::start().await;
    let port = free_port();
    let mut settings = rtds_settings(port);
    settings.confirm_within = std::time::Duration::from_secs(1);
    let rtds = rtds_with(&settings).await;
    rtds.find().await.unwrap();
    let losses = apply(&rtds, RetryState::Off).await;
    assert!(losses[0].contains("no Envoy is connected"), "{losses:?}");
    // Its start waits for the first answer, so its very first call is without retries.
    let mut envoy = envoy(service.port, port, as_it_is);
    assert_eq!(service.attempts_of_a_call(&envoy).await, 1);
    envoy.restart();
    assert_eq!(service.attempts_of_a_call(&envoy).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn a_controller_that_was_killed_finds_what_it_had_changed() {
    let service = Down::start().await;
    let port = free_port();
    let first = rtds(port).await;
    first.find().await.unwrap();
    let envoy = envoy(service.port, port, as_it_is);
    streams(&first, 1).await;
    apply(&first, half()).await;
    drop(first);
    // No controller serves, and the Envoy keeps what it has. The next one waits for what it presents.
    let mut patient = rtds_settings(port);
    patient.learn_for = std::time::Duration::from_secs(12);
    let second = rtds_with(&patient).await;
    let held = Found {
        target: reviews(),
        held: Observed::Managed(half()),
    };
    assert_eq!(second.find().await.unwrap(), [held]);
    apply(&second, RetryState::Original).await;
    assert_eq!(service.attempts_of_a_call(&envoy).await, ON);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn what_no_target_names_any_more_is_restored() {
    let service = Down::start().await;
    let port = free_port();
    let first = rtds(port).await;
    first.find().await.unwrap();
    let envoy = envoy(service.port, port, as_it_is);
    streams(&first, 1).await;
    apply(&first, RetryState::Off).await;
    drop(first);
    let targets = vec![(reviews(), target(&["another-cluster"]))];
    let second = loop {
        let settings = rtds_settings(port);
        match retryguard_controller::adapters::actuator::envoy::Rtds::start(&settings, targets.clone()).await
        {
            Ok(second) => break second,
            Err(_) => pause(50).await,
        }
    };
    assert_eq!(second.find().await.unwrap(), []);
    until("retries are back", || async {
        service.attempts_of_a_call(&envoy).await == ON
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn the_admin_layer_above_is_the_operators_cure() {
    let service = Down::start().await;
    let port = free_port();
    let rtds = rtds(port).await;
    rtds.find().await.unwrap();
    let envoy = envoy(service.port, port, as_it_is);
    streams(&rtds, 1).await;
    apply(&rtds, RetryState::Off).await;
    drop(rtds);
    assert_eq!(service.attempts_of_a_call(&envoy).await, 1);
    // The command of the bootstrap's comment, and of the guide.
    let key = "circuit_breakers.reviews.default.retry_budget";
    let cure = format!(
        "{}/runtime_modify?{key}.budget_percent=100&{key}.min_retry_concurrency=3",
        envoy.admin()
    );
    assert!(client().post(cure).send().await.unwrap().status().is_success());
    assert_eq!(service.attempts_of_a_call(&envoy).await, ON);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn one_that_does_not_lead_refuses_and_lets_go() {
    let service = Down::start().await;
    let port = free_port();
    let rtds = rtds(port).await;
    let envoy = envoy(service.port, port, as_it_is);
    // It was not asked to act: the Envoy starts without it.
    assert_eq!(rtds.details()["phase"], "idle");
    assert_eq!(rtds.details()["streams"], 0);
    rtds.find().await.unwrap();
    streams(&rtds, 1).await;
    apply(&rtds, RetryState::Off).await;
    rtds.stand_down();
    until("the stream is closed", || async {
        rtds.details()["streams"] == 0
    })
    .await;
    // What it said stays, for the new leader to find.
    assert_eq!(service.attempts_of_a_call(&envoy).await, 1);
}
