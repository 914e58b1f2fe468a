//! The pages of features and attacks: each row names a test that exists.

use std::path::Path;

#[test]
fn every_row_of_the_feature_page_names_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/library-features.md")).unwrap();
    let mut shown = 0;
    for row in page.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 7, "{row}");
        if cells[1] == "**no**" {
            assert_eq!(cells[6], "–", "{row}");
            continue;
        }
        let (name, path) = cells[6]
            .trim_matches('`')
            .split_once("` in `")
            .unwrap_or_else(|| panic!("no test in {row}"));
        let source =
            std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(source.contains(&format!("fn {name}(")), "{path} has no `{name}`");
        shown += 1;
    }
    assert!(shown > 20, "{shown}");
}

#[test]
fn every_row_of_the_page_of_attacks_names_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/library-attacks.md")).unwrap();
    let rows: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(2)
        .collect();
    assert!(rows.len() >= 30, "{}", rows.len());
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{row}");
        let (name, path) = cells[3].trim_matches('`').split_once("` in `").unwrap();
        let source = std::fs::read_to_string(root.join(path)).unwrap();
        assert!(source.contains(&format!("fn {name}(")), "{path} has no `{name}`");
    }
}
