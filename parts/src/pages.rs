//! Files of the repository that the code generates.

use std::path::{Path, PathBuf};

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Demands that a committed file, named from the root of the repository, is the generated text. With
/// `RETRYGUARD_REGENERATE=1` the file is written anew instead.
///
/// # Panics
/// Where the two differ, or where the file cannot be written.
#[track_caller]
pub fn committed(file: &str, text: &str) {
    let path = root().join(file);
    if std::env::var_os("RETRYGUARD_REGENERATE").is_some() {
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {file}: {error}"));
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "{file} is out of date: run this test with RETRYGUARD_REGENERATE=1"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_compared_from_the_root() {
        let manifest = std::fs::read_to_string(root().join("parts/Cargo.toml")).unwrap();
        committed("parts/Cargo.toml", &manifest);
    }

    #[test]
    #[should_panic(expected = "parts/none.md is out of date")]
    fn a_file_that_is_not_there_is_out_of_date() {
        if std::env::var_os("RETRYGUARD_REGENERATE").is_some() {
            panic!("parts/none.md is out of date, and is not written");
        }
        committed("parts/none.md", "text");
    }
}
