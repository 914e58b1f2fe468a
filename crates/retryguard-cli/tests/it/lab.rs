//! `retryguard lab run`, as it is used from outside.

use std::process::{Command, Output};

use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .arg("lab")
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn run<'r>(runs: &'r Value, configuration: &str, fault: &str) -> &'r Value {
    runs["runs"]
        .as_array()
        .and_then(|all| {
            all.iter()
                .find(|run| run["configuration"] == configuration && run["fault"] == fault)
        })
        .unwrap_or_else(|| panic!("no run of {configuration} under {fault}"))
}

/// Three attempts pay more than one where errors come anyway. A machine that was too busy for a run is asked again, with more
/// time for each order.
#[test]
fn retries_mend_errors_that_do_not_depend_on_load() {
    let mut refused = Vec::new();
    for scale in ["0.5", "1", "1"] {
        let output = lab(&[
            "run",
            "--config",
            "A,B",
            "--fault",
            "payment_errors",
            "--time-scale",
            scale,
            "--phases",
            "3+15+0",
            "--at-once",
            "2",
            "--json",
        ]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let runs: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let success =
            |configuration: &str| run(&runs, configuration, "payment_errors")["figures"]["success"].as_f64();
        if let (Some(one), Some(three)) = (success("A"), success("B")) {
            assert!(three > one, "three attempts: {three}, one: {one}");
            return;
        }
        refused.push(runs["runs"].to_string());
    }
    panic!("no run kept its load: {refused:#?}");
}

#[test]
fn wrong_flags_are_told_what_to_write() {
    for (arguments, told) in [
        (["run", "--config", "H"], "A, B, C, D, E, F and G"),
        (["run", "--config", "F..B"], "names no configuration"),
        (["run", "--fault", "kill"], "gateway_overload"),
        (["run", "--phases", "20+120"], "20+120+60"),
        (["run", "--time-scale", "0.001"], "0.02"),
        (["run", "--at-once", "17"], "16"),
    ] {
        let output = lab(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(told), "{arguments:?}: {said}");
    }
}

#[test]
fn real_stores_want_their_addresses_or_another_build() {
    let output = lab(&["run", "--stores", "real"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let told = if cfg!(feature = "lab-real") {
        "--postgres"
    } else {
        // The flag is not there, so that `--help` shows what the program can do.
        "unexpected argument '--stores'"
    };
    assert!(said.contains(told), "{said}");
}
