//! What is said of every key of a file: a table beside the reader, from which schema and reference are made.

use std::{cell::Cell, collections::BTreeSet, fmt::Write as _};

use super::{Kind, Shape};

/// What the reference says of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyText<'a> {
    /// What it means.
    pub about: &'a str,
    /// The default, as it would be written; empty where there is none.
    pub default: &'a str,
    /// What holds where the key is not written and no single value says it.
    pub otherwise: &'a str,
}

/// The texts of all keys of a file.
///
/// One key on a line: its path, what it means, and its default in backticks or in words, divided by ` | `. `NAME` in a path stands
/// for any name, `[]` for any item of a list. A path that begins with `*.` speaks of every key that ends so and has no
/// line of its own.
#[derive(Debug)]
pub struct KeyTexts<'a> {
    lines: Vec<(&'a str, KeyText<'a>, Cell<bool>)>,
}

impl<'a> KeyTexts<'a> {
    /// Reads such a table.
    ///
    /// # Panics
    /// Where a line has not three parts, which a test rules out.
    #[must_use]
    pub fn new(table: &'a str) -> Self {
        let lines = table
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parsed = lines.map(|line| {
            let mut parts = line.split(" | ").map(str::trim);
            let (Some(path), Some(about), Some(default), None) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                panic!("not `path | meaning | default`: {line}");
            };
            let written = default.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
            let text = KeyText {
                about,
                default: written.unwrap_or_default(),
                otherwise: if written.is_some() { "" } else { default },
            };
            (path, text, Cell::new(false))
        });
        Self {
            lines: parsed.collect(),
        }
    }

    /// What is said of the key at a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<KeyText<'a>> {
        let exact = self.lines.iter().find(|(known, ..)| *known == path);
        let ending = |known: &str| {
            known
                .strip_prefix('*')
                .is_some_and(|end| path.ends_with(end) || path == &end[1..])
        };
        let by_end = || {
            let all = self.lines.iter().filter(|(known, ..)| ending(known));
            all.max_by_key(|(known, ..)| known.len())
        };
        exact.or_else(by_end).map(|(_, text, used)| {
            used.set(true);
            *text
        })
    }

    /// The paths of lines that spoke of no key so far.
    #[must_use]
    pub fn unused(&self) -> Vec<&'a str> {
        let unused = self.lines.iter().filter(|(_, _, used)| !used.get());
        unused.map(|(path, ..)| *path).collect()
    }
}

impl Shape {
    /// The path of every key, those under `$defs` with the name of the definition in brackets.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.blocks(&mut |path, shape| {
            paths.extend(shape.keys.keys().map(|key| below(path, key)));
        });
        paths
    }

    /// Every block with its keys, what they mean, what may be written and what holds otherwise, in Markdown.
    #[must_use]
    pub fn reference(&self, texts: &KeyTexts<'_>) -> String {
        let mut page = String::new();
        self.blocks(&mut |path, shape| {
            let title = match path {
                "" => "The file".to_owned(),
                path => format!("`{path}`"),
            };
            // Writing to a string cannot fail.
            let _ = write!(page, "## {title}\n\n");
            if let Some(text) = texts.get(path) {
                let _ = write!(page, "{}\n\n", sentence(text.about));
            }
            page.push_str("| key | meaning | value | default |\n| --- | --- | --- | --- |\n");
            for (key, inner) in &shape.keys {
                let path = below(path, key);
                let text = texts.get(&path);
                let (about, default) = text.map_or(("", "–".to_owned()), |text| {
                    (
                        text.about,
                        match (text.default, text.otherwise) {
                            ("", "") => "–".to_owned(),
                            ("", words) => words.to_owned(),
                            (written, _) => format!("`{written}`"),
                        },
                    )
                });
                let _ = writeln!(
                    page,
                    "| `{key}` | {} | {} | {default} |",
                    sentence(about),
                    inner.words()
                );
            }
            page.push('\n');
        });
        page.truncate(page.trim_end().len());
        page.push('\n');
        page
    }

    /// What may be written, in words.
    fn words(&self) -> String {
        let mut forms = Vec::new();
        if let Some(kind) = &self.kind {
            forms.push(kind.words());
        }
        if !matches!(self.kind, Some(Kind::Named(_) | Kind::Elsewhere)) {
            if !self.keys.is_empty() {
                forms.push("a block".to_owned());
            }
            if self.named.is_some() {
                forms.push("a block of names".to_owned());
            }
            if self.items.is_some() && !matches!(self.kind, Some(Kind::Texts)) {
                forms.push("a list".to_owned());
            }
            if self.kind.is_none() && (self.scalar || forms.is_empty()) {
                forms.insert(0, "a word or a number".to_owned());
            }
        }
        forms.join(", or ")
    }

    /// Visits every block that has keys, the file first and definitions last.
    fn blocks(&self, visit: &mut dyn FnMut(&str, &Shape)) {
        let mut seen = BTreeSet::new();
        self.walk("", &mut seen, visit);
        let mut definitions = std::collections::BTreeMap::new();
        self.define(&mut definitions);
        for (name, shape) in definitions {
            shape.walk(&format!("({name})"), &mut seen, visit);
        }
    }

    fn walk(&self, path: &str, seen: &mut BTreeSet<String>, visit: &mut dyn FnMut(&str, &Shape)) {
        if matches!(self.kind, Some(Kind::Named(_) | Kind::Elsewhere)) {
            return;
        }
        if !self.keys.is_empty() && seen.insert(path.to_owned()) {
            visit(path, self);
        }
        for (key, shape) in &self.keys {
            shape.walk(&below(path, key), seen, visit);
        }
        if let Some(named) = &self.named {
            named.walk(&below(path, "NAME"), seen, visit);
        }
        if let Some(items) = &self.items {
            items.walk(&format!("{path}[]"), seen, visit);
        }
    }
}

/// The path of a key in a block.
pub(super) fn below(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

fn sentence(text: &str) -> String {
    let text = text.replace('|', "\\|");
    let mut letters = text.chars();
    let first: String = letters
        .next()
        .map(|it| it.to_uppercase().to_string())
        .unwrap_or_default();
    let stop = if text.is_empty() || text.ends_with(['.', '?']) {
        ""
    } else {
        "."
    };
    format!("{first}{}{stop}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{Block, Mistakes, Node};

    fn reader(root: &Node, mistakes: &mut Mistakes) {
        let mut block = Block::open(root, "the file", mistakes).unwrap();
        block.flag("quiet", mistakes);
        if let Some(mut inner) = block.block("tls", mistakes) {
            inner.text("key", "a path", mistakes);
            inner.close(mistakes);
        }
        block.close(mistakes);
    }

    #[test]
    fn a_reference_has_every_key_with_its_text() {
        let mut shape = Shape::default();
        shape.add("tls: {key: a}", reader).unwrap();
        assert_eq!(shape.paths(), ["quiet", "tls", "tls.key"]);
        let texts =
            KeyTexts::new("quiet | says less | `false`\ntls | encryption | none\n*.key | the key | needed");
        let page = shape.reference(&texts);
        assert!(
            page.contains("| `quiet` | Says less. | `true` or `false` | `false` |"),
            "{page}"
        );
        assert!(page.contains("## `tls`\n\nEncryption.\n"), "{page}");
        assert!(page.contains("| `key` | The key. | a text | needed |"), "{page}");
        assert_eq!(texts.unused(), Vec::<&str>::new());
        assert_eq!(KeyTexts::new("other | x | y").unused(), ["other"]);
    }
}
