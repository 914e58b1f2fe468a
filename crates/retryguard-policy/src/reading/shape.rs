//! The shape of a file, noted while its reader reads examples of it: a JSON schema that cannot say anything else than the reader
//! does.
//!
//! A reader asks a [`Block`](super::Block) for each key that it knows. What it asks for is noted block by block, so a few
//! examples that write every block give every key with what may be written there.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Body, KeyTexts, Kind, Mistakes, Node, keys::below, read};
use crate::{Diagnostics, Position};

/// What may stand at one place of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shape {
    pub(super) kind: Option<Kind>,
    /// A word or a text was seen.
    pub(super) scalar: bool,
    /// The keys of a block.
    pub(super) keys: BTreeMap<&'static str, Shape>,
    /// The values of a block whose keys are names of the user's.
    pub(super) named: Option<Box<Shape>>,
    /// The items of a list.
    pub(super) items: Option<Box<Shape>>,
}

impl Shape {
    /// The shape of a file whose reader accepts these examples, which together write every block.
    ///
    /// # Panics
    /// Where an example has mistakes.
    #[must_use]
    pub fn of_examples(examples: &[&str], reader: impl Fn(&Node, &mut Mistakes)) -> Self {
        let mut shape = Self::default();
        for example in examples {
            if let Err(mistakes) = shape.add(example, &reader) {
                panic!("an example has mistakes:\n{mistakes}");
            }
        }
        shape
    }

    /// Reads an example and adds what its reader asked for.
    ///
    /// # Errors
    /// Where the example has mistakes.
    pub fn add(&mut self, text: &str, reader: impl FnOnce(&Node, &mut Mistakes)) -> Result<(), Diagnostics> {
        let mut mistakes = Mistakes::noting();
        let root = read(text, &mut mistakes);
        if let Some(root) = &root {
            reader(root, &mut mistakes);
        }
        let asked: BTreeMap<_, _> = mistakes.asked().into_iter().collect();
        mistakes.or(())?;
        if let Some(root) = &root {
            self.merge(Self::of(root, &asked));
        }
        Ok(())
    }

