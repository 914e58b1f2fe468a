//! Both examples run, and print that the payment was made once and its duplicate replayed.

use std::{path::PathBuf, process::Command};

/// `cargo test` builds the examples of a package before it runs its tests, in a folder beside theirs.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let profile = test.ancestors().nth(2).expect("<profile>/deps/<test>");
    profile.join("examples").join(name)
}

fn check(name: &str) {
    let output = Command::new(program(name)).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{name}: {}\n{text}{errors}",
        output.status
    );
    let promised = "200 OK, replayed: false: paid\n200 OK, replayed: true: paid\npayments: 1, events: 1\n";
    assert_eq!(text, promised, "{name}");
}

#[test]
fn store_diesel() {
    check("store_diesel");
}

#[test]
fn store_sea_orm() {
    check("store_sea_orm");
}
