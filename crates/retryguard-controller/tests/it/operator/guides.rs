//! What the guides have their reader write into files is what the controller reads.

use std::path::Path;

use retryguard_controller::config::Config;
use retryguard_policy::Policy;

/// The files that the pages have their reader write: the page, the name, the text.
fn files() -> Vec<(String, String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let page = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some((name, end)) = line
                .strip_prefix("cat > ")
                .and_then(|rest| rest.split_once(" <<'"))
            else {
                continue;
            };
            let end = end.trim_end_matches('\'');
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
            all.push((page.clone(), name.to_owned(), body.join("\n") + "\n"));
        }
    }
    all
}

#[test]
fn the_configurations_that_guides_have_written_are_right() {
    let files = files();
    let configurations = files
        .iter()
        .filter(|(_, name, _)| name.ends_with("/controller.yaml"));
    let mut pages = Vec::new();
    for (page, name, text) in configurations {
        if let Err(wrong) = Config::parse(text, Path::new(name).parent().unwrap()) {
            panic!("{page}, {name}: {wrong}");
        }
        pages.push(page.as_str());
    }
    pages.sort_unstable();
    // The Istio guide's is a file of its own, which a test of its manifests reads.
    assert_eq!(
        pages,
        ["aws.md", "envoy.md", "grpc.md", "haproxy.md", "policy-server.md"]
    );
}

#[test]
fn the_policies_that_guides_have_written_are_right() {
    let files = files();
    let policies = files.iter().filter(|(_, name, _)| name.contains("/policies/"));
    let mut found = 0;
    for (page, name, text) in policies {
        if let Err(wrong) = Policy::parse(text) {
            panic!("{page}, {name}: {wrong}");
        }
        found += 1;
    }
    assert_eq!(found, 1);
}
