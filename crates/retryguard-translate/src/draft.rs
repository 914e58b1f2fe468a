//! A policy under construction, and its text.

use std::{collections::HashMap, fmt::Write as _, time::Duration};

use crate::{
    Note, NoteKind,
    signals::Signals,
    tree::Node,
    units::{LONGEST, written},
};

/// The most retries that a policy may allow.
const MOST_RETRIES: u32 = 20;

/// How delays are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Jitter {
    Full,
    None,
    Decorrelated,
    Factor(f64),
}

/// The keys of a service that other systems have settings for. What is `None` is left to `defaults`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Service {
    pub(crate) retries: Option<u32>,
    pub(crate) initial: Option<Duration>,
    pub(crate) cap: Option<Duration>,
    pub(crate) multiplier: Option<f64>,
    pub(crate) growth: Option<&'static str>,
    pub(crate) jitter: Option<Jitter>,
    pub(crate) attempt_timeout: Option<Option<Duration>>,
    pub(crate) deadline: Option<Option<Duration>>,
    pub(crate) signals: Option<Signals>,
    /// The methods that alone are retried; `None` for what `defaults` say.
    pub(crate) methods: Option<Vec<String>>,
    /// Sections in one line each, such as `budget: {percent: 20%}`.
    pub(crate) sections: Vec<(&'static str, String)>,
    pub(crate) places: Places,
}

/// Where the settings of a service stand in the file. Settings are compared without their places, so any two are equal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// What the file calls the block, such as "VirtualService `reviews`", and its line.
    pub(crate) block: Option<(String, u32)>,
    /// The keys of the policy that the file writes, with their lines there.
    keys: Vec<(&'static str, u32)>,
}

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Places {
    /// The line of a key of the policy, if the file writes it.
    pub(crate) fn line(&self, key: &str) -> Option<u32> {
        self.keys
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, line)| *line)
    }

    /// Takes over those of another block that speaks of the same service; what is known already stays.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.block.is_none() {
            self.block.clone_from(&other.block);
        }
        for (key, line) in &other.keys {
            if self.line(key).is_none() {
                self.keys.push((key, *line));
            }
        }
    }
}

impl Service {
    /// Sets a section; a later one replaces an earlier one.
    pub(crate) fn section(&mut self, key: &'static str, text: impl Into<String>) {
        self.sections.retain(|(known, _)| *known != key);
        self.sections.push((key, text.into()));
    }

    /// Remembers where the file writes a key of the policy, if it does.
    pub(crate) fn written(&mut self, key: &'static str, node: Option<&Node>) {
        if let Some(node) = node {
            self.written_at(key, node.line);
        }
    }

    /// The same with the line itself.
    pub(crate) fn written_at(&mut self, key: &'static str, line: u32) {
        self.places.keys.push((key, line));
    }

    /// What the file calls the block.
    pub(crate) fn block(&mut self, name: impl Into<String>, line: u32) {
        self.places.block = Some((name.into(), line));
    }

    /// How many attempts it makes, for a comparison of two.
    pub(crate) fn attempts(&self) -> u32 {
        self.retries.unwrap_or(0)
    }
}

/// A whole policy with what it does not express.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) defaults: Service,
    pub(crate) services: Vec<(String, Service)>,
    /// Where services stand in the file.
    pub(crate) sources: HashMap<String, u32>,
    pub(crate) notes: Vec<Note>,
}

impl Draft {
    /// Switches off what the system that is read does not have.
    pub(crate) fn foreign() -> Self {
        let mut draft = Self::default();
        draft.defaults.deadline = Some(None);
        for (key, text) in [
            ("retryRetried", "true"),
            ("retryNonIdempotent", "true"),
            ("budget", "off"),
            ("guard", "off"),
            ("breaker", "off"),
            ("bulkhead", "off"),
            ("gate", "{scope: call, atMost: 0}"),
            ("server", "off"),
        ] {
            draft.defaults.section(key, text);
        }
        draft
    }

    pub(crate) fn lost(&mut self, line: u32, message: impl Into<String>) {
        self.note(line, NoteKind::Lost, message.into());
    }

    pub(crate) fn changed(&mut self, line: u32, message: impl Into<String>) {
        self.note(line, NoteKind::Changed, message.into());
    }

