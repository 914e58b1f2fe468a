use retryguard_controller::domain::state::{Observed, RetryState};
use retryguard_parts::AwsKind;

use super::world::{RAMP, World, apply, found, try_apply};

const ORDERS: &str = "  orders: {aws: {ssm: {parameter: /shop/max-attempts, attempts: 4}}}";
const RECORD: &str = "/retryguard/held/retryguard/shop/max-attempts";

async fn life(kind: AwsKind) {
    let world = World::start(kind).await;
    let actuator = world.actuator(ORDERS).await;
    for original in [Some("10"), None] {
        if let Some(original) = original {
            world.put_parameter("/shop/max-attempts", original).await;
        }
        let mut seen = Vec::new();
        for desired in [RetryState::Off, RAMP[0], RAMP[1], RAMP[2]] {
            apply(&*actuator, "orders", desired).await;
            seen.push(world.parameter("/shop/max-attempts").await.unwrap());
            assert_eq!(
                found(&*actuator).await,
                [("orders".to_owned(), Observed::Managed(desired))]
            );
        }
        let ramp = if original.is_some() {
            ["1", "3", "4", "6"]
        } else {
            ["1", "2", "2", "3"]
        };
        assert_eq!(seen, ramp);
        apply(&*actuator, "orders", RetryState::Original).await;
        assert_eq!(world.parameter("/shop/max-attempts").await.as_deref(), original);
        assert_eq!(world.parameter(RECORD).await, None);
        assert_eq!(found(&*actuator).await, []);
        if original.is_some() {
            world
                .ssm()
                .delete_parameter()
                .name("/shop/max-attempts")
                .send()
                .await
                .unwrap();
        }
    }
}

#[tokio::test]
#[ignore = "needs Moto"]
async fn a_parameter_goes_off_up_the_ramp_and_back_also_where_there_was_none() {
    life(AwsKind::Moto).await;
}

#[tokio::test]
#[ignore = "needs Ministack"]
async fn the_same_on_the_other_emulator() {
    life(AwsKind::Ministack).await;
}

/// The record and the value cannot be written at once. A controller that is killed between the two leaves one of these states.
#[tokio::test]
#[ignore = "needs Moto"]
async fn killed_at_any_point_it_is_found_and_given_back() {
    let world = World::start(AwsKind::Moto).await;
    world.put_parameter("/shop/max-attempts", "10").await;
    let killed = world.actuator(ORDERS).await;
    apply(&*killed, "orders", RetryState::Off).await;
    let off = world.parameter(RECORD).await.unwrap();
    apply(&*killed, "orders", RAMP[2]).await;
    let half = world.parameter(RECORD).await.unwrap();
    drop(killed);
    // (record, value): before the first write of a value, before the second, after it, and given back but not forgotten.
    let states = [
        (&off, "10", None),
        (&half, "1", Some(RetryState::Off)),
        (&half, "6", Some(RAMP[2])),
        (&off, "10", None),
    ];
    for (record, value, held) in states {
        world.put_parameter(RECORD, record).await;
        world.put_parameter("/shop/max-attempts", value).await;
        let next = world.actuator(ORDERS).await;
        let expected: Vec<_> = held
            .map(|desired| ("orders".to_owned(), Observed::Managed(desired)))
            .into_iter()
            .collect();
        assert_eq!(found(&*next).await, expected, "{value}");
        apply(&*next, "orders", RetryState::Off).await;
        assert_eq!(world.parameter("/shop/max-attempts").await.unwrap(), "1");
        apply(&*next, "orders", RetryState::Original).await;
        assert_eq!(world.parameter("/shop/max-attempts").await.unwrap(), "10");
        assert_eq!(world.parameter(RECORD).await, None);
    }
}

#[tokio::test]
#[ignore = "needs Moto"]
async fn what_a_former_configuration_held_is_found_by_its_name_and_another_owners_is_not() {
    let world = World::start(AwsKind::Moto).await;
    world.put_parameter("/shop/max-attempts", "10").await;
    let former = world.actuator(ORDERS).await;
    apply(&*former, "orders", RetryState::Off).await;
    world
        .put_parameter("/retryguard/held/other/theirs", "{\"form\":1}")
        .await;
    let next = world
        .actuator("  users: {aws: {ssm: {parameter: /shop/users}}}")
        .await;
    assert_eq!(
        found(&*next).await,
        [("orders".to_owned(), Observed::Managed(RetryState::Off))]
    );
    assert!(
        try_apply(&*next, "orders", RAMP[0]).await.is_err(),
        "only to be given back"
    );
    apply(&*next, "orders", RetryState::Original).await;
    assert_eq!(world.parameter("/shop/max-attempts").await.unwrap(), "10");
    assert_eq!(found(&*next).await, []);
}

#[tokio::test]
#[ignore = "needs Moto"]
async fn a_secret_parameter_is_not_touched() {
    let world = World::start(AwsKind::Moto).await;
    world
        .ssm()
        .put_parameter()
        .name("/shop/max-attempts")
        .value("hunter2")
        .r#type(aws_sdk_ssm::types::ParameterType::SecureString)
        .send()
        .await
        .unwrap();
    let actuator = world.actuator(ORDERS).await;
    let error = try_apply(&*actuator, "orders", RetryState::Off)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("not of the type String") && !error.contains("hunter2"),
        "{error}"
    );
}

#[tokio::test]
#[ignore = "needs Moto"]
async fn what_a_user_sets_while_we_hold_it_stands() {
    let world = World::start(AwsKind::Moto).await;
    world.put_parameter("/shop/max-attempts", "10").await;
    let actuator = world.actuator(ORDERS).await;
    apply(&*actuator, "orders", RetryState::Off).await;
    world.put_parameter("/shop/max-attempts", "7").await;
    let held = found(&*actuator).await;
    assert!(
        matches!(&held[..], [(_, Observed::Overridden(what))] if what.contains('7')),
        "{held:?}"
    );
    assert!(try_apply(&*actuator, "orders", RAMP[0]).await.is_err());
    apply(&*actuator, "orders", RetryState::Original).await;
    assert_eq!(world.parameter("/shop/max-attempts").await.as_deref(), Some("7"));
    assert_eq!(world.parameter(RECORD).await, None);
    assert_eq!(found(&*actuator).await, []);
}
