//! The retry settings of the AWS SDKs: `AWS_RETRY_MODE` and `AWS_MAX_ATTEMPTS`, as variables or in the shared config file.

use std::time::Duration;

use super::{Read, nothing_found};
use crate::{
    Beside, Refused,
    draft::{Draft, Jitter, Service},
    signals::Signals,
};

const KEYS: [&str; 2] = ["retry_mode", "max_attempts"];

/// Lines of `KEY=VALUE` or of an INI file: either has one of the two keys.
pub(super) fn is_it(text: &str) -> bool {
    lines(text).any(|(_, key, _)| KEYS.contains(&key.as_str())) && !text.contains('{')
}

/// The assignments of a file, with their lines; the name is without `export` and `AWS_`.
fn lines(text: &str) -> impl Iterator<Item = (u32, String, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (1u32..).zip(text.lines()).filter_map(|(number, line)| {
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (key, value) = line.split_once('=')?;
        let key = key.trim().to_lowercase();
        let key = key.strip_prefix("aws_").unwrap_or(&key).to_owned();
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        Some((number, key, value))
    })
}

#[derive(Default)]
struct Profile {
    mode: Option<(String, u32)>,
    attempts: Option<(u32, u32)>,
}

pub(super) fn read(text: &str) -> Result<Read, Refused> {
    let mut draft = Draft::foreign();
    let mut profiles: Vec<(String, Profile)> = vec![("default".to_owned(), Profile::default())];
    let mut found = false;
    let sections: Vec<(u32, String)> = (1u32..)
        .zip(text.lines())
        .filter_map(|(number, line)| {
            let name = line.trim().strip_prefix('[')?.split(']').next()?;
            Some((
                number,
                name.trim().trim_start_matches("profile ").trim().to_owned(),
            ))
        })
        .collect();
    for (line, key, value) in lines(text) {
        let section = sections.iter().rev().find(|(at, _)| *at < line);
        let name = section.map_or("default", |(_, name)| name.as_str());
        let place = profiles
            .iter()
            .position(|(known, _)| known == name)
            .unwrap_or_else(|| {
                profiles.push((name.to_owned(), Profile::default()));
                profiles.len() - 1
            });
        let profile = &mut profiles[place].1;
        match key.as_str() {
            "retry_mode" => {
                found = true;
                profile.mode = Some((value.to_lowercase(), line));
            }
            "max_attempts" => {
                found = true;
                match value.parse::<u32>() {
                    Ok(attempts) if attempts > 0 => profile.attempts = Some((attempts, line)),
                    _ => draft.lost(line, "`max_attempts` is not a number of attempts"),
                }
            }
            _ => {}
        }
    }
    if !found {
        return Err(nothing_found(
            "neither `AWS_RETRY_MODE` nor `AWS_MAX_ATTEMPTS`, nor `retry_mode` or `max_attempts` of a config file",
        ));
    }
    let mut beside = Beside::None;
    for (name, profile) in &profiles {
        if name != "default" && profile.mode.is_none() && profile.attempts.is_none() {
            continue;
        }
        let (mut service, adaptive) = read_profile(profile, &mut draft);
        let lines = [
            profile.attempts.map(|it| it.1),
            profile.mode.as_ref().map(|it| it.1),
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
    let (mode, line) = profile.mode.clone().unwrap_or_else(|| ("legacy".to_owned(), 1));
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
