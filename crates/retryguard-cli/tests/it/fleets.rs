//! `retryguard simulate` with a file of fleets.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn simulate(file: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .arg("simulate")
        .arg(file)
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn slides() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/safe-clients.yaml")
}

/// A place of a test's own under the folder that cargo gives for such things.
fn place(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn one_fleet_of_the_slides() {
    let output = simulate(&slides(), &["--policy", "06-synchronised-by-mistake", "--json"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let json: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let policies = json["policies"].as_array().expect("a list");
    assert_eq!(policies.len(), 1);
    assert_eq!(policies[0]["peakRate"]["mean"], 300.0);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let with = |seed| {
        simulate(
            &slides(),
            &[
                "--policy",
                "08-fixed-retry-jittered-period",
                "--csv",
                "--seed",
                seed,
            ],
        )
    };
    assert_eq!(with("7").stdout, with("7").stdout);
    assert_ne!(with("7").stdout, with("8").stdout);
}

#[test]
fn a_report_is_written_into_a_new_folder() {
    let folder = place("fleets-report").join("deep");
    let file = slides();
    let folder_text = folder.display().to_string();
    let output = simulate(
        &file,
        &["--policy", "04-start-up-oscillation", "--out", &folder_text],
    );
    assert!(output.status.success());
    let page = fs::read_to_string(folder.join("README.md")).expect("a page");
    assert!(page.contains("04-start-up-oscillation.svg") && page.contains("| 440–450 | 1.483 ± 0.06 |"));
    let picture = fs::read_to_string(folder.join("04-start-up-oscillation.svg")).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.contains("claimed"));
}

#[test]
fn mistakes_are_told_with_their_lines() {
    let file = place("fleets-mistakes").join("wrong.yaml");
    fs::write(&file, "fleets:\n  - name: one\n    pase: fixed\n").expect("a file");
    let output = simulate(&file, &[]);
    assert_eq!(output.status.code(), Some(2));
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(talk.contains("wrong.yaml:3:5: unknown key `pase`"), "{talk}");
    assert!(talk.contains("did you mean `pace`?"), "{talk}");
    let output = simulate(&slides(), &["--policy", "17-more"]);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(
        talk.contains("there is no fleet 17-more: the file has 01-synchronised"),
        "{talk}"
    );
}
