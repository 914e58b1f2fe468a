//! A block of keys, read key by key: a key that is never asked for is a mistake.

use std::{ops::RangeInclusive, time::Duration};

use retryguard_core::Ratio;

use super::{
    Body, Entry, Kind, Mistakes, Node, entries, nearest, scalar, shortened, span, unknown_key, wrong,
};
use crate::{
    Position,
    written::{Share, Written},
};

/// A block that is being read: ask for each key that is known, then [`Block::close`] it.
#[derive(Debug)]
pub struct Block<'a> {
    place: String,
    at: Position,
    entries: &'a [Entry],
    known: Vec<(&'static str, Option<Kind>)>,
    /// Stands for a block that is not written, so that its keys are not those of the place.
    absent: bool,
}

impl<'a> Block<'a> {
    /// The block that stands under `key`, or a mistake.
    pub fn open(node: &'a Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        Some(Self {
            place: shortened(key),
            at: node.at,
            entries: entries(node, key, mistakes)?,
            known: Vec::new(),
            absent: false,
        })
    }

    /// A block in which nothing is written, at the place where it could be.
    #[must_use]
    pub fn empty(key: &str, at: Position) -> Self {
        Self {
            place: shortened(key),
            at,
            entries: &[],
            known: Vec::new(),
            absent: true,
        }
    }

    /// Where the block begins.
    #[must_use]
    pub const fn at(&self) -> Position {
        self.at
    }

    /// The value of a key, if it is written.
    pub fn take(&mut self, key: &'static str) -> Option<&'a Node> {
        self.known.push((key, None));
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }

    /// Whether nothing is written in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a key that must be there.
    pub fn need(&mut self, key: &'static str, wanted: &str, mistakes: &mut Mistakes) -> Option<&'a Node> {
        let node = self.take(key);
        if node.is_none() {
            mistakes.add(
                self.at,
                format!("`{}` has no `{key}`", self.place),
                format!("add `{key}:` with {wanted}"),
            );
        }
        node
    }

    /// Says what may be written at a key that was taken, for the schema of the file.
    pub fn describe(&mut self, key: &'static str, kind: Kind) {
        if let Some((_, described)) = self.known.iter_mut().rev().find(|(known, _)| *known == key) {
            *described = Some(kind);
        }
    }

    /// Every key has been asked for: others are mistakes.
    pub fn close(self, mistakes: &mut Mistakes) {
        let known: Vec<&'static str> = self.known.iter().map(|(key, _)| *key).collect();
        for entry in self.entries {
            if !known.contains(&entry.key.as_str()) {
                // A key stands in backticks; the root is described in words.
                let place = match self.place.contains(' ') {
                    true => self.place.clone(),
                    false => format!("`{}`", self.place),
                };
                unknown_key(entry, &known, &place, mistakes);
            }
        }
        if !self.absent {
            mistakes.note(|| (self.at, self.known));
        }
    }

    /// The block under a key, if it is written.
    pub fn block(&mut self, key: &'static str, mistakes: &mut Mistakes) -> Option<Self> {
        let node = self.take(key)?;
        Self::open(node, key, mistakes)
    }

    /// A duration within limits.
    pub fn duration(
        &mut self,
        key: &'static str,
        limits: RangeInclusive<Duration>,
        mistakes: &mut Mistakes,
    ) -> Option<Duration> {
        let node = self.take(key);
        self.describe(key, Kind::Duration);
        let node = node?;
        let wanted = <Duration as Written>::form(&limits).words;
        let (text, _) = scalar(node, key, &wanted, mistakes)?;
        let found = span(text).filter(|span| limits.contains(span));
        if found.is_none() {
            wrong(node, key, &wanted, mistakes);
        }
        found
    }

    /// A share within limits, such as `20%` or `0.2`.
    pub fn share(
        &mut self,
        key: &'static str,
        limits: RangeInclusive<Ratio>,
        mistakes: &mut Mistakes,
    ) -> Option<Ratio> {
        let node = self.take(key);
        self.describe(key, Kind::Share(limits.end().as_f64()));
        let node = node?;
        Share::read(node, key, &limits, mistakes).map(|Share(share)| share)
    }

    /// A whole number within limits.
    pub fn count(
        &mut self,
        key: &'static str,
        limits: RangeInclusive<u32>,
        mistakes: &mut Mistakes,
    ) -> Option<u32> {
        let node = self.take(key);
        self.describe(key, Kind::Count(*limits.start(), *limits.end()));
        let node = node?;
        <u32 as Written>::read(node, key, &limits, mistakes)
    }

    /// `true` or `false`.
    pub fn flag(&mut self, key: &'static str, mistakes: &mut Mistakes) -> Option<bool> {
        let node = self.take(key);
        self.describe(key, Kind::Flag);
        let node = node?;
        bool::read(node, key, &(), mistakes)
    }

    /// A text that is not empty.
    pub fn text(&mut self, key: &'static str, wanted: &str, mistakes: &mut Mistakes) -> Option<&'a str> {
        let node = self.take(key);
        self.describe(key, Kind::Text);
        let node = node?;
        text(node, key, wanted, mistakes)
    }

    /// A text that must be there, and where it is.
    pub fn need_text(
        &mut self,
        key: &'static str,
        wanted: &str,
        mistakes: &mut Mistakes,
    ) -> Option<(&'a str, Position)> {
        let node = self.need(key, wanted, mistakes);
        self.describe(key, Kind::Text);
        let node = node?;
        text(node, key, wanted, mistakes).map(|text| (text, node.at))
    }

    /// A list of texts; one text stands for a list of one. An empty list is a mistake: it would leave nothing that the key is about.
    pub fn texts(
        &mut self,
        key: &'static str,
        wanted: &str,
        mistakes: &mut Mistakes,
    ) -> Option<Vec<&'a str>> {
        let node = self.take(key);
        self.describe(key, Kind::Texts);
        let node = node?;
        let items = match &node.body {
            Body::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        if items.is_empty() {
            mistakes.add(
                node.at,
                format!("`{key}` is an empty list"),
                format!("write {wanted}, or leave the key out"),
            );
            return None;
        }
        items
            .into_iter()
            .map(|item| text(item, key, wanted, mistakes))
            .collect()
    }

    /// One of several words.
    pub fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
        mistakes: &mut Mistakes,
    ) -> Option<T> {
        let node = self.take(key);
        let all: Vec<&'static str> = words.iter().map(|(word, _)| *word).collect();
        self.describe(key, Kind::Word(all.clone()));
        let node = node?;
        let wanted = format!("one of {}", all.join(", "));
        let (text, _) = scalar(node, key, &wanted, mistakes)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let help = nearest(text, all.iter().copied()).map_or_else(
                || format!("write {wanted}"),
                |near| format!("did you mean `{near}`?"),
            );
            mistakes.add(node.at, format!("`{key}` is `{}`", shortened(text)), help);
        }
        found.map(|(_, value)| *value)
    }
}

