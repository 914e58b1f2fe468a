//! The retry settings of the AWS SDKs: `AWS_RETRY_MODE` and `AWS_MAX_ATTEMPTS`, as variables or in the shared config file.

use std::time::Duration;

use super::{Read, nothing_found};
use crate::{
    Beside, Refused,
    draft::{Draft, Jitter, Service},
    signals::Signals,
};

const KEYS: [&str; 3] = ["retry_mode", "max_attempts", "defaults_mode"];

/// A line of a file, other than a comment.
enum Line {
    /// `[default]` or `[profile NAME]`: the name.
    Section(String),
    /// `KEY = VALUE`; the key is without `export` and `AWS_`.
    Setting(String, String),
    /// An assignment that belongs to the value of the key before it, by its indentation.
    Nested(String),
    /// Neither.
    Strange,
}

/// Lines of `KEY=VALUE` or of an INI file: it has one of the keys or a section of the config file.
pub(super) fn is_it(text: &str) -> bool {
    let of_aws = |line: &Line| match line {
        Line::Section(_) | Line::Strange => false,
        Line::Setting(key, _) | Line::Nested(key) => KEYS.contains(&key.as_str()),
    };
    let ini = text
        .lines()
        .map(str::trim)
        .any(|line| line == "[default]" || line.starts_with("[profile "));
    (ini || lines(text).iter().any(|(_, line)| of_aws(line))) && !text.contains('{')
}

/// The lines of a file with their numbers.
fn lines(text: &str) -> Vec<(u32, Line)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    let mut section = false;
    // The indentation of the last setting of the section: a line that is indented further continues its value.
    let mut level: Option<usize> = None;
    for (number, whole) in (1u32..).zip(text.lines()) {
        let line = whole.split(['#', ';']).next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let indented = whole.len() - whole.trim_start().len();
        if let Some(name) = line.strip_prefix('[') {
            section = true;
            level = None;
            found.push((
                number,
                match name.strip_suffix(']') {
                    Some(name) => Line::Section(name.trim().trim_start_matches("profile ").trim().to_owned()),
                    None => Line::Strange,
                },
            ));
            continue;
        }
        let Some((key, value)) = line.strip_prefix("export ").unwrap_or(line).split_once('=') else {
            found.push((number, Line::Strange));
            continue;
        };
        let key = key.trim().to_lowercase();
        let key = key.strip_prefix("aws_").unwrap_or(&key).to_owned();
        if section && level.is_some_and(|level| indented > level) {
            found.push((number, Line::Nested(key)));
            continue;
        }
        level = Some(indented);
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        found.push((number, Line::Setting(key, value)));
    }
    found
}

#[derive(Default)]
struct Profile {
    mode: Option<(String, u32)>,
    attempts: Option<(u32, u32)>,
    /// `defaults_mode`, which sets the retry mode where that is not set.
    defaults: Option<(String, u32)>,
}

impl Profile {
    fn is_empty(&self) -> bool {
        self.mode.is_none() && self.attempts.is_none() && self.defaults.is_none()
    }
}

