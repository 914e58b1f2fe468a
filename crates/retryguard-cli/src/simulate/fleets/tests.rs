use std::path::{Path, PathBuf};

use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn outcome(name: &str) -> Outcome {
    let text = fs::read_to_string(root().join("evidence/scenarios").join(name)).unwrap();
    run(Fleets::parse(&text, name).unwrap(), 1, None)
}

/// Every claim of the file holds, and the committed report is what the file gives.
fn compare(name: &str, folder: &str) {
    let outcome = outcome(name);
    for found in &outcome.results {
        assert!(!found.claims.is_empty(), "{} claims nothing", found.plan.name);
        for (claim, value) in &found.claims {
            assert!(
                Found::holds(claim, *value),
                "{}: {claim:?}, found {value}",
                found.plan.name
            );
        }
    }
    for (file, text) in page::files(&outcome, &format!("evidence/scenarios/{name}")) {
        let committed = fs::read_to_string(root().join(folder).join(&file)).unwrap_or_default();
        assert!(
            committed == text,
            "{folder}/{file} is stale: run `cargo run --release -- simulate evidence/scenarios/{name} --out {folder}`"
        );
    }
}

#[test]
fn every_plot_of_the_slides() {
    compare("safe-clients.yaml", "docs/evidence/safe-clients");
}

#[test]
fn two_billion_devices_for_a_day() {
    compare(
        "safe-clients-two-billion.yaml",
        "docs/evidence/safe-clients/two-billion",
    );
}

fn small() -> Outcome {
    let text = "
clients: 100
fleets:
  - {name: one, pace: fixed, start: at-once, duration: 10m, expect: [{until: 1s, rate: 300, within: 0}]}
  - {name: two, duration: 10m, failures: [{share: 50%}], expect: [{until: 10m, rate: 7, within: 0.1}]}
";
    run(Fleets::parse(text, "small").unwrap(), 3, Some(4))
}

#[test]
fn the_table_says_which_claims_do_not_hold() {
    let table = print::table(&small());
    assert!(
        table.contains("1 of 1 hold") && table.contains("0 of 1 hold"),
        "{table}"
    );
    assert!(table.contains("two: 0–600 s: 7 ± 0.1, found 1.0000"), "{table}");
}

#[test]
fn the_json_has_the_keys_of_every_simulation() {
    let json = print::json(&small());
    assert_eq!(json["seed"], 3);
    let [one, two] = json["policies"].as_array().unwrap().as_slice() else {
        unreachable!("two fleets")
    };
    assert_eq!(
        (&one["name"], &one["calls"]["mean"]),
        (&serde_json::json!("one"), &serde_json::json!(200.0))
    );
    assert_eq!(one["expect"][0]["holds"], true);
    assert_eq!(two["expect"][0]["holds"], false);
    let [low, high] = [0, 1].map(|end| two["rejectionRate"]["ci95"][end].as_f64().unwrap());
    assert!(low < 0.5 && 0.5 < high && high - low < 0.2, "{low} {high}");
}

#[test]
fn the_csv_adds_up() {
    let csv = print::csv(&small());
    let ones: u64 = csv
        .lines()
        .filter(|line| line.starts_with("one,"))
        .map(|line| line.split(',').nth(2).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(ones, 200);
}

#[test]
fn a_fleet_is_chosen_by_name() {
    let mut file = small().file;
    choose(&mut file, &["two".to_owned()]).unwrap();
    assert_eq!(file.fleets.len(), 1);
    let said = choose(&mut file, &["three".to_owned()]).unwrap_err().to_string();
    assert_eq!(said, "there is no fleet three: the file has two");
}
