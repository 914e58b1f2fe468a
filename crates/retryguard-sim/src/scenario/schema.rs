//! The JSON schema of a scenario file, from the reader itself.

use retryguard_policy::reading::Shape;

use super::scenario;

/// Examples that together write every block of a scenario, in every form that it has.
const EXAMPLES: [&str; 3] = [
    include_str!("schema/workers.yaml"),
    include_str!("schema/capacity.yaml"),
    include_str!("schema/instances.yaml"),
];

/// The shape of a scenario file.
///
/// # Panics
/// Where an example has mistakes, which a test rules out.
#[must_use]
pub fn shape() -> Shape {
    let mut shape = Shape::default();
    for example in EXAMPLES {
        let read = shape.add(example, |root, mistakes| {
            let mut load = |path: &str| Err(format!("{path} is not there"));
            scenario(root, "example", &mut load, mistakes);
        });
        if let Err(mistakes) = read {
            panic!("an example of a scenario has mistakes:\n{mistakes}");
        }
    }
    shape
}

/// The JSON schema of a scenario file, for editors. It knows keys, types and ranges; what needs two keys at once only
/// [`Scenario::parse`](super::Scenario::parse) knows.
#[must_use]
pub fn schema() -> String {
    shape().schema("RetryGuard scenario")
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn docs(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(name)
    }

    #[test]
    fn the_committed_schema_is_the_readers() {
        let path = docs("scenario.schema.json");
        if std::env::var_os("RETRYGUARD_REGENERATE").is_some() {
            fs::write(&path, schema()).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == schema(),
            "docs/scenario.schema.json is out of date: run RETRYGUARD_REGENERATE=1 cargo test -p retryguard-sim schema"
        );
    }

    /// The page is written by hand; a key that it does not name is one that users cannot find.
    #[test]
    fn the_page_names_every_key() {
        let page = fs::read_to_string(docs("scenarios.md")).unwrap();
        let words: Vec<&str> = page
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .collect();
        let missing: Vec<&str> = shape()
            .key_names()
            .into_iter()
            .filter(|key| !words.contains(key))
            .collect();
        assert!(missing.is_empty(), "docs/scenarios.md does not name {missing:?}");
    }
}
