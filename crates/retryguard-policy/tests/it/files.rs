//! Every file in `policies/` is a policy, and says what it is there to say.

use std::time::Duration;

use retryguard_core::{Ratio, backoff};
use retryguard_policy::{Policy, lint};

use crate::policy_file;

#[test]
fn every_file_in_the_folder_parses_and_is_named_here() {
    let path = format!("{}/../../policies", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["default.yaml", "microservices.yaml", "three-layers.yaml"]);
    for name in names {
        let text = policy_file(&name);
        Policy::parse(&text).unwrap_or_else(|mistakes| panic!("{name}:\n{mistakes}"));
        lint(&text).unwrap_or_else(|mistakes| panic!("{name}:\n{mistakes}"));
    }
}

/// The flat keys, as a ConfigMap in the field carries them.
#[test]
fn the_flat_form_means_what_it_says() {
    let policy = Policy::parse(&policy_file("microservices.yaml")).unwrap();
    let retries = |name: &str| policy.service(name).target.call.retries;
    assert_eq!(retries("payment-service"), 2);
    assert_eq!(retries("inventory-service"), 5);
    assert_eq!(retries("notification-service"), 1);
    assert_eq!(retries("unlisted"), 3);
    assert!(!policy.gateway_retries());

    let backoff = |name: &str| policy.service(name).target.call.backoff;
    let payment = backoff("payment-service");
    assert_eq!(payment.initial, Duration::from_millis(200));
    assert_eq!(payment.cap, Duration::from_secs(10));
    let half_to_one_and_a_half = backoff::Jitter::Factor {
        low: Ratio::percent(50),
        high: Ratio::percent(150),
    };
    assert_eq!(payment.jitter, half_to_one_and_a_half);
    assert_eq!(payment.growth, backoff::Growth::Exponential(Ratio::percent(200)));
    assert_eq!(backoff("inventory-service").cap, Duration::from_secs(30));
    assert_eq!(backoff("inventory-service").initial, Duration::from_millis(100));

    // What it does not speak of is on all the same.
    let target = &policy.service("payment-service").target;
    assert!(target.budget.is_some() && target.guard.is_some() && target.breaker.is_some());
}

#[test]
fn services_are_listed_by_name() {
    let policy = Policy::parse(&policy_file("microservices.yaml")).unwrap();
    let names: Vec<&str> = policy.services().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["inventory-service", "notification-service", "payment-service"]
    );
    assert_eq!(policy.service("payment-service").name, "payment-service");
    assert_eq!(policy.service("unlisted").name, "unlisted");
}