    fn note(&mut self, line: u32, kind: NoteKind, message: String) {
        let note = Note { line, kind, message };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The service of this name, made where it is missing.
    pub(crate) fn service(&mut self, name: &str) -> &mut Service {
        let place = self.services.iter().position(|(known, _)| known == name);
        let place = place.unwrap_or_else(|| {
            self.services.push((name.to_owned(), Service::default()));
            self.services.len() - 1
        });
        &mut self.services[place].1
    }

    /// Remembers the first line that speaks of a service.
    pub(crate) fn from(&mut self, name: &str, line: u32) {
        self.sources.entry(name.to_owned()).or_insert(line);
    }

    /// Leaves every budget out, for use together with a bound of the other system's own.
    pub(crate) fn without_budgets(&mut self) {
        for (_, service) in &mut self.services {
            service.sections.retain(|(key, _)| *key != "budget");
        }
        self.defaults.section("budget", "off");
    }

    /// A policy has one block a service: of two that are set differently, the one with more attempts is kept.
    pub(crate) fn merge(&mut self, name: &str, line: u32, what: &str, found: Service) {
        self.from(name, line);
        let known = self.service(name);
        if *known == Service::default() {
            *known = found;
            return;
        }
        if *known == found {
            return;
        }
        // A route for some methods that is retried, and one for the rest that is not, are one block.
        if known.methods.is_some() && found.attempts() == 0 {
            return;
        }
        if found.methods.is_some() && known.attempts() == 0 {
            *known = found;
            return;
        }
        let (kept, left) = if found.attempts() > known.attempts() {
            let left = known.attempts();
            *known = found;
            (known.attempts(), left)
        } else {
            (known.attempts(), found.attempts())
        };
        self.changed(
            line,
            format!(
                "another {what} to `{name}` is set differently, and a policy has one block a service: the one with \
                 {kept} retries is kept, the one with {left} is not"
            ),
        );
    }

    /// The text, with a heading, and the source of each of its lines. Values that a policy cannot hold are brought into
    /// its range, with a note.
    pub(crate) fn text(&mut self, heading: &str) -> (String, Vec<u32>) {
        let mut out = String::new();
        for line in heading.lines() {
            let _ = writeln!(out, "# {line}");
        }
        let mut sources = Vec::new();
        let mut notes = Vec::new();
        let defaults = lines(&self.defaults, "defaults", 1, &mut notes);
        if !defaults.is_empty() {
            let _ = writeln!(out, "defaults:");
            for line in defaults {
                let _ = writeln!(out, "  {line}");
            }
        }
        if !self.services.is_empty() {
            let _ = writeln!(out, "services:");
        }
        sources.resize(out.lines().count(), 1);
        for (name, service) in &self.services {
            let source = self.sources.get(name).copied().unwrap_or(1);
            let lines = lines(service, name, source, &mut notes);
            sources.push(source);
            let _ = writeln!(out, "  {}:", quoted(name));
            for line in lines {
                let key = line.split(':').next().unwrap_or_default();
                sources.push(service.places.line(key).unwrap_or(source));
                let _ = writeln!(out, "    {line}");
            }
        }
        for (line, message) in notes {
            self.changed(line, message);
        }
        self.notes.sort_by_key(|note| note.line);
        (out, sources)
    }
}

/// A name as a key: quoted where YAML would read it as something else.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/'));
    let word = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && !matches!(
            name.to_lowercase().as_str(),
            "null" | "true" | "false" | "on" | "off" | "yes" | "no"
        );
    if plain && word {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "''"))
    }
}

/// The lines of a block, which begins on the line `source` of the file.
fn lines(service: &Service, name: &str, source: u32, notes: &mut Vec<(u32, String)>) -> Vec<String> {
    let mut out = Vec::new();
    let mut note = |key: &str, message: String| {
        let line = service.places.line(key).unwrap_or(source);
        notes.push((line, format!("`{name}`: {message}")));
    };
    let mut within = |key: &str, what: &str, span: Duration, least: Duration| {
        let held = span.clamp(least, LONGEST);
        if held != span {
            let (is, becomes) = (written(span), written(held));
            let message = format!("{what} of {is} becomes {becomes}, the nearest that a policy allows");
            note(key, message);
        }
        written(held)
    };
    let milli = Duration::from_millis(1);
    if let Some(initial) = service.initial {
        out.push(format!(
            "initialDelay: {}",
            within("initialDelay", "a delay", initial, Duration::ZERO)
        ));
    }
    if let Some(cap) = service.cap {
        let cap = within("maxDelay", "a delay", cap, Duration::ZERO);
        out.push(format!("maxDelay: {cap}"));
    }
    for (key, value) in [
        ("attemptTimeout", service.attempt_timeout),
        ("deadline", service.deadline),
    ] {
        match value {
            Some(Some(span)) => out.push(format!("{key}: {}", within(key, key, span, milli))),
            Some(None) => out.push(format!("{key}: off")),
            None => {}
        }
    }
    if let Some(retries) = service.retries {
        if retries > MOST_RETRIES {
            let message = format!("{retries} retries become {MOST_RETRIES}, the most that a policy allows");
            note("maxRetries", message);
        }
        out.insert(0, format!("maxRetries: {}", retries.min(MOST_RETRIES)));
    }
    if let Some(multiplier) = service.multiplier {
        let held = multiplier.clamp(1.0, 100.0);
        if held != multiplier {
            note(
                "multiplier",
                format!("a multiplier of {multiplier} becomes {held}"),
            );
        }
        out.push(format!("multiplier: {held}"));
    }
    if let Some(growth) = service.growth {
        out.push(format!("growth: {growth}"));
    }
    match service.jitter {
        Some(Jitter::Full) => out.push("jitter: full".to_owned()),
        Some(Jitter::None) => out.push("jitter: none".to_owned()),
        Some(Jitter::Decorrelated) => out.push("jitter: decorrelated".to_owned()),
        Some(Jitter::Factor(factor)) => out.push(format!("jitterFactor: {}", factor.clamp(0.0, 1.0))),
        None => {}
    }
    if let Some(signals) = &service.signals {
        let (retry, never, lost) = signals.lists();
        // An empty list is written, too: one that is left out would be that of `defaults`.
        out.push(format!("retryOn: [{}]", retry.join(", ")));
        out.push(format!("neverRetryOn: [{}]", never.join(", ")));
        for lost in lost {
            note("retryOn", lost);
        }
    }
    if let Some(methods) = &service.methods {
        out.push("retryNonIdempotent: false".to_owned());
        out.push(format!("idempotency: {{methods: [{}]}}", methods.join(", ")));
    }
    for (key, text) in &service.sections {
        out.push(format!("{key}: {text}"));
    }
    if out.is_empty() {
        out.push("{}".to_owned());
    }
    out
}
