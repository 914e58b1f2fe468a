//! The reports in `docs/` are what the command writes. With `RETRYGUARD_REGENERATE=1` they are written anew.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let text = |path: &Path| fs::read_to_string(path).expect("a report is text");
    entries
        .map(|entry| entry.expect("the folder can be read").path())
        .map(|path| {
            (
                path.file_name()
                    .expect("a file has a name")
                    .to_string_lossy()
                    .into_owned(),
                text(&path),
            )
        })
        .collect()
}

/// Runs the command as the page says that it was run, from the root of the repository.
fn compare(world: &str, name: &str) {
    let committed = root().join("docs/evidence").join(name);
    let anew = std::env::var_os("RETRYGUARD_REGENERATE").is_some();
    let folder = if anew {
        committed.clone()
    } else {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("generated")
            .join(name)
    };
    // What an older report had and this one has not must not stay behind.
    let _ = fs::remove_dir_all(&folder);
    let output = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .current_dir(root())
        .args(["simulate", world, "--out"])
        .arg(&folder)
        .output()
        .expect("the command starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (found, written) = (files(&folder), files(&committed));
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&found),
        names(&written),
        "docs/evidence/{name} holds other files"
    );
    for (file, text) in &found {
        assert!(
            *text == written[file],
            "docs/evidence/{name}/{file} is old: run the tests of retryguard-cli once with RETRYGUARD_REGENERATE=1"
        );
    }
}

#[test]
fn table_1_on_aws() {
    compare("scenarios/table1-aws.yaml", "table1-aws");
}

#[test]
fn table_1_on_istio() {
    compare("evidence/scenarios/table1-istio.yaml", "table1-istio");
}

#[test]
fn the_tournament() {
    compare("tournament", "tournament");
}