    fn of(node: &Node, asked: &BTreeMap<Position, Vec<(&'static str, Option<Kind>)>>) -> Self {
        let mut shape = Self::default();
        match &node.body {
            Body::Scalar { .. } => shape.scalar = true,
            Body::List(items) => {
                let mut inner = Self::default();
                items.iter().for_each(|item| inner.merge(Self::of(item, asked)));
                shape.items = Some(Box::new(inner));
            }
            Body::Map(entries) => match asked.get(&node.at) {
                Some(keys) => {
                    for (key, kind) in keys {
                        let known = shape.keys.entry(key).or_default();
                        known.kind = known.kind.take().or_else(|| kind.clone());
                    }
                    for entry in entries {
                        if let Some(known) = shape.keys.get_mut(entry.key.as_str()) {
                            known.merge(Self::of(&entry.value, asked));
                        }
                    }
                }
                None => {
                    let mut inner = Self::default();
                    let values = entries.iter().map(|entry| Self::of(&entry.value, asked));
                    values.for_each(|value| inner.merge(value));
                    shape.named = Some(Box::new(inner));
                }
            },
        }
        shape
    }

    fn merge(&mut self, other: Self) {
        self.kind = self.kind.take().or(other.kind);
        self.scalar |= other.scalar;
        for (key, shape) in other.keys {
            self.keys.entry(key).or_default().merge(shape);
        }
        for (own, other) in [(&mut self.named, other.named), (&mut self.items, other.items)] {
            match (own.as_mut(), other) {
                (Some(own), Some(other)) => own.merge(*other),
                (None, Some(other)) => *own = Some(other),
                (_, None) => {}
            }
        }
    }

    /// The JSON schema of the whole file, as text, with what is said of each key.
    #[must_use]
    pub fn schema(&self, title: &str, texts: &KeyTexts<'_>) -> String {
        let mut schema = self.value("", texts);
        let mut definitions = BTreeMap::new();
        self.define(&mut definitions);
        if !definitions.is_empty() {
            let values = definitions
                .iter()
                .map(|(name, shape)| ((*name).to_owned(), shape.value(&format!("({name})"), texts)));
            schema["$defs"] = values.collect::<Map<String, Value>>().into();
        }
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = json!(title);
        format!("{schema:#}\n")
    }

    fn value(&self, path: &str, texts: &KeyTexts<'_>) -> Value {
        let mut forms = Vec::new();
        if let Some(kind @ (Kind::Elsewhere | Kind::Named(_))) = &self.kind {
            return kind.schema();
        }
        if let Some(kind) = &self.kind {
            forms.push(kind.schema());
        }
        if !self.keys.is_empty() {
            let properties: Map<String, Value> = self
                .keys
                .iter()
                .map(|(key, shape)| {
                    let path = below(path, key);
                    let mut value = shape.value(&path, texts);
                    if let Some(text) = texts.get(&path) {
                        value["description"] = text.about.into();
                    }
                    ((*key).to_owned(), value)
                })
                .collect();
            forms.push(json!({
                "type": ["object", "null"],
                "properties": properties,
                "additionalProperties": false,
            }));
        }
        if let Some(named) = &self.named {
            forms.push(json!({"type": ["object", "null"], "additionalProperties": named.value(&below(path, "NAME"), texts)}));
        }
        if let (Some(items), None | Some(Kind::Text | Kind::Word(_))) = (&self.items, &self.kind) {
            forms.push(json!({"type": "array", "items": items.value(&format!("{path}[]"), texts)}));
        }
        if self.kind.is_none() && (self.scalar || forms.is_empty()) {
            forms.push(json!({"type": ["string", "number", "boolean", "null"]}));
        }
        match forms.len() {
            1 => forms.remove(0),
            _ => json!({"anyOf": forms}),
        }
    }

    /// Puts together what was seen of everything that has a name.
    pub(super) fn define(&self, definitions: &mut BTreeMap<&'static str, Shape>) {
        if let Some(Kind::Named(name)) = self.kind {
            let seen = Self {
                kind: None,
                ..self.clone()
            };
            definitions.entry(name).or_default().merge(seen);
        }
        let inner = [&self.named, &self.items].into_iter().flatten();
        for shape in self.keys.values().chain(inner.map(Box::as_ref)) {
            shape.define(definitions);
        }
    }

    /// The name of every key, each once.
    #[must_use]
    pub fn key_names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for (key, shape) in &self.keys {
            names.push(key);
            names.extend(shape.key_names());
        }
        if self.kind == Some(Kind::Elsewhere) {
            return names;
        }
        for inner in [&self.named, &self.items].into_iter().flatten() {
            names.extend(inner.key_names());
        }
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Block;

    fn reader(root: &Node, mistakes: &mut Mistakes) {
        let Some(mut block) = Block::open(root, "the file", mistakes) else {
            return;
        };
        block.duration(
            "every",
            std::time::Duration::ZERO..=std::time::Duration::MAX,
            mistakes,
        );
        block.texts("codes", "codes", mistakes);
        if let Some(node) = block.take("targets") {
            for entry in super::super::entries(node, "targets", mistakes).unwrap_or_default() {
                if let Some(mut inner) = Block::open(&entry.value, &entry.key, mistakes) {
                    inner.word("mode", &[("on", 1), ("off", 2)], mistakes);
                    inner.flag("quiet", mistakes);
                    inner.take("free");
                    inner.close(mistakes);
                }
            }
        }
        block.close(mistakes);
    }

    #[test]
    fn a_schema_knows_what_the_reader_asks_for() {
        let mut shape = Shape::default();
        shape.add("targets: {a: {mode: on}}", reader).unwrap();
        shape
            .add("targets: {b: {free: [1, 2]}}\nevery: 1s", reader)
            .unwrap();
        let schema: Value = serde_json::from_str(&shape.schema("example", &KeyTexts::new(""))).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["every"]["anyOf"][1]["const"], 0);
        let target = &schema["properties"]["targets"]["additionalProperties"];
        assert_eq!(target["properties"]["mode"]["enum"], json!(["on", "off"]));
        assert_eq!(target["properties"]["quiet"]["type"], "boolean");
        assert_eq!(target["properties"]["free"]["type"], "array");
        assert_eq!(target["additionalProperties"], false);
        assert_eq!(
            shape.key_names(),
            ["codes", "every", "free", "mode", "quiet", "targets"]
        );
    }

    #[test]
    fn what_has_a_name_is_the_same_everywhere() {
        let named = |root: &Node, mistakes: &mut Mistakes| {
            let mut block = Block::open(root, "the file", mistakes).unwrap();
            for key in ["one", "two"] {
                let node = block.take(key);
                block.describe(key, Kind::Named("time"));
                if let Some(node) = node.filter(|node| matches!(node.body, Body::Map(_))) {
                    let mut inner = Block::open(node, key, mistakes).unwrap();
                    inner.flag("exact", mistakes);
                    inner.close(mistakes);
                }
            }
            block.close(mistakes);
        };
        let mut shape = Shape::default();
        shape.add("one: 5s\ntwo: {exact: true}", named).unwrap();
        let schema: Value = serde_json::from_str(&shape.schema("example", &KeyTexts::new(""))).unwrap();
        assert_eq!(schema["properties"]["one"]["$ref"], "#/$defs/time");
        assert_eq!(schema["properties"]["two"], schema["properties"]["one"]);
        let forms = schema["$defs"]["time"]["anyOf"].as_array().unwrap();
        assert_eq!(forms.len(), 2, "{schema}");
    }

    #[test]
    fn an_example_with_mistakes_is_refused() {
        let told = Shape::default().add("evry: 1s", reader).unwrap_err();
        assert!(told.to_string().contains("did you mean `every`?"), "{told}");
    }
}
