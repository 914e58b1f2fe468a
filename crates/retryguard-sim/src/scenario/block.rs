//! A block of keys, read key by key: a key that is never asked for is a mistake.

use std::{ops::RangeInclusive, time::Duration};

use retryguard_policy::{
    Position,
    reading::{self, Body, Kind, Mistakes, Node, scalar, span, wrong},
};

use crate::{distribution::Distribution, world::Profile};

/// A block that is being read, as policies read theirs, with the words of scenarios.
pub(super) struct Block<'a>(reading::Block<'a>);

const DAY: Duration = Duration::from_secs(86_400);

impl<'a> Block<'a> {
    /// The block that stands under `key`, or a mistake.
    pub(super) fn open(node: &'a Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        reading::Block::open(node, key, mistakes).map(Self)
    }

    /// Where it begins.
    pub(super) const fn at(&self) -> Position {
        self.0.at()
    }

    /// The value of a key, if it is written.
    pub(super) fn take(&mut self, key: &'static str) -> Option<&'a Node> {
        self.0.take(key)
    }

    /// The value of a key that must be there.
    pub(super) fn need(
        &mut self,
        key: &'static str,
        wanted: &str,
        mistakes: &mut Mistakes,
    ) -> Option<&'a Node> {
        self.0.need(key, wanted, mistakes)
    }

    /// Every key has been asked for: others are mistakes.
    pub(super) fn close(self, mistakes: &mut Mistakes) {
        self.0.close(mistakes);
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
        mistakes: &mut Mistakes,
    ) -> Option<T> {
        self.0.word(key, words, mistakes)
    }

    /// Says what may be written at a key that was taken.
    pub(super) fn describe(&mut self, key: &'static str, kind: Kind) {
        self.0.describe(key, kind);
    }

    pub(super) fn duration(&mut self, key: &'static str, mistakes: &mut Mistakes) -> Option<Duration> {
        let node = self.take(key);
        self.describe(key, Kind::Duration);
        node.and_then(|node| duration(node, key, mistakes))
    }

