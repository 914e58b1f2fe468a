//! The book: built by mdBook, and every link of the built pages followed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};

use crate::shell;

/// The version that the pages are written for; the cache is keyed by it.
const VERSION: &str = "0.4.52";

/// Builds the book and checks its links.
///
/// # Errors
/// Where it cannot be built, or a link leads nowhere.
pub fn check() -> anyhow::Result<()> {
    let program = installed()?;
    let target = std::path::absolute(shell::target().join("book"))?;
    shell::step(
        "book",
        &program.display().to_string(),
        &["build", "--dest-dir", &target.display().to_string()],
    )?;
    let mut pages = BTreeMap::new();
    read(&target, &target, &mut pages)?;
    let wrong = broken(&pages, &|path| target.join(path).exists());
    if !wrong.is_empty() {
        bail!("links of the built book:\n  {}", wrong.join("\n  "));
    }
    eprintln!("== book: the links of {} pages lead somewhere", pages.len());
    Ok(())
}

/// mdBook on the `PATH`, or in the user's cache, where it is built once: without its web server, and not optimised.
fn installed() -> anyhow::Result<PathBuf> {
    let runs = |program: &Path| {
        let found = Command::new(program).arg("--version").output();
        found.is_ok_and(|output| output.status.success())
    };
    let own = PathBuf::from("mdbook");
    if runs(&own) {
        return Ok(own);
    }
    let folder = std::path::absolute(shell::cache().join(format!("mdbook-{VERSION}")))?;
    let program = folder.join("bin/mdbook");
    if !runs(&program) {
        fs::create_dir_all(&folder)?;
        // Two clones that install at once: the second waits, and then finds it.
        let lock = fs::File::create(folder.join("lock"))?;
        lock.lock()?;
        if !runs(&program) {
            let root = folder.display().to_string();
            shell::install(
                "book",
                "cargo",
                &[
                    "install",
                    "mdbook",
                    "--locked",
                    "--quiet",
                    "--debug",
                    "--no-default-features",
                    "--features=search",
                    "--version",
                    VERSION,
                    "--root",
                    &root,
                ],
            )?;
        }
    }
    ensure!(runs(&program), "{} does not run", program.display());
    Ok(program)
}

/// The pages of the book by their paths. The page that prints all of them holds them once more.
fn read(folder: &Path, root: &Path, pages: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
        if path.is_dir() {
            read(&path, root, pages)?;
        } else if path.extension().is_some_and(|it| it == "html") && name != Path::new("print.html") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            pages.insert(name, text);
        }
    }
    Ok(())
}

/// Links from a page to a page, a file or an anchor that is not there. Only what mdBook made is followed: pages of evidence are
/// built apart and have their own tests.
fn broken(pages: &BTreeMap<PathBuf, String>, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let made = |text: &str| text.contains("<!-- Book generated using mdBook -->");
    let anchors: BTreeMap<&PathBuf, BTreeSet<&str>> = pages
        .iter()
        .map(|(path, text)| (path, attributes(text, " id=\"").collect()))
        .collect();
    let mut wrong = Vec::new();
    for (page, text) in pages.iter().filter(|(_, text)| made(text)) {
        for link in attributes(text, " href=\"").chain(attributes(text, " src=\"")) {
            if link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => joined(page, path),
            };
            let found = match anchors.get(&target) {
                Some(anchors) => anchor.is_empty() || anchors.contains(anchor),
                None => exists(&target),
            };
            if !found {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    wrong
}

/// The values of an attribute.
fn attributes<'a>(text: &'a str, start: &'static str) -> impl Iterator<Item = &'a str> {
    text.split(start)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
}

/// A relative path from a page, without `.` and `..`.
fn joined(page: &Path, path: &str) -> PathBuf {
    let mut joined = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                joined.pop();
            }
            Component::Normal(name) => joined.push(name),
            _ => {}
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let page = |body: &str| format!("<!-- Book generated using mdBook -->{body}");
        let pages = BTreeMap::from([
            (
                PathBuf::from("guides/a.html"),
                page(
                    "<a href=\"../b.html#end\"></a><a href=\"../b.html#gone\"></a><img src=\"c.png\"><a href=\"d.html\"></a>",
                ),
            ),
            (
                PathBuf::from("b.html"),
                page("<h2 id=\"end\"></h2><a href=\"#end\"></a><a href=\"https://example.org/x\"></a>"),
            ),
        ]);
        let wrong = broken(&pages, &|path| path == Path::new("guides/c.png"));
        assert_eq!(wrong, ["guides/a.html: ../b.html#gone", "guides/a.html: d.html"]);
    }
}
