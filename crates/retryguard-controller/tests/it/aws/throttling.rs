//! The emulators never say that there are too many questions; the way to them does.

use std::sync::Arc;

use retryguard_controller::domain::state::{Observed, RetryState};
use retryguard_controller::reconcile::actuator::ActuatorError;
use retryguard_parts::{Aws, AwsKind};

use super::world::{Failure, World, apply, found, try_apply, with_source};

const TARGETS: &str =
    "  orders: {aws: {lambda: {functions: [writer]}}}\n  users: {aws: {ssm: {parameter: /users}}}";

/// As Lambda says it.
const TOO_MANY: Failure = Failure {
    status: 429,
    kind: "TooManyRequestsException",
    body: "{\"message\":\"Rate exceeded\"}",
};

/// As the Systems Manager says it: its status is that of a wrong question.
const THROTTLED: Failure = Failure {
    status: 400,
    kind: "ThrottlingException",
    body: "{\"__type\":\"ThrottlingException\",\"message\":\"Rate exceeded\"}",
};

const BROKEN: Failure = Failure {
    status: 503,
    kind: "",
    body: "",
};

#[tokio::test]
#[ignore = "needs Moto"]
async fn who_is_told_to_slow_down_comes_back_and_not_for_ever() {
    let world = World::start(AwsKind::Moto).await;
    world
        .create_function("writer", &[("AWS_MAX_ATTEMPTS", "5")])
        .await;
    world.put_parameter("/users", "5").await;
    let actuator = world.actuator(TARGETS).await;
    for (target, failure) in [("orders", TOO_MANY), ("users", THROTTLED), ("orders", BROKEN)] {
        world.way.fail(3, failure);
        apply(&*actuator, target, RetryState::Off).await;
        apply(&*actuator, target, RetryState::Original).await;
    }

    // The SDK's own retries are off: six requests are our six attempts, and no layer multiplies them.
    for (target, failure) in [("orders", TOO_MANY), ("users", THROTTLED)] {
        world.way.count();
        world.way.fail(100, failure);
        let error = try_apply(&*actuator, target, RetryState::Off).await.unwrap_err();
        assert!(matches!(error, ActuatorError::Busy { .. }), "{error}");
        assert_eq!(world.way.count(), 6);
        world.way.fail(0, failure);
    }
    assert_eq!(world.variables("writer").await["AWS_MAX_ATTEMPTS"], "5");
    assert_eq!(found(&*actuator).await, []);
}

#[tokio::test]
#[ignore = "needs Moto"]
async fn a_refusal_is_not_asked_again() {
    let world = World::start(AwsKind::Moto).await;
    let denied = Failure {
        status: 403,
        kind: "AccessDeniedException",
        body: "{\"Message\":\"not authorized to perform lambda:GetFunctionConfiguration\"}",
    };
    let actuator = world.actuator(TARGETS).await;
    world.way.count();
    world.way.fail(100, denied);
    let error = try_apply(&*actuator, "orders", RetryState::Off)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    assert_eq!(world.way.count(), 1);
}

#[tokio::test]
#[ignore = "needs Moto"]
async fn a_service_that_is_gone_is_told_as_silent() {
    let emulator = tokio::task::spawn_blocking(|| Aws::start(AwsKind::Moto))
        .await
        .unwrap();
    let emulator = Arc::new(emulator);
    let world = World::of(Arc::clone(&emulator)).await;
    world
        .create_function("writer", &[("AWS_MAX_ATTEMPTS", "5")])
        .await;
    let text = format!(
        "sources: {{prometheus: {{url: \"http://127.0.0.1:1\"}}}}\nactuators: {{aws: {{{}}}}}\ntargets:\n{}",
        world.reach_at(&world.aws.url()),
        with_source(TARGETS)
    );
    let actuators = retryguard_controller::start::actuators(&super::world::config(&text)).await;
    let actuator = actuators.unwrap().pop().unwrap();
    apply(&*actuator, "orders", RetryState::Off).await;
    assert_eq!(
        found(&*actuator).await,
        [("orders".to_owned(), Observed::Managed(RetryState::Off))]
    );
    drop(world);
    Arc::into_inner(emulator).unwrap().process().kill();
    let error = actuator.find().await.unwrap_err();
    assert!(matches!(error, ActuatorError::Unreachable { .. }), "{error}");
}
