//! The layers of the crate: each module uses only modules of its own layer or of one below, and no two modules use each
//! other, directly or through others.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// From the bottom to the top. `clock` and `secret` use nothing of the crate.
const LAYERS: [&str; 8] = [
    "clock",
    "secret",
    "domain",
    "reconcile",
    "config",
    "adapters",
    "start",
    "process",
];

/// The sources, each with its module: the layer, and within it the first part of the path.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("the sources can be listed").path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
    all
}

fn module(path: &[&str]) -> String {
    path.iter().take(2).copied().collect::<Vec<_>>().join("::")
}

/// `crate::a::b` in the text, as `a::b`; a group in braces once for each of its members.
fn uses(text: &str) -> BTreeSet<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let path: String = rest
            .chars()
            .take_while(|letter| letter.is_alphanumeric() || matches!(letter, '_' | ':'))
            .collect();
        let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
        parts.retain(|part| part.chars().next().is_some_and(char::is_lowercase));
        let group = rest[path.len()..]
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'));
        match group {
            Some((members, _)) if parts.len() == 1 => {
                for member in members.split(',') {
                    let member = member.trim().split([' ', ':']).next().unwrap_or_default();
                    if member.chars().next().is_some_and(char::is_lowercase) {
                        found.insert(module(&[parts[0], member]));
                    }
                }
            }
            _ => {
                found.insert(module(&parts));
            }
        }
    }
    found
}

/// Every module and what it uses.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files(&root) {
        let inside = file.strip_prefix(&root).expect("below src").with_extension("");
        let path: Vec<&str> = inside.iter().filter_map(|part| part.to_str()).collect();
        if path == ["lib"] {
            continue;
        }
        let path: Vec<&str> = path.into_iter().filter(|part| *part != "mod").collect();
        let text = fs::read_to_string(&file).expect("a source is text");
        graph.entry(module(&path)).or_default().extend(uses(&text));
    }
    for (module, uses) in &mut graph {
        uses.remove(module);
    }
    graph
}

#[test]
fn each_layer_uses_only_those_below() {
    let place = |module: &str| {
        let layer = module.split("::").next().unwrap_or_default();
        LAYERS.iter().position(|known| *known == layer)
    };
    let mut wrong = Vec::new();
    for (module, uses) in graph() {
        let own = place(&module).unwrap_or_else(|| panic!("{module} belongs to no layer"));
        for used in uses {
            match place(&used) {
                Some(other) if other <= own => {}
                _ => wrong.push(format!("{module} uses {used}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_two_modules_use_each_other() {
    let graph = graph();
    // A layer's own module only lists its children.
    let reach = |from: &str| {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut next = vec![from.to_owned()];
        while let Some(module) = next.pop() {
            for used in graph.get(&module).into_iter().flatten() {
                if seen.insert(used.clone()) {
                    next.push(used.clone());
                }
            }
        }
        seen
    };
    let cycles: Vec<&String> = graph
        .keys()
        .filter(|module| reach(module).contains(*module))
        .collect();
    assert!(cycles.is_empty(), "in a cycle: {cycles:?}");
    assert!(graph.len() > 25, "the sources were read: {:?}", graph.keys());
}

#[test]
fn the_check_sees_a_use_in_each_form() {
    let text = "use crate::domain::target::TargetName;\nuse crate::adapters::{http, source as other};\nlet x = crate::clock::sleep;\n// crate::start::x\n";
    let expected = [
        "adapters::http",
        "adapters::source",
        "clock::sleep",
        "domain::target",
    ];
    assert_eq!(uses(text), expected.map(str::to_owned).into());
}