    /// A duration that may be switched off by the word `off`.
    pub(super) fn duration_or_off(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<Option<Duration>> {
        let node = self.take(key);
        self.describe(key, Kind::DurationOrOff);
        let node = node?;
        if is_off(node, key, mistakes) {
            return Some(None);
        }
        duration(node, key, mistakes).map(Some)
    }

    pub(super) fn share(&mut self, key: &'static str, mistakes: &mut Mistakes) -> Option<f64> {
        let node = self.take(key);
        self.describe(key, Kind::Share(1.0));
        node.and_then(|node| share(node, key, 0.0..=1.0, mistakes))
    }

    pub(super) fn number(
        &mut self,
        key: &'static str,
        limits: RangeInclusive<f64>,
        mistakes: &mut Mistakes,
    ) -> Option<f64> {
        let node = self.take(key);
        self.describe(key, Kind::Number(*limits.start(), *limits.end()));
        node.and_then(|node| number(node, key, limits, mistakes))
    }

    pub(super) fn count(
        &mut self,
        key: &'static str,
        limits: RangeInclusive<u32>,
        mistakes: &mut Mistakes,
    ) -> Option<u32> {
        let node = self.take(key);
        self.describe(key, Kind::Count(*limits.start(), *limits.end()));
        node.and_then(|node| count(node, key, limits, mistakes))
    }

    pub(super) fn flag(&mut self, key: &'static str, mistakes: &mut Mistakes) -> Option<bool> {
        self.0.flag(key, mistakes)
    }

    pub(super) fn text(&mut self, key: &'static str, mistakes: &mut Mistakes) -> Option<String> {
        let node = self.take(key);
        self.describe(key, Kind::Text);
        scalar(node?, key, "a text", mistakes).map(|(text, _)| text.to_owned())
    }

    pub(super) fn distribution(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<Distribution> {
        let node = self.take(key);
        self.describe(key, Kind::Named("distribution"));
        node.and_then(|node| distribution(node, key, mistakes))
    }
}

pub(super) fn is_word(node: &Node, words: &[&str]) -> bool {
    matches!(&node.body, Body::Scalar { text, .. } if words.contains(&text.as_str()))
}

/// Whether `off` is written, as in a policy. `none` is a mistake that says so, and is read as `off` for the rest of the file.
pub(super) fn is_off(node: &Node, key: &str, mistakes: &mut Mistakes) -> bool {
    let none = is_word(node, &["none"]);
    if none {
        wrong(node, key, "off", mistakes);
    }
    none || is_word(node, &["off", "false"])
}

pub(super) fn duration(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Duration> {
    let wanted = "a duration up to 30 days, such as 100ms, 1.5s or 2m";
    let (text, _) = scalar(node, key, wanted, mistakes)?;
    let found = span(text).filter(|span| *span <= 30 * DAY);
    if found.is_none() {
        wrong(node, key, wanted, mistakes);
    }
    found
}

pub(super) fn number(
    node: &Node,
    key: &str,
    limits: RangeInclusive<f64>,
    mistakes: &mut Mistakes,
) -> Option<f64> {
    let wanted = format!("a number from {} to {}", limits.start(), limits.end());
    let (text, _) = scalar(node, key, &wanted, mistakes)?;
    let found = text
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && limits.contains(number));
    if found.is_none() {
        wrong(node, key, &wanted, mistakes);
    }
    found
}

pub(super) fn count(
    node: &Node,
    key: &str,
    limits: RangeInclusive<u32>,
    mistakes: &mut Mistakes,
) -> Option<u32> {
    let wanted = format!("a whole number from {} to {}", limits.start(), limits.end());
    let (text, _) = scalar(node, key, &wanted, mistakes)?;
    let found = text.parse().ok().filter(|count| limits.contains(count));
    if found.is_none() {
        wrong(node, key, &wanted, mistakes);
    }
    found
}

pub(super) fn share(
    node: &Node,
    key: &str,
    limits: RangeInclusive<f64>,
    mistakes: &mut Mistakes,
) -> Option<f64> {
    let wanted = format!(
        "a share from {}% to {}%, such as 20% or 0.2",
        limits.start() * 100.0,
        limits.end() * 100.0
    );
    let (text, _) = scalar(node, key, &wanted, mistakes)?;
    let number = match text.strip_suffix('%') {
        Some(percent) => percent
            .trim_end()
            .parse::<f64>()
            .ok()
            .map(|percent| percent / 100.0),
        // A bare 1 could be one percent or all.
        None if text.contains('.') || text == "0" => text.parse().ok(),
        None => None,
    };
    let found = number.filter(|share| limits.contains(share));
    if found.is_none() {
        wrong(node, key, &wanted, mistakes);
    }
    found
}

/// A duration, or a block with one of the shapes.
pub(super) fn distribution(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Distribution> {
    if !matches!(node.body, Body::Map(_)) {
        return duration(node, key, mistakes).map(Distribution::Constant);
    }
    let mut block = Block::open(node, key, mistakes)?;
    let exponential = block
        .duration("exponential", mistakes)
        .map(Distribution::Exponential);
    let uniform = block
        .take("uniform")
        .and_then(|node| pair(node, "uniform", mistakes))
        .map(|(low, high)| Distribution::Uniform(low, high));
    let normal = block
        .take("normal")
        .and_then(|node| pair(node, "normal", mistakes))
        .map(|(mean, deviation)| Distribution::Normal(mean, deviation));
    let mut lognormal = None;
    if let Some(node) = block.take("logNormal") {
        let mut inner = Block::open(node, "logNormal", mistakes)?;
        let median = inner.duration("median", mistakes);
        let p95 = inner.duration("p95", mistakes);
        inner.close(mistakes);
        match (median, p95) {
            (Some(median), Some(p95)) if !median.is_zero() && p95 > median => {
                lognormal = Some(Distribution::LogNormal(median, p95));
            }
            _ => mistakes.add(
                node.at,
                "`logNormal` is incomplete",
                "write {median: 100ms, p95: 300ms}, p95 larger",
            ),
        }
    }
    let mixed = block.take("mixed").and_then(|node| {
        let mut inner = Block::open(node, "mixed", mistakes)?;
        let share = inner.share("share", mistakes);
        let usual = inner.distribution("usual", mistakes);
        let rare = inner.distribution("rare", mistakes);
        inner.close(mistakes);
        match (share, usual, rare) {
            (Some(share), Some(usual), Some(rare)) => {
                Some(Distribution::Mixed(share, Box::new(usual), Box::new(rare)))
            }
            _ => {
                mistakes.add(
                    node.at,
                    "`mixed` is incomplete",
                    "write {share: 5%, usual: 100ms, rare: 2s}",
                );
                None
            }
        }
    });
    let at = block.at();
    block.close(mistakes);
    let found = exponential.or(uniform).or(normal).or(lognormal).or(mixed);
    if found.is_none() {
        mistakes.add(
            at,
            format!("`{key}` has no shape"),
            "write a duration, or one of exponential, uniform, normal, logNormal, mixed",
        );
    }
    found
}

fn pair(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<(Duration, Duration)> {
    if let Body::List(items) = &node.body
        && let [first, second] = items.as_slice()
    {
        return Some((duration(first, key, mistakes)?, duration(second, key, mistakes)?));
    }
    wrong(node, key, "two durations, such as [80ms, 120ms]", mistakes);
    None
}

/// The most values of a trace: a value for each minute of a day, and some more.
pub(super) const LONGEST_TRACE: usize = 2_000;

/// A trace: `{every: 10s, values: [12, 15, …], times: 1.5}`. Each value holds for as long as `every` says, the last one to the
/// end; `times` multiplies all of them.
fn trace(node: &Node, key: &'static str, most: f64, mistakes: &mut Mistakes) -> Option<Profile> {
    let mut block = Block::open(node, key, mistakes)?;
    let every = block.need("every", "a duration", mistakes);
    let every = every.and_then(|node| duration(node, "every", mistakes));
    let times = block.number("times", 0.0..=1e6, mistakes).unwrap_or(1.0);
    let values = block.need("values", "a list of numbers", mistakes);
    let at = block.at();
    block.close(mistakes);
    let (every, values) = (every?, values?);
    let Body::List(items) = &values.body else {
        wrong(values, "values", "a list of numbers", mistakes);
        return None;
    };
    if items.is_empty() || items.len() > LONGEST_TRACE {
        mistakes.add(
            values.at,
            format!("a trace of {} values", items.len()),
            format!("write 1 to {LONGEST_TRACE} values, with a longer `every` where there are more"),
        );
        return None;
    }
    if every.is_zero() {
        mistakes.add(
            at,
            "`every` is not a time",
            "write how long each value holds, such as 10s",
        );
        return None;
    }
    let mut profile: Option<Profile> = None;
    let mut begins = Duration::ZERO;
    for item in items {
        let level = (number(item, "values", 0.0..=most, mistakes)? * times).min(most);
        profile = Some(match profile {
            None => Profile::constant(level),
            Some(profile) => profile.then(
                retryguard_core::Instant::ZERO.after(begins),
                level,
                Duration::ZERO,
            ),
        });
        begins = begins.saturating_add(every);
    }
    profile
}

/// A number, a list of stages, or a trace.
pub(super) fn profile(node: &Node, key: &'static str, most: f64, mistakes: &mut Mistakes) -> Option<Profile> {
    if matches!(node.body, Body::Map(_)) {
        return trace(node, key, most, mistakes);
    }
    let Body::List(items) = &node.body else {
        return number(node, key, 0.0..=most, mistakes).map(Profile::constant);
    };
    let mut profile: Option<Profile> = None;
    let mut before = Duration::ZERO;
    for item in items {
        let mut block = Block::open(item, "a stage", mistakes)?;
        let at = block.duration("at", mistakes).unwrap_or_default();
        let level = block
            .need(key, "a number", mistakes)
            .and_then(|node| number(node, key, 0.0..=most, mistakes));
        let over = block.duration("over", mistakes).unwrap_or_default();
        block.close(mistakes);
        if at < before || profile.is_none() && !at.is_zero() {
            mistakes.add(
                item.at,
                "a stage out of order",
                "stages go forward in time and the first begins at 0",
            );
        }
        before = at;
        let at = retryguard_core::Instant::ZERO.after(at);
        profile = Some(match profile {
            None => Profile::constant(level?),
            Some(profile) => profile.then(at, level?, over),
        });
    }
    if profile.is_none() {
        wrong(node, key, "a number, or a list of stages", mistakes);
    }
    profile
}
