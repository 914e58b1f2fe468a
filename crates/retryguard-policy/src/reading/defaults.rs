//! Whether the defaults that a reference states are those in force.

use serde_json::{Map, Value};

use super::{Body, KeyTexts, Mistakes, Node, Shape, read};

impl Shape {
    /// What the texts of the keys and the reader disagree about: keys without a text, texts without a key, and
    /// [defaults](Self::wrong_defaults) that are not in force.
    #[must_use]
    pub fn disagreements(
        &self,
        examples: &[&str],
        texts: &KeyTexts<'_>,
        parse: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let paths = self.paths().into_iter();
        let silent = paths.filter(|path| texts.get(path).is_none());
        let mut all: Vec<String> = silent.map(|path| format!("{path}: has no text")).collect();
        all.extend(self.wrong_defaults(examples, texts, parse));
        // The reference also uses the texts of blocks.
        let _ = self.reference(texts);
        all.extend(texts.unused().iter().map(|path| format!("{path}: no such key")));
        all
    }

    /// The keys whose stated default, written out, does not give the same as leaving the key out, or is never compared.
    ///
    /// `parse` reads a whole file and gives its result in a form that can be compared, or `None` where the file has mistakes. Each
    /// default is written into every block of the examples that can have it.
    #[must_use]
    pub fn wrong_defaults(
        &self,
        examples: &[&str],
        texts: &KeyTexts<'_>,
        parse: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let roots: Vec<Value> = examples
            .iter()
            .filter_map(|text| Some(value(&read(text, &mut Mistakes::default())?)))
            .collect();
        let mut wrong = Vec::new();
        for path in self.paths() {
            let Some(default) = texts
                .get(&path)
                .map(|text| text.default)
                .filter(|it| !it.is_empty())
            else {
                continue;
            };
            let written = read(&format!("x: {default}"), &mut Mistakes::default());
            let written = written.map_or(Value::Null, |node| value(&node)["x"].clone());
            let results: Vec<bool> = roots
                .iter()
                .flat_map(|root| compared(root, &path, &written, parse))
                .collect();
            if results.is_empty() || results.contains(&false) {
                wrong.push(format!("{path}: {default} ({} compared)", results.len()));
            }
        }
        wrong
    }
}

/// For each block at the path of the key: whether the file means the same with the value as without the key.
fn compared(root: &Value, path: &str, written: &Value, parse: &dyn Fn(&str) -> Option<String>) -> Vec<bool> {
    let parts: Vec<String> = path.replace("[]", ".[]").split('.').map(str::to_owned).collect();
    let Some((key, parents)) = parts.split_last() else {
        return Vec::new();
    };
    let parse_with = |number: usize, written: Option<&Value>| {
        let mut root = root.clone();
        let mut met = 0;
        change(&mut root, parents, &mut |block| {
            if met == number {
                match written {
                    Some(value) => block.insert(key.clone(), value.clone()),
                    None => block.remove(key),
                };
            }
            met += 1;
        });
        (met > number).then(|| parse(&root.to_string()))
    };
    let mut results = Vec::new();
    for number in 0.. {
        let (Some(with), Some(without)) = (parse_with(number, Some(written)), parse_with(number, None))
        else {
            return results;
        };
        // A key may be forbidden or needed in one of the blocks.
        if let (Some(with), Some(without)) = (with, without) {
            results.push(with == without);
        }
    }
    results
}

/// Calls `act` with every block that stands at a path.
fn change(value: &mut Value, path: &[String], act: &mut dyn FnMut(&mut Map<String, Value>)) {
    match (path.split_first(), value) {
        (None, Value::Object(block)) => act(block),
        (Some((part, rest)), Value::Array(items)) if part == "[]" => {
            items.iter_mut().for_each(|item| change(item, rest, act));
        }
        (Some((part, rest)), Value::Object(block)) if part == "NAME" => {
            block.values_mut().for_each(|inner| change(inner, rest, act));
        }
        (Some((part, rest)), Value::Object(block)) => {
            if let Some(inner) = block.get_mut(part) {
                change(inner, rest, act);
            }
        }
        _ => {}
    }
}

fn value(node: &Node) -> Value {
    match &node.body {
        Body::Scalar { text, plain: true } => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
        }
        Body::Scalar { text, .. } => Value::from(text.as_str()),
        Body::List(items) => items.iter().map(value).collect(),
        Body::Map(entries) => {
            let entries = entries
                .iter()
                .map(|entry| (entry.key.clone(), value(&entry.value)));
            Value::Object(entries.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Block;

    fn parsed(root: &Node, mistakes: &mut Mistakes) -> Option<(bool, u32)> {
        let mut block = Block::open(root, "the file", mistakes)?;
        let mut least = 0;
        if let Some(node) = block.take("targets") {
            for entry in super::super::entries(node, "targets", mistakes)? {
                let mut inner = Block::open(&entry.value, &entry.key, mistakes)?;
                least = inner.count("least", 0..=9, mistakes).unwrap_or(3);
                inner.close(mistakes);
            }
        }
        let quiet = block.flag("quiet", mistakes).unwrap_or(false);
        block.close(mistakes);
        Some((quiet, least))
    }

    #[test]
    fn a_default_that_is_not_in_force_is_found() {
        let example = "targets: {a: {least: 1}}";
        let mut shape = Shape::default();
        shape
            .add(example, |root, mistakes| {
                let _ = parsed(root, mistakes);
            })
            .unwrap();
        let parse = |text: &str| {
            let mut mistakes = Mistakes::default();
            let found = parsed(&read(text, &mut mistakes)?, &mut mistakes);
            Some(format!("{:?}", mistakes.or(found).ok()??))
        };
        let wrong = |texts: &str| shape.wrong_defaults(&[example], &KeyTexts::new(texts), &parse);
        assert_eq!(
            wrong("quiet | x | `false`\ntargets.NAME.least | y | `3`"),
            [""; 0]
        );
        assert_eq!(wrong("quiet | x | `true`"), ["quiet: true (1 compared)"]);
        assert_eq!(
            wrong("targets.NAME.least | y | `2`"),
            ["targets.NAME.least: 2 (1 compared)"]
        );
        assert_eq!(wrong("quiet | x | `maybe`"), ["quiet: maybe (0 compared)"]);
        let texts = "quiet | x | `true`\ntargets | y | none\nloud | z | none";
        assert_eq!(
            shape.disagreements(&[example], &KeyTexts::new(texts), &parse),
            [
                "targets.NAME.least: has no text",
                "quiet: true (1 compared)",
                "loud: no such key"
            ]
        );
    }
}
