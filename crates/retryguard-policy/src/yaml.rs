//! Text to a tree that remembers where everything stood.
//!
//! Built from the parser's events and not through a deserialiser, because a deserialiser stops at the first
//! mistake, and because it guesses types that the written form should decide (`1.5s` is a duration and `off`
//! a word, whatever YAML takes them for).

use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput};

use crate::diagnostics::{Mistakes, Position};

/// The largest policy file in bytes. A ConfigMap cannot hold more either.
pub const LARGEST_FILE: usize = 1024 * 1024;

/// How deep a policy may nest. Its own form needs five levels.
pub const DEEPEST_NESTING: usize = 16;

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where it begins.
    pub at: Position,
    /// What it is.
    pub body: Body,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// One word, or a text.
    Scalar {
        /// As it is written, without its quotes.
        text: String,
        /// Written without quotes, so that `true` and `3` are not text.
        plain: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A block of keys.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub at: Position,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// Whether nothing stands here: an empty value, `~` or `null`.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(&self.body, Body::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// What this is, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.body {
            Body::Scalar { .. } if self.is_nothing() => "nothing".to_owned(),
            Body::Scalar { text, plain: true } => format!("`{}`", shortened(text)),
            Body::Scalar { text, .. } => format!("`{}` in quotes", shortened(text)),
            Body::List(_) => "a list".to_owned(),
            Body::Map(_) => "a block of keys".to_owned(),
        }
    }
}

/// A user's text in a message: on one line, and no longer than a message should be.
#[must_use]
pub fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    let mut short: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}

/// Reads one document. `None` where the text is not YAML, or none that a policy can be; `mistakes` then says
/// why. An empty text is an empty map.
pub fn read(text: &str, mistakes: &mut Mistakes) -> Option<Node> {
    if text.len() > LARGEST_FILE {
        mistakes.add(
            Position::START,
            format!("the file has more than {LARGEST_FILE} bytes"),
            "that is the largest policy; split it by target",
        );
        return None;
    }
    let mut reader = Reader {
        events: Parser::new_from_str(text),
        mistakes,
    };
    reader.document().ok()
}

/// Reading has stopped; the mistakes say why.
struct Stopped;

type Found<'a> = (Event<'a>, Span);

struct Reader<'a, 'm> {
    events: Parser<'a, StrInput<'a>>,
    mistakes: &'m mut Mistakes,
}

impl<'a> Reader<'a, '_> {
    /// The only document of the stream.
    fn document(&mut self) -> Result<Node, Stopped> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                Event::StreamEnd => break,
                _ if root.is_some() => {
                    return self.stop(
                        position(&span.start),
                        "a second document begins here",
                        "a policy is one document: remove the `---` and what follows it",
                    );
                }
                event => root = Some(self.node(event, &span, 0)?),
            }
        }
        Ok(root.unwrap_or(Node {
            at: Position::START,
            body: Body::Map(Vec::new()),
        }))
    }

    fn next(&mut self) -> Result<Found<'a>, Stopped> {
        let next = self
            .events
            .find(|next| !matches!(next, Ok((Event::Comment(..), _))));
        match next {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => {
                let at = position(error.marker());
                self.stop(
                    at,
                    format!("not YAML: {error}"),
                    "check the indentation and the quotes around here",
                )
            }
            None => self.stop(
                Position::START,
                "the text ends too early",
                "check that the file is complete",
            ),
        }
    }

    /// The node that begins with `event`, `depth` levels down.
    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Node, Stopped> {
        let at = position(&span.start);
        if depth > DEEPEST_NESTING {
            return self.stop(
                at,
                format!("nested deeper than {DEEPEST_NESTING} levels"),
                "no key of a policy stands that deep: check the indentation",
            );
        }
        let body = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_extras(at, anchor, tag.is_some());
                Body::Scalar {
                    text: text.into_owned(),
                    plain: style == ScalarStyle::Plain,
                }
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_extras(at, anchor, tag.is_some());
                self.list(depth)?
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_extras(at, anchor, tag.is_some());
                self.map(depth)?
            }
            _ => {
                return self.stop(
                    at,
                    "an alias or another reference",
                    "write the value out; in a policy, what services share belongs in `defaults`",
                );
            }
        };
        Ok(Node { at, body })
    }

    fn list(&mut self, depth: usize) -> Result<Body, Stopped> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Body::List(items));
            }
            items.push(self.node(event, &span, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Body, Stopped> {
        let mut entries = Vec::new();
        let mut seen = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Body::Map(entries));
            }
            let key = self.node(event, &span, depth + 1)?;
            let (event, span) = self.next()?;
            let value = self.node(event, &span, depth + 1)?;
            let at = key.at;
            let Body::Scalar { text: key, .. } = key.body else {
                self.mistakes
                    .add(at, "a key that is a list or a block", "a key is one word");
                continue;
            };
            if let Some(line) = seen.insert(key.clone(), at.line) {
                self.mistakes.add(
                    at,
                    format!("`{}` stands here for the second time", shortened(&key)),
                    format!("keep one of them; the other is on line {line}"),
                );
                continue;
            }
            entries.push(Entry { key, at, value });
        }
    }

    /// Anchors and tags change what a value means without saying so where it stands.
    fn refuse_extras(&mut self, at: Position, anchor: usize, tagged: bool) {
        if anchor != 0 {
            self.mistakes.add(
                at,
                "an anchor",
                "write values out; in a policy, what services share belongs in `defaults`",
            );
        }
        if tagged {
            self.mistakes
                .add(at, "a YAML tag", "remove it; every key knows its own type");
        }
    }

    fn stop<T>(
        &mut self,
        at: Position,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Result<T, Stopped> {
        self.mistakes.add(at, message, help);
        Err(Stopped)
    }
}

/// The parser counts lines from one and columns from zero.
fn position(marker: &Marker) -> Position {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Position {
        line: number(marker.line()).max(1),
        column: number(marker.col()).saturating_add(1),
    }
}
