//! Links between pages, the table of contents of the book, and the files that ARCHITECTURE.md names.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::bail;

use crate::pages;

const CONTENTS: &str = "docs/SUMMARY.md";

/// Fails on a link that leads nowhere, on a page that the book does not list, and on a file of ARCHITECTURE.md that does not exist.
///
/// # Errors
/// With every such place.
pub fn check() -> anyhow::Result<()> {
    let pages = pages::all()?;
    let mut wrong = Vec::new();
    for (path, text) in &pages {
        wrong.extend(broken(
            path,
            text,
            &|target| pages::root().join(target).exists(),
            &pages,
        ));
    }
    wrong.extend(unlisted(&pages));
    if let Some((_, text)) = pages.iter().find(|(path, _)| path == "ARCHITECTURE.md") {
        wrong.extend(
            named_files(text)
                .into_iter()
                .filter(|file| !pages::root().join(file).exists())
                .map(|file| format!("ARCHITECTURE.md names {file}, which does not exist")),
        );
    }
    if !wrong.is_empty() {
        bail!("links:\n  {}", wrong.join("\n  "));
    }
    eprintln!("== links: every one leads somewhere");
    Ok(())
}

/// The links of a page that lead nowhere. A page of the book links to other pages of the book only: nothing else is in it.
fn broken(path: &str, text: &str, exists: &dyn Fn(&Path) -> bool, pages: &[(String, String)]) -> Vec<String> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut wrong = Vec::new();
    for (line, link) in links(text) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = link
            .split_once('#')
            .map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
        let target = if file.is_empty() {
            PathBuf::from(path)
        } else {
            normal(&folder.join(file))
        };
        if !exists(&target) {
            wrong.push(format!("{path}:{line}: {link} does not exist"));
            continue;
        }
        if path.starts_with("docs/") && !target.starts_with("docs") {
            wrong.push(format!(
                "{path}:{line}: {link} is not in the book: name the path, or link to the repository"
            ));
        }
        let page = pages.iter().find(|(known, _)| Path::new(known) == target);
        if let (Some(anchor), Some((_, text))) = (anchor, page)
            && !anchors(text).contains(anchor)
        {
            wrong.push(format!("{path}:{line}: {link}: no heading of that name"));
        }
    }
    wrong
}

/// Inline links with their lines, outside code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for rest in plain.split("](").skip(1) {
            if let Some((link, _)) = rest.split_once(')') {
                found.push((index + 1, link.split(' ').next().unwrap_or_default().to_owned()));
            }
        }
    }
    found
}

/// The names by which headings are linked to, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

/// A path without `..` and `.`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Pages under `docs/` that the table of contents leaves out.
fn unlisted(pages: &[(String, String)]) -> Vec<String> {
    let contents = pages.iter().find(|(path, _)| path == CONTENTS);
    let listed: BTreeSet<String> = contents
        .iter()
        .flat_map(|(_, text)| links(text))
        .map(|(_, link)| format!("docs/{link}"))
        .collect();
    pages
        .iter()
        .map(|(path, _)| path)
        .filter(|path| path.starts_with("docs/") && *path != CONTENTS && !listed.contains(*path))
        .map(|path| format!("{path} is not in {CONTENTS}"))
        .collect()
}

/// What stands in backticks and is the path of a file or a folder of this repository.
fn named_files(text: &str) -> Vec<String> {
    let roots = [
        "crates/",
        "evidence/",
        "xtask/",
        "parts/",
        "docs/",
        "deploy/",
        "fuzz/",
        "scenarios/",
        "models/",
        "policies/",
    ];
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| roots.iter().any(|root| name.starts_with(root)))
        .filter(|name| !name.contains(['*', ' ', '{', '…']))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Vec<(String, String)> {
        vec![
            ("docs/SUMMARY.md".to_owned(), "- [A](a.md)\n".to_owned()),
            (
                "docs/a.md".to_owned(),
                "# A b: c\n[x](#a-b-c) [y](b.md#none) [z](../README.md) [w](no.md)\n```\n[v](no.md)\n```\n"
                    .to_owned(),
            ),
            ("docs/b.md".to_owned(), "# B\n".to_owned()),
            ("README.md".to_owned(), String::new()),
        ]
    }

    #[test]
    fn a_broken_link_is_named_with_its_line() {
        let pages = pages();
        let exists = |target: &Path| pages.iter().any(|(path, _)| Path::new(path) == target);
        let found = broken(&pages[1].0, &pages[1].1, &exists, &pages);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].contains("b.md#none") && found[0].contains("no heading"),
            "{found:?}"
        );
        assert!(found[1].contains("not in the book"), "{found:?}");
        assert!(found[2].starts_with("docs/a.md:2: no.md"), "{found:?}");
    }

    #[test]
    fn a_page_that_is_not_listed_is_named() {
        assert_eq!(unlisted(&pages()), ["docs/b.md is not in docs/SUMMARY.md"]);
    }

    #[test]
    fn files_are_read_from_backticks() {
        let text = "see `crates/a/src/b.rs` and `Call`, `crates/*` and `xtask/src/main.rs`";
        assert_eq!(named_files(text), ["crates/a/src/b.rs", "xtask/src/main.rs"]);
    }
}