pub(super) fn read(text: &str) -> Result<Read, Refused> {
    let mut draft = Draft::foreign();
    let mut profiles: Vec<(String, Profile)> = vec![("default".to_owned(), Profile::default())];
    let mut found = false;
    let mut current = "default".to_owned();
    for (line, content) in lines(text) {
        let (key, value) = match content {
            Line::Section(name) => {
                current = name;
                continue;
            }
            Line::Strange => {
                draft.lost(
                    line,
                    "neither a section nor an assignment: the SDKs do not read a config file with this line",
                );
                continue;
            }
            Line::Nested(key) => {
                if KEYS.contains(&key.as_str()) {
                    draft.lost(
                        line,
                        format!("`{key}` is indented below another key: the SDKs do not read it there"),
                    );
                }
                continue;
            }
            Line::Setting(key, value) => (key, value),
        };
        if !KEYS.contains(&key.as_str()) {
            continue;
        }
        found = true;
        let place = profiles
            .iter()
            .position(|(known, _)| *known == current)
            .unwrap_or_else(|| {
                profiles.push((current.clone(), Profile::default()));
                profiles.len() - 1
            });
        let profile = &mut profiles[place].1;
        match key.as_str() {
            "retry_mode" => profile.mode = Some((value.to_lowercase(), line)),
            "defaults_mode" => profile.defaults = Some((value.to_lowercase(), line)),
            _ => match value.parse::<u32>() {
                Ok(attempts) if attempts > 0 => profile.attempts = Some((attempts, line)),
                _ => draft.lost(line, "`max_attempts` is not a number of attempts"),
            },
        }
    }
    if !found {
        return Err(nothing_found(
            "neither `AWS_RETRY_MODE` nor `AWS_MAX_ATTEMPTS`, nor `retry_mode`, `max_attempts` or `defaults_mode` of a config file",
        ));
    }
    let mut beside = Beside::None;
    for (name, profile) in &profiles {
        if name != "default" && profile.is_empty() {
            continue;
        }
        let (mut service, adaptive) = read_profile(profile, &mut draft);
        let lines = [
            profile.attempts.map(|it| it.1),
            profile.mode.as_ref().map(|it| it.1),
            profile.defaults.as_ref().map(|it| it.1),
        ];
        let first = lines.iter().flatten().min().copied().unwrap_or(1);
        service.block(format!("profile `{name}`"), first);
        if let Some((_, line)) = profile.attempts {
            service.written_at("maxRetries", line);
        }
        if let Some((_, line)) = &profile.mode {
            service.written_at("budget", *line);
        }
        if adaptive {
            beside = Beside::SendLimiter;
        }
        if name == "default" {
            let sections = std::mem::take(&mut draft.defaults.sections);
            let own = service.sections.clone();
            draft.defaults = Service {
                deadline: Some(None),
                ..service
            };
            draft.defaults.sections = sections;
            for (key, text) in own {
                draft.defaults.section(key, text);
            }
        } else {
            draft.merge(name, first, "profile", service);
        }
    }
    Ok(Read { draft, beside })
}

/// The settings of a profile, and whether it is adaptive.
fn read_profile(profile: &Profile, draft: &mut Draft) -> (Service, bool) {
    let defaults = profile.defaults.as_ref().filter(|(mode, _)| mode != "legacy");
    if let Some((mode, line)) = defaults {
        let retries = match &profile.mode {
            Some(_) => "",
            None => "its retry mode is standard, and ",
        };
        draft.lost(
            *line,
            format!("`defaults_mode` {mode}: {retries}its timeouts of connections have no key in a policy"),
        );
    }
    let (mode, line) = match (&profile.mode, defaults) {
        (Some(mode), _) => mode.clone(),
        (None, Some((_, line))) => ("standard".to_owned(), *line),
        (None, None) => ("legacy".to_owned(), profile.attempts.map_or(1, |it| it.1)),
    };
    let standard = matches!(mode.as_str(), "standard" | "adaptive");
    if !standard && mode != "legacy" {
        draft.lost(
            line,
            format!("the SDKs do not know the retry mode `{mode}`: legacy is taken"),
        );
    }
    let usual = if standard { 3 } else { 5 };
    let attempts = profile.attempts.map_or(usual, |(attempts, _)| attempts);
    let mut service = Service {
        retries: Some(attempts - 1),
        initial: Some(Duration::from_secs(1)),
        // The legacy mode has no cap; an hour is beyond what its attempts reach.
        cap: Some(Duration::from_secs(if standard { 20 } else { 3600 })),
        multiplier: Some(2.0),
        jitter: Some(Jitter::Full),
        ..Service::default()
    };
    let mut signals = Signals::default().network(&["unreachable", "disconnected", "timeout"]);
    signals.statuses.extend([429, 500, 502, 503, 504]);
    service.signals = Some(signals);
    draft.changed(
        line,
        "throttling errors that come as a 400 are recognised by their code, which a policy does not read",
    );
    if standard {
        service.section(
            "budget",
            "{form: quota, capacity: 500, retryCost: 5, timeoutCost: 10, successGain: 1}",
        );
    } else {
        // The default profile may have one.
        service.section("budget", "off");
        draft.changed(
            line,
            "services with a retry table of their own (DynamoDB: 10 attempts, 50 ms) differ",
        );
    }
    if mode == "adaptive" {
        draft.lost(
            line,
            "the send limiter of the adaptive mode has no key in a policy",
        );
    }
    (service, mode == "adaptive")
}
