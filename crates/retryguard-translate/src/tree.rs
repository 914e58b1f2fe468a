//! YAML and JSON to trees with line numbers.
//!
//! Not the reader of policies: files of other systems have several documents, anchors, tags and deep nesting, and their
//! keys come in more than one spelling.

use std::collections::HashMap;

use granit_parser::{Event, Parser, Span};

use crate::Refused;

/// The largest file that is imported, in bytes: Envoy's configuration dumps are large.
pub const LARGEST_FILE: usize = 16 * 1024 * 1024;

/// How deep a file may nest.
pub(crate) const DEEPEST: usize = 100;

/// The most values of a file. Aliases count as often as they are used, so that a small file cannot become a large tree.
pub(crate) const MOST_NODES: usize = 1_000_000;

/// The key of YAML 1.1 whose value's keys are taken over: `<<: *common`.
const MERGE: &str = "<<";

/// A value and the line on which it begins.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(crate) body: Body,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    Scalar { text: String },
    List(Vec<Node>),
    Map(Vec<(String, u32, Node)>),
}

/// All documents of a file. Comments in JSON, which .NET allows, are skipped.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, Refused> {
    if text.len() > LARGEST_FILE {
        return Err(Refused {
            line: None,
            message: format!("the file has more than {LARGEST_FILE} bytes: split it"),
        });
    }
    let refused = match parse(text) {
        Err(refused)
            if text
                .trim_start_matches('\u{feff}')
                .trim_start()
                .starts_with(['{', '/']) =>
        {
            refused
        }
        result => return result,
    };
    parse(&without_comments(text)).map_err(|_| refused)
}

/// JSON with spaces in place of comments, so that every line stays where it is.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut quoted = false;
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some(_)) if quoted => {
                out.push(letter);
                out.extend(letters.next());
            }
            ('"', _) => {
                quoted = !quoted;
                out.push(letter);
            }
            ('/', Some('/')) if !quoted => while letters.next_if(|letter| *letter != '\n').is_some() {},
            ('/', Some('*')) if !quoted => {
                let mut last = ' ';
                letters.next();
                for letter in letters.by_ref() {
                    if letter == '\n' {
                        out.push(letter);
                    }
                    if (last, letter) == ('*', '/') {
                        break;
                    }
                    last = letter;
                }
                out.push(' ');
            }
            _ => out.push(letter),
        }
    }
    out
}

fn parse(text: &str) -> Result<Vec<Node>, Refused> {
    let mut reader = Reader {
        events: Parser::new_from_str(text),
        anchors: HashMap::new(),
        nodes: 0,
    };
    let mut documents = Vec::new();
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            Event::StreamEnd => return Ok(documents),
            event => documents.push(reader.node(event, &span, 0)?),
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Refused> {
        let next = self
            .events
            .find(|next| !matches!(next, Ok((Event::Comment(..), _))));
        match next {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(Refused {
                line: Some(line_of(error.marker().line())),
                message: format!("neither YAML nor JSON: {error}"),
            }),
            None => Err(Refused {
                line: None,
                message: "the text ends too early: check that the file is complete".to_owned(),
            }),
        }
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Node, Refused> {
        let line = line_of(span.start.line());
        let refuse = |message: String| {
            Err(Refused {
                line: Some(line),
                message,
            })
        };
        if depth > DEEPEST {
            return refuse(format!("nested deeper than {DEEPEST} levels"));
        }
        self.count(1, line)?;
        let (body, anchor) = match event {
            Event::Scalar(text, _, anchor, _) => (
                Body::Scalar {
                    text: text.into_owned(),
                },
                anchor,
            ),
            Event::SequenceStart(_, anchor, _) => (self.list(depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map(depth)?, anchor),
            Event::Alias(anchor, ..) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return refuse("an alias without its anchor".to_owned());
                };
                self.count(node.size(), line)?;
                return Ok(node);
            }
            _ => return refuse("something that is not a value".to_owned()),
        };
        let node = Node { line, body };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn count(&mut self, more: usize, line: u32) -> Result<(), Refused> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes > MOST_NODES {
            return Err(Refused {
                line: Some(line),
                message: format!("more than {MOST_NODES} values: split the file"),
            });
        }
        Ok(())
    }

    fn list(&mut self, depth: usize) -> Result<Body, Refused> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Body::List(items));
            }
            items.push(self.node(event, &span, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Body, Refused> {
        let mut entries = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let key = self.node(event, &span, depth + 1)?;
            let (event, span) = self.next()?;
            let value = self.node(event, &span, depth + 1)?;
            match key.body {
                Body::Scalar { text } if text == MERGE => merged.push(value),
                Body::Scalar { text } => entries.push((text, key.line, value)),
                _ => {}
            }
        }
        for node in merged {
            merge(&mut entries, node);
        }
        Ok(Body::Map(entries))
    }
}