fn text<'a>(node: &'a Node, key: &str, wanted: &str, mistakes: &mut Mistakes) -> Option<&'a str> {
    let (text, _) = scalar(node, key, wanted, mistakes)?;
    if text.is_empty() {
        wrong(node, key, wanted, mistakes);
        return None;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::read;

    #[test]
    fn every_mistake_of_a_block_is_told() {
        let mut mistakes = Mistakes::default();
        let text = "every: soon\nshare: 1\nkind: prometeus\nflag: maybe\naddres: x\nmany: [a, '']\nnone: []";
        let root = read(text, &mut mistakes).unwrap();
        let mut block = Block::open(&root, "the file", &mut mistakes).unwrap();
        block.duration(
            "every",
            Duration::from_secs(1)..=Duration::from_secs(9),
            &mut mistakes,
        );
        block.share("share", Ratio::ZERO..=Ratio::ONE, &mut mistakes);
        block.word("kind", &[("prometheus", 1), ("scrape", 2)], &mut mistakes);
        block.flag("flag", &mut mistakes);
        block.texts("many", "names", &mut mistakes);
        assert_eq!(block.texts("none", "names", &mut mistakes), None);
        block.text("address", "an address", &mut mistakes);
        block.need("targets", "a block of them", &mut mistakes);
        block.close(&mut mistakes);
        let told = mistakes.or(()).unwrap_err();
        assert_eq!(told.as_slice().len(), 8, "{told}");
        assert!(told.to_string().contains("`none` is an empty list"), "{told}");
        assert!(told.to_string().contains("did you mean `prometheus`?"), "{told}");
        assert!(told.to_string().contains("did you mean `address`?"), "{told}");
        assert!(
            told.to_string().contains("unknown key `addres` in the file"),
            "{told}"
        );
    }
}
