use std::collections::BTreeMap;

use aws_sdk_lambda::primitives::Blob;
use retryguard_controller::adapters::actuator::aws::lambda;
use retryguard_controller::domain::state::{Observed, RetryState};
use retryguard_controller::reconcile::actuator::ActuatorError;
use retryguard_parts::AwsKind;

use super::world::{RAMP, World, apply, change, found, try_apply};

const ORDERS: &str = "  orders: {aws: {lambda: {functions: [writer]}}}";

/// The user's variables, of which one is a secret.
const USERS: [(&str, &str); 3] = [
    ("AWS_MAX_ATTEMPTS", "5"),
    ("PASSWORD", "hunter2"),
    ("STRANGE", "a=b;\"c\" \u{e9}"),
];

fn map(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    owned.collect()
}

/// The life of an environment: off, up the ramp, and back to what it was, on both emulators.
async fn life(kind: AwsKind) {
    let world = World::start(kind).await;
    world.create_function("writer", &USERS).await;
    let actuator = world.actuator(ORDERS).await;
    assert_eq!(found(&*actuator).await, []);
    let losses = apply(&*actuator, "orders", RetryState::Off).await;
    assert!(
        losses.iter().any(|loss| loss.0.contains("cold starts")),
        "{losses:?}"
    );
    assert_eq!(
        found(&*actuator).await,
        [("orders".to_owned(), Observed::Managed(RetryState::Off))]
    );
    let mut seen = vec![world.variables("writer").await["AWS_MAX_ATTEMPTS"].clone()];
    for desired in RAMP {
        apply(&*actuator, "orders", desired).await;
        assert_eq!(
            found(&*actuator).await,
            [("orders".to_owned(), Observed::Managed(desired))]
        );
        let now = world.variables("writer").await;
        seen.push(now["AWS_MAX_ATTEMPTS"].clone());
        for (name, value) in &USERS[1..] {
            assert_eq!(now[*name], *value);
        }
    }
    assert_eq!(seen, ["1", "2", "2", "3"]);
    apply(&*actuator, "orders", RetryState::Original).await;
    assert_eq!(world.variables("writer").await, map(&USERS));
    assert_eq!(found(&*actuator).await, []);
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn a_function_goes_off_up_the_ramp_and_back_to_what_it_was() {
    life(AwsKind::Ministack).await;
}

#[tokio::test]
#[ignore = "needs Moto"]
async fn the_same_on_the_other_emulator() {
    life(AwsKind::Moto).await;
}

/// What the function answers. The emulator's process for it may fail to start on a busy machine, which is an answer too.
async fn invoke(world: &World) -> String {
    for _ in 0..60 {
        let answer = world
            .lambda()
            .invoke()
            .function_name("writer")
            .payload(Blob::new("{}"))
            .send()
            .await
            .unwrap();
        let answer = String::from_utf8(answer.payload().unwrap().as_ref().to_vec()).unwrap();
        if !answer.contains("errorMessage") {
            return answer;
        }
        eprintln!("the emulator: {answer}");
        retryguard_controller::clock::sleep(std::time::Duration::from_secs(1)).await;
    }
    panic!("the emulator does not run the function:\n{}", world.aws.log());
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn a_running_function_sees_the_switch() {
    let world = World::start(AwsKind::Ministack).await;
    world
        .create_function("writer", &[("AWS_MAX_ATTEMPTS", "5")])
        .await;
    let actuator = world.actuator(ORDERS).await;
    assert_eq!(invoke(&world).await, "\"5\"");
    apply(&*actuator, "orders", RetryState::Off).await;
    assert_eq!(invoke(&world).await, "\"1\"");
    apply(&*actuator, "orders", RetryState::Original).await;
    assert_eq!(invoke(&world).await, "\"5\"");
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn the_next_controller_after_a_kill_finds_and_restores_also_where_there_was_nothing() {
    let world = World::start(AwsKind::Ministack).await;
    world.create_function("writer", &[]).await;
    world.create_function("reader", &USERS).await;
    let targets = "  orders: {aws: {lambda: {functions: [writer, reader], attempts: 9}}}";
    let killed = world.actuator(targets).await;
    apply(&*killed, "orders", RAMP[2]).await;
    assert_eq!(world.variables("writer").await["AWS_MAX_ATTEMPTS"], "5");
    assert_eq!(world.variables("reader").await["AWS_MAX_ATTEMPTS"], "3");
    drop(killed);
    // The target has another name meanwhile; what was held for the old one is found by it.
    let next = world
        .actuator("  table: {aws: {lambda: {functions: [writer, reader]}}}")
        .await;
    assert_eq!(
        found(&*next).await,
        [("orders".to_owned(), Observed::Managed(RAMP[2]))]
    );
    apply(&*next, "orders", RetryState::Original).await;
    assert_eq!(world.variables("writer").await, BTreeMap::new());
    assert_eq!(world.variables("reader").await, map(&USERS));
    assert_eq!(found(&*next).await, []);
}

/// A user deploys between our read and our write: neither's variables are lost.
#[tokio::test]
#[ignore = "needs Ministack"]
async fn a_change_at_the_same_time_is_noticed_by_its_revision() {
    let world = World::start(AwsKind::Ministack).await;
    world.create_function("writer", &USERS).await;
    let actuator = world.actuator(ORDERS).await;
    let held = world.way.hold_change();
    let off = change("orders", RetryState::Off);
    let user = async {
        let go = held.await.unwrap();
        world
            .set_variables("writer", &[("AWS_MAX_ATTEMPTS", "4"), ("NEW", "yes")])
            .await;
        go.send(()).unwrap();
    };
    let (answer, ()) = tokio::join!(actuator.apply(&off), user);
    answer.unwrap();
    let now = world.variables("writer").await;
    assert_eq!(
        (now["AWS_MAX_ATTEMPTS"].as_str(), now["NEW"].as_str()),
        ("1", "yes")
    );
    apply(&*actuator, "orders", RetryState::Original).await;
    let back = world.variables("writer").await;
    assert_eq!(back, map(&[("AWS_MAX_ATTEMPTS", "4"), ("NEW", "yes")]));
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn what_a_user_sets_while_we_hold_it_stands() {
    let world = World::start(AwsKind::Ministack).await;
    world.create_function("writer", &USERS).await;
    let actuator = world.actuator(ORDERS).await;
    apply(&*actuator, "orders", RetryState::Off).await;
    let mut now = world.variables("writer").await;
    now.insert("AWS_MAX_ATTEMPTS".to_owned(), "8".to_owned());
    let mine: Vec<(&str, &str)> = now
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    world.set_variables("writer", &mine).await;
    assert!(
        matches!(&found(&*actuator).await[..], [(_, Observed::Overridden(what))] if what.contains("it is 8 now"))
    );
    let refused = try_apply(&*actuator, "orders", RAMP[0]).await;
    assert!(
        matches!(refused, Err(ActuatorError::Conflict { .. })),
        "{refused:?}"
    );
    apply(&*actuator, "orders", RetryState::Original).await;
    let after = world.variables("writer").await;
    assert_eq!(after["AWS_MAX_ATTEMPTS"], "8");
    assert!(!after.contains_key(lambda::HELD));
    assert_eq!(found(&*actuator).await, []);
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn what_cannot_be_changed_is_said_without_a_secret() {
    let world = World::start(AwsKind::Ministack).await;
    let actuator = world.actuator(ORDERS).await;
    let missing = try_apply(&*actuator, "orders", RetryState::Off)
        .await
        .unwrap_err();
    assert!(matches!(missing, ActuatorError::Refused { .. }), "{missing}");

    // One byte less than would be too much with ours in it.
    let long = "s".repeat(lambda::MOST_BYTES - 100);
    world.create_function("writer", &[("PASSWORD", &long)]).await;
    let full = try_apply(&*actuator, "orders", RetryState::Off)
        .await
        .unwrap_err();
    assert!(full.to_string().contains("shorten them"), "{full}");

    world
        .set_variables(
            "writer",
            &[("PASSWORD", "hunter2"), (lambda::HELD, "{\"form\":9}")],
        )
        .await;
    let strange = try_apply(&*actuator, "orders", RetryState::Original)
        .await
        .unwrap_err();
    assert!(matches!(strange, ActuatorError::Refused { .. }), "{strange}");
    for error in [missing, full, strange] {
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hunter2") && !text.contains("sss"), "{text}");
    }
}