/// Adds the keys of a map, or of each map of a list, that are not there yet.
fn merge(entries: &mut Vec<(String, u32, Node)>, node: Node) {
    match node.body {
        Body::Scalar { .. } => {}
        Body::List(items) => {
            for item in items {
                merge(entries, item);
            }
        }
        Body::Map(more) => {
            for entry in more {
                if entries.iter().all(|(known, ..)| *known != entry.0) {
                    entries.push(entry);
                }
            }
        }
    }
}

fn line_of(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX).max(1)
}

/// A key without the differences of spelling: `per_try_timeout`, `perTryTimeout` and `per-try-timeout` are one.
pub(crate) fn plain(key: &str) -> String {
    key.chars()
        .filter(|letter| !matches!(letter, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

impl Node {
    /// The value under a key, however it is spelt.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let wanted = plain(key);
        self.entries()
            .iter()
            .find(|(key, _, _)| plain(key) == wanted)
            .map(|(_, _, value)| value)
            .filter(|value| !value.is_nothing())
    }

    /// A key as the file spells it, for messages.
    pub(crate) fn spelt<'a>(&'a self, key: &'a str) -> &'a str {
        let wanted = plain(key);
        let mut keys = self.entries().iter().map(|(key, _, _)| key.as_str());
        keys.find(|key| plain(key) == wanted).unwrap_or(key)
    }

    /// The value at the end of a path of keys.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    pub(crate) fn entries(&self) -> &[(String, u32, Self)] {
        match &self.body {
            Body::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Self] {
        match &self.body {
            Body::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Scalar { text } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        let text = self.text()?.trim().trim_end_matches('%');
        text.parse().ok().filter(|number: &f64| number.is_finite())
    }

    pub(crate) fn whole(&self) -> Option<u32> {
        let number = self.number()?;
        let fits = (0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked just before"
        )]
        fits.then_some(number as u32)
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        match self.text()?.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(&self.body, Body::Scalar { text } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// Every map below and at this node, outer ones first.
    pub(crate) fn maps(&self) -> Vec<&Self> {
        let mut found = Vec::new();
        let mut open = vec![self];
        while let Some(node) = open.pop() {
            match &node.body {
                Body::Scalar { .. } => {}
                Body::List(items) => open.extend(items.iter().rev()),
                Body::Map(entries) => {
                    found.push(node);
                    open.extend(entries.iter().rev().map(|(_, _, value)| value));
                }
            }
        }
        found
    }

    fn size(&self) -> usize {
        let mut size = 0;
        let mut open = vec![self];
        while let Some(node) = open.pop() {
            size += 1;
            match &node.body {
                Body::Scalar { .. } => {}
                Body::List(items) => open.extend(items),
                Body::Map(entries) => open.extend(entries.iter().map(|(_, _, value)| value)),
            }
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_lines_anchors_and_spellings() {
        let text = "a: &x {per_try_timeout: 1s}\n---\n- b: 2\n---\nc:\n  perTryTimeout: 3s\n";
        let documents = read(text).unwrap();
        assert_eq!(documents.len(), 3);
        let timeout = documents[2].at(&["c", "per-try-timeout"]).unwrap();
        assert_eq!((timeout.line, timeout.text()), (6, Some("3s")));
        let aliased = read("a: &x [1, 2]\nb: *x\n").unwrap();
        assert_eq!(aliased[0].get("b").unwrap().items().len(), 2);
        assert_eq!(read("{\"a\": 1}").unwrap()[0].get("a").unwrap().whole(), Some(1));
    }

    /// The keys of the map itself come first, then those of the first map that is merged.
    #[test]
    fn merge_keys_are_followed() {
        let text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {<<: [*x, *y], a: 3}\nw: {<<: *x}\n";
        let root = &read(text).unwrap()[0];
        let number = |path: &[&str]| root.at(path).and_then(Node::whole);
        let found = ["a", "b", "c"].map(|key| number(&["z", key]));
        assert_eq!(found, [Some(3), Some(1), Some(2)]);
        assert_eq!(number(&["w", "b"]), Some(1));
        assert!(root.at(&["z", MERGE]).is_none());
    }

    #[test]
    fn a_key_is_named_as_the_file_spells_it() {
        let root = &read("{maxRequestsPerConnection: 1}").unwrap()[0];
        assert_eq!(
            root.spelt("max_requests_per_connection"),
            "maxRequestsPerConnection"
        );
        assert_eq!(root.spelt("max_retries"), "max_retries");
    }

    /// Nine aliases of nine aliases of … fit into a line and not into memory.
    #[test]
    fn aliases_cannot_blow_a_file_up() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..10 {
            let below = format!("*a{}", level - 1);
            let all = vec![below; 10].join(", ");
            text += &format!("a{level}: &a{level} [{all}]\n");
        }
        assert!(read(&text).unwrap_err().message.contains("values"));
        let deep = "[".repeat(DEEPEST + 2) + &"]".repeat(DEEPEST + 2);
        assert!(read(&deep).unwrap_err().message.contains("nested"));
    }
}
