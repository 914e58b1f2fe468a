//! The admin endpoint of real Envoys.

use retryguard_controller::domain::state::{Found, Observed, RetryState};
use retryguard_controller::reconcile::actuator::{Actuator, ActuatorError};
use retryguard_parts::{Envoy, free_port};

use super::world::*;

const ON: u64 = 6;
const PIPED: &str = "outbound|80|v1|reviews.shop.svc.cluster.local";

fn plain(service: u16) -> Envoy {
    // The controller's port is closed: this sidecar has no discovery.
    envoy(service, free_port(), |text| text)
}

async fn modify(envoy: &Envoy, query: &str) {
    let url = format!("{}/runtime_modify?{query}", envoy.admin());
    assert!(client().post(url).send().await.unwrap().status().is_success());
}

fn ours(desired: RetryState) -> Vec<Found> {
    vec![Found {
        target: reviews(),
        held: Observed::Managed(desired),
    }]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn off_and_back_on_a_name_with_pipes() {
    let service = Down::start().await;
    let named = |text: String| {
        text.replace("cluster: reviews\n", &format!("cluster: \"{PIPED}\"\n"))
            .replace("name: reviews\n", &format!("name: \"{PIPED}\"\n"))
    };
    let envoy = envoy(service.port, free_port(), named);
    let actuator = admin(&[envoy.admin()], &[PIPED]);
    assert_eq!(actuator.find().await.unwrap(), []);
    assert_eq!(service.attempts_of_a_call(&envoy).await, ON);
    assert_eq!(apply(&actuator, RetryState::Off).await, Vec::<String>::new());
    assert_eq!(service.attempts_of_a_call(&envoy).await, 1);
    // Again is a success.
    apply(&actuator, RetryState::Off).await;
    assert_eq!(apply(&actuator, half()).await.len(), 2);
    assert!(service.attempts_of_a_call(&envoy).await > 1);
    // One that starts anew finds it.
    let another = admin(&[envoy.admin()], &[PIPED]);
    assert_eq!(another.find().await.unwrap(), ours(half()));
    apply(&another, RetryState::Original).await;
    assert_eq!(service.attempts_of_a_call(&envoy).await, ON);
    let runtime = client()
        .get(format!("{}/runtime", envoy.admin()))
        .send()
        .await
        .unwrap();
    let left = runtime.text().await.unwrap();
    assert!(
        !left.contains("retryguard.") && !left.contains("circuit_breakers"),
        "{left}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn an_envoy_that_restarts_forgets_and_is_seen_to() {
    let service = Down::start().await;
    let mut envoy = plain(service.port);
    let actuator = admin(&[envoy.admin()], &["reviews"]);
    apply(&actuator, RetryState::Off).await;
    assert_eq!(actuator.find().await.unwrap(), ours(RetryState::Off));
    envoy.restart();
    assert_eq!(actuator.find().await.unwrap(), []);
    apply(&actuator, RetryState::Off).await;
    assert_eq!(service.attempts_of_a_call(&envoy).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn an_operators_own_number_is_respected() {
    let service = Down::start().await;
    let envoy = plain(service.port);
    let actuator = admin(&[envoy.admin()], &["reviews"]);
    modify(&envoy, "circuit_breakers.reviews.default.max_retries=2").await;
    let refused = actuator.apply(&change(RetryState::Off)).await.unwrap_err();
    assert!(matches!(refused, ActuatorError::Conflict { .. }), "{refused}");
    modify(&envoy, "circuit_breakers.reviews.default.max_retries=").await;
    apply(&actuator, RetryState::Off).await;
    // An operator gives the cluster a budget while it is off.
    modify(
        &envoy,
        "circuit_breakers.reviews.default.retry_budget.budget_percent=40",
    )
    .await;
    let found = actuator.find().await.unwrap();
    assert!(
        matches!(&found[0].held, Observed::Overridden(what) if what.contains("to 40")),
        "{found:?}"
    );
    assert!(actuator.apply(&change(RetryState::Off)).await.is_err());
    apply(&actuator, RetryState::Original).await;
    let runtime = client()
        .get(format!("{}/runtime", envoy.admin()))
        .send()
        .await
        .unwrap();
    let left = runtime.text().await.unwrap();
    assert!(left.contains("\"40\"") && !left.contains("retryguard."), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn a_cluster_of_a_former_configuration_is_found_and_restored() {
    let service = Down::start().await;
    let envoy = plain(service.port);
    apply(&admin(&[envoy.admin()], &["reviews"]), RetryState::Off).await;
    let settings = retryguard_controller::config::actuator::envoy::Admin {
        addresses: vec![envoy.admin()],
        layer: "admin".to_owned(),
    };
    let later =
        retryguard_controller::adapters::actuator::envoy::Admin::start(&settings, Vec::new()).unwrap();
    assert_eq!(later.find().await.unwrap(), ours(RetryState::Off));
    apply(&later, RetryState::Original).await;
    assert_eq!(service.attempts_of_a_call(&envoy).await, ON);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn one_dead_sidecar_does_not_keep_the_others_from_being_told() {
    let service = Down::start().await;
    let mut envoy = plain(service.port);
    let other = plain(service.port);
    let actuator = admin(&[other.admin(), envoy.admin()], &["reviews"]);
    envoy.process().kill();
    let losses = apply(&actuator, RetryState::Off).await;
    assert!(losses[0].contains("does not answer"), "{losses:?}");
    assert_eq!(service.attempts_of_a_call(&other).await, 1);
    // It comes back with nothing, which is what is reported: the loop tells it again.
    envoy.restart();
    assert_eq!(actuator.find().await.unwrap(), []);
    assert_eq!(apply(&actuator, RetryState::Off).await, Vec::<String>::new());
    assert_eq!(actuator.find().await.unwrap(), ours(RetryState::Off));
    drop((envoy, other));
    let gone = actuator.find().await.unwrap_err();
    assert!(matches!(gone, ActuatorError::Unreachable { .. }), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn an_envoy_without_an_admin_layer_says_what_to_add() {
    let service = Down::start().await;
    let without = |text: String| text.replace("  - name: admin\n    admin_layer: {}\n", "");
    let envoy = envoy(service.port, free_port(), without);
    let refused = admin(&[envoy.admin()], &["reviews"]).find().await.unwrap_err();
    assert!(refused.to_string().contains("admin_layer: {}"), "{refused}");
}
