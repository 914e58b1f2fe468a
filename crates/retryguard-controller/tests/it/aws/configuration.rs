//! Mistakes in the keys of `cloudwatch` and `aws`, which are found without a server.

use std::path::Path;

use retryguard_controller::config::Config;
use retryguard_controller::domain::state::RetryState;
use retryguard_controller::start;

use super::world::change;

fn file(source: &str, actuator: &str, target: &str) -> String {
    format!(
        "sources: {{cloudwatch: {{{source}}}}}\nactuators: {{aws: {{region: eu-west-1{actuator}}}}}\n\
         limits: {{staleAfter: 5m, hold: 10m}}\ntargets: {{orders: {{{target}}}}}"
    )
}

const GOOD: &str = "cloudwatch: {lambda: {}}, aws: {lambda: {}}";

fn mistake(text: &str) -> String {
    Config::parse(text, Path::new(".")).unwrap_err().to_string()
}

#[test]
fn a_good_file_has_none() {
    for target in [
        GOOD,
        "cloudwatch: {dynamodb: {operation: PutItem}}, aws: {ssm: {parameter: /a}}",
        "cloudwatch: {lambda: {function: f}}, aws: {appconfig: {application: a, environment: e, profile: p, strategy: s}}",
    ] {
        Config::parse(&file("", "", target), Path::new(".")).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn each_mistake_says_what_to_write() {
    for (text, wanted) in [
        (
            file("", "", "cloudwatch: {}, aws: {lambda: {}}"),
            "one of lambda, dynamodb, metrics",
        ),
        (
            file("", "", "cloudwatch: {lambda: {}}, aws: {}"),
            "at least one of lambda, ssm, appconfig",
        ),
        (
            file("period: 7s", "", GOOD),
            "1s, 5s, 10s, 20s, 30s or whole minutes",
        ),
        (
            file("endpoint: \"http://me:secret@host\"", "", GOOD),
            "without a name",
        ),
        (file("", ", owner: a/b", GOOD), "letters, digits"),
        (
            file(
                "",
                "",
                "cloudwatch: {lambda: {}}, aws: {lambda: {functions: [\"f:live\"]}}",
            ),
            "$LATEST",
        ),
        (
            file("", "", "cloudwatch: {lambda: {}}, aws: {ssm: {}}"),
            "the name of a parameter",
        ),
        (
            file(
                "",
                "",
                "cloudwatch: {metrics: {calls: {namespace: a, name: b}}}, aws: {lambda: {}}",
            ),
            "at least one of `rejected`",
        ),
        (
            file("", "", GOOD).replace("staleAfter: 5m, ", ""),
            "staleAfter: 240s",
        ),
        (file("", "", GOOD).replace(", hold: 10m", ""), "hold: 540s"),
    ] {
        let told = mistake(&text);
        assert!(told.contains(wanted), "{wanted}: {told}");
        assert!(!told.contains("secret"), "{told}");
    }
}

#[tokio::test]
async fn one_place_cannot_serve_two_targets() {
    let text = file(
        "",
        "",
        "cloudwatch: {lambda: {}}, aws: {lambda: {functions: [f]}}",
    )
    .replace(
        "targets: {",
        "targets: {users: {cloudwatch: {lambda: {}}, aws: {lambda: {functions: [f]}}}, ",
    );
    let config = Config::parse(&text, Path::new(".")).unwrap();
    let Err(error) = start::actuators(&config).await else {
        panic!("started");
    };
    assert!(
        error.to_string().contains("AWS_MAX_ATTEMPTS of f belongs to"),
        "{error}"
    );
}

#[tokio::test]
async fn a_dry_run_says_what_it_would_do() {
    let target = "cloudwatch: {lambda: {}}, aws: {lambda: {functions: [f, g]}, ssm: {parameter: /a}}";
    let config = Config::parse(&file("", "", target), Path::new(".")).unwrap();
    let actuator = start::actuators(&config).await.unwrap().pop().unwrap();
    assert_eq!(
        actuator.describe(&change("orders", RetryState::Off)),
        "set the variable AWS_MAX_ATTEMPTS of f, the variable AWS_MAX_ATTEMPTS of g, the parameter /a to 1 attempt"
    );
}
