//! Modules in layers: no two top-level modules of a crate use each other, not even by way of a third.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};

/// Which top-level module uses which, with one file for each edge.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// Fails where a crate under `crates/` has a cycle.
///
/// # Errors
/// With the edges of every cycle.
pub fn check() -> anyhow::Result<()> {
    let mut files: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (path, text) in crate::pages::tracked(|path| path.starts_with("crates/") && path.ends_with(".rs"))? {
        let mut parts = path.splitn(4, '/').skip(1);
        if let (Some(name), Some("src"), Some(file)) = (parts.next(), parts.next(), parts.next()) {
            files
                .entry(name.to_owned())
                .or_default()
                .push((file.to_owned(), text));
        }
    }
    let mut wrong = Vec::new();
    for (name, files) in &files {
        let uses = uses(files).with_context(|| format!("the modules of {name}"))?;
        let cycles = cycles(&uses);
        wrong.extend(
            cycles
                .iter()
                .map(|cycle| format!("{name}: {}", told(cycle, &uses))),
        );
    }
    if !wrong.is_empty() {
        bail!("modules that use each other:\n  {}", wrong.join("\n  "));
    }
    eprintln!("== modules: no cycle in {} crates", files.len());
    Ok(())
}

fn told(cycle: &BTreeSet<String>, uses: &Uses) -> String {
    let edges = cycle.iter().flat_map(|from| {
        uses[from]
            .iter()
            .filter(|(to, _)| cycle.contains(*to))
            .map(move |(to, file)| format!("{from} uses {to} ({file})"))
    });
    edges.collect::<Vec<_>>().join(", ")
}

fn uses(files: &[(String, String)]) -> anyhow::Result<Uses> {
    let is_root = |file: &str| matches!(file, "lib.rs" | "main.rs") || file.starts_with("bin/");
    let modules: Vec<(Vec<String>, &str, &str)> = files
        .iter()
        .filter(|(file, _)| !is_root(file))
        .map(|(file, text)| (module(file), file.as_str(), text.as_str()))
        .filter(|(module, ..)| !module.iter().any(|part| part == "tests"))
        .collect();
    let mut uses = Uses::new();
    for (module, ..) in &modules {
        uses.entry(module.first().context("a file without a module")?.clone())
            .or_default();
    }
    let root = files.iter().find(|(file, _)| file == "lib.rs");
    let exported = root.map_or_else(BTreeMap::new, |(_, text)| exported(&code(text), &uses));
    for (module, file, text) in &modules {
        let text = code(text);
        let own = &module[0];
        let mut named = named(&text, "crate::");
        named.extend(self::named(&text, &"super::".repeat(module.len())));
        for name in named {
            let target = if uses.contains_key(name) {
                Some(name)
            } else {
                exported.get(name).map(String::as_str)
            };
            if let Some(target) = target
                && target != own
            {
                let target = target.to_owned();
                let edges = uses.get_mut(own).context("a module of the list")?;
                edges.entry(target).or_insert_with(|| (*file).to_owned());
            }
        }
    }
    Ok(uses)
}

/// `a/b.rs` and `a/b/mod.rs` are the module `a::b`.
fn module(file: &str) -> Vec<String> {
    let mut parts: Vec<String> = file
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// Without comments and without the tests at the end of the file.
fn code(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code))
        .collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod tests"));
    lines[..tests.unwrap_or(lines.len())].join("\n")
}

/// The names that come directly behind `path`, such as `a` and `b` of `crate::{a::X, b}`.
fn named<'a>(text: &'a str, path: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(path) {
        // `super::super::a` holds `super::a` as well.
        if text[..at].ends_with("::")
            || text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
        {
            continue;
        }
        let rest = &text[at + path.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(members(group).into_iter().map(first)),
            None => {
                found.insert(first(rest));
            }
        }
    }
    found.remove("super");
    found
}

fn first(path: &str) -> &str {
    let path = path.trim_start();
    let end = path.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &path[..end.unwrap_or(path.len())]
}

/// The members of a group up to its closing brace.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0_usize, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' => {
                found.push(&group[begin..at]);
                break;
            }
            ',' if depth == 0 => {
                found.push(&group[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// What the root re-exports, by the module it comes from.
fn exported(root: &str, modules: &Uses) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in root
        .split("pub use ")
        .skip(1)
        .filter_map(|rest| rest.split(';').next())
    {
        let from = first(statement);
        if !modules.contains_key(from) {
            continue;
        }
        let group = statement.split_once('{').map(|(_, group)| members(group));
        for member in group.unwrap_or_else(|| vec![statement]) {
            // The name that users see: behind `as`, or the last of the path.
            let name = member.rsplit([' ', ':']).next().unwrap_or(member);
            found.insert(name.trim().to_owned(), from.to_owned());
        }
    }
    found
}

/// Sets of modules each of which reaches all others of its set.
fn cycles(uses: &Uses) -> BTreeSet<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|from| (from, reached(from, uses))).collect();
    reach
        .iter()
        .filter(|(from, reached)| reached.contains(**from))
        .map(|(from, reached)| {
            let back = reached.iter().filter(|to| reach[**to].contains(*from));
            back.map(|to| (*to).clone()).collect()
        })
        .collect()
}

fn reached<'a>(from: &str, uses: &'a Uses) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = uses[from].keys().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(uses[next].keys());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<_> = files
            .iter()
            .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
            .collect();
        let uses = uses(&files).unwrap();
        cycles(&uses)
            .into_iter()
            .map(|cycle| cycle.into_iter().collect())
            .collect()
    }

    #[test]
    fn a_cycle_is_found_through_groups_parents_and_re_exports() {
        let root = "pub use c::{Thing, deep::Other as Shown};\n";
        assert_eq!(
            found(&[
                ("lib.rs", root),
                ("a.rs", "use crate::{\n    std_like,\n    b::{X, Y},\n};\n"),
                ("b/mod.rs", "mod inner;\n"),
                ("b/inner.rs", "use super::super::c::Thing;\n"),
                ("c.rs", "use crate::Shown;\nfn f() { crate::a::g(); }\n"),
            ]),
            [["a", "b", "c"]]
        );
    }

    #[test]
    fn layers_tests_and_comments_are_no_cycle() {
        let none: [[&str; 0]; 0] = [];
        assert_eq!(
            found(&[
                ("lib.rs", "pub use a::X;\n"),
                (
                    "a.rs",
                    "// see crate::b\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n"
                ),
                ("b.rs", "use crate::X;\nuse super::a;\nmod inner;\n"),
                ("b/inner.rs", "use super::b_of_parent;\n"),
                ("b/tests.rs", "use crate::c;\n"),
                ("c.rs", "use crate::b;\n"),
            ]),
            none
        );
    }
}
