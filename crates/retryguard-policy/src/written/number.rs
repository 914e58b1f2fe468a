//! Numbers with their units, read exactly: no float stands between the file and a ratio or a duration.

use std::{ops::RangeInclusive, time::Duration};

use retryguard_core::Ratio;
use serde_json::json;

use super::{Form, Written, scalar, wrong};
use crate::{diagnostics::Mistakes, yaml::Node};

pub(crate) use crate::kind::PATTERN as DURATION_PATTERN;

/// Decimal digits with up to nine decimals, in billionths; `None` where it is anything else.
fn billionths(text: &str) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let dangling = text.ends_with('.') || whole.is_empty();
    if dangling || whole.len() > 15 || part.len() > 9 || !digits(whole) || !digits(part) {
        return None;
    }
    let whole: u128 = whole.parse().ok()?;
    let part: u128 = format!("{part:0<9}").parse().ok()?;
    Some(whole * u128::from(Ratio::PARTS) + part)
}

/// A duration such as `100ms`, `1.5s` or `1m30s`; a bare `0` needs no unit.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, tail) = rest.split_at(number);
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        nanos += billionths(digits)? * unit / u128::from(Ratio::PARTS);
        rest = tail;
    }
    (!text.is_empty()).then_some(())?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

/// A duration as it would be written.
pub(crate) fn shown(span: Duration) -> String {
    const UNITS: [(u128, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let nanos = span.as_nanos();
    let fitting = UNITS
        .iter()
        .find(|(unit, _)| nanos > 0 && nanos.is_multiple_of(*unit));
    fitting.map_or_else(
        || "0".to_owned(),
        |(unit, name)| format!("{}{name}", nanos / unit),
    )
}

/// A ratio as a share, such as `20%`.
pub(crate) fn shown_share(ratio: Ratio) -> String {
    format!("{}%", shown_parts(ratio.parts() * 100))
}

fn shown_parts(parts: u64) -> String {
    let (whole, part) = (parts / Ratio::PARTS, parts % Ratio::PARTS);
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{}", format!("{part:09}").trim_end_matches('0'))
}

fn ratio(parts: u128, limits: &RangeInclusive<Ratio>) -> Option<Ratio> {
    let ratio = Ratio::from_parts(u64::try_from(parts).ok()?);
    limits.contains(&ratio).then_some(ratio)
}

/// A share: `20%`, or `0.2`. A bare whole number is refused, because `1` could mean one percent or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share(pub(crate) Ratio);

fn share(text: &str, limits: &RangeInclusive<Ratio>) -> Option<Ratio> {
    match text.strip_suffix('%') {
        Some(percent) => ratio(billionths(percent.trim_end())? / 100, limits),
        None if text.contains('.') || text == "0" => ratio(billionths(text)?, limits),
        None => None,
    }
}

impl Written for Share {
    type Limits = RangeInclusive<Ratio>;

    fn read(node: &Node, key: &str, limits: &Self::Limits, mistakes: &mut Mistakes) -> Option<Self> {
        let words = Self::form(limits).words;
        let (text, _) = scalar(node, key, &words, mistakes)?;
        let found = share(text, limits);
        if found.is_none() {
            wrong(node, key, &words, mistakes);
        }
        found.map(Self)
    }

    fn form(limits: &Self::Limits) -> Form {
        let (least, most) = (shown_share(*limits.start()), shown_share(*limits.end()));
        let (low, high) = (limits.start().as_f64(), limits.end().as_f64());
        Form::new(
            format!("a share from {least} to {most}, such as 20% or 0.2"),
            json!({"anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,9})?%$"},
                {"type": "number", "minimum": low, "maximum": high},
            ]}),
        )
    }
}

/// A plain number, such as a multiplier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Factor(pub(crate) Ratio);

impl Written for Factor {
    type Limits = RangeInclusive<Ratio>;

    fn read(node: &Node, key: &str, limits: &Self::Limits, mistakes: &mut Mistakes) -> Option<Self> {
        let words = Self::form(limits).words;
        let (text, plain) = scalar(node, key, &words, mistakes)?;
        let found = billionths(text)
            .filter(|_| plain)
            .and_then(|parts| ratio(parts, limits));
        if found.is_none() {
            wrong(node, key, &words, mistakes);
        }
        found.map(Self)
    }

    fn form(limits: &Self::Limits) -> Form {
        let (least, most) = (
            shown_parts(limits.start().parts()),
            shown_parts(limits.end().parts()),
        );
        Form::new(
            format!("a number from {least} to {most}"),
            json!({"type": "number", "minimum": limits.start().as_f64(), "maximum": limits.end().as_f64()}),
        )
    }
}

/// Either a share or a duration: what a guard compares, or what a hedge waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Share(Ratio),
    Span(Duration),
}

impl Written for Level {
    type Limits = (RangeInclusive<Ratio>, RangeInclusive<Duration>);

    fn read(node: &Node, key: &str, limits: &Self::Limits, mistakes: &mut Mistakes) -> Option<Self> {
        let words = Self::form(limits).words;
        let (text, _) = scalar(node, key, &words, mistakes)?;
        let span = || duration(text).filter(|span| limits.1.contains(span));
        let found = share(text, &limits.0)
            .map(Self::Share)
            .or_else(|| span().map(Self::Span));
        if found.is_none() {
            wrong(node, key, &words, mistakes);
        }
        found
    }

    fn form((shares, spans): &Self::Limits) -> Form {
        let (share, span) = (Share::form(shares), Duration::form(spans));
        Form::new(
            format!("{}; or {}", share.words, span.words),
            json!({"anyOf": [share.schema, span.schema]}),
        )
    }
}

/// A number of bytes: `64KiB`, `1MiB`, or bare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

impl Written for Size {
    type Limits = RangeInclusive<usize>;

    fn read(node: &Node, key: &str, limits: &Self::Limits, mistakes: &mut Mistakes) -> Option<Self> {
        let words = Self::form(limits).words;
        let (text, _) = scalar(node, key, &words, mistakes)?;
        let found = size(text).filter(|size| limits.contains(size));
        if found.is_none() {
            wrong(node, key, &words, mistakes);
        }
        found.map(Self)
    }

    fn form(limits: &Self::Limits) -> Form {
        let most = limits.end() / (1024 * 1024);
        Form::new(
            format!("a number of bytes up to {most}MiB, such as 64KiB"),
            json!({"anyOf": [
                {"type": "integer", "minimum": limits.start(), "maximum": limits.end()},
                {"type": "string", "pattern": "^[0-9]+(B|KiB|MiB)$"},
            ]}),
        )
    }
}

fn size(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1024,
        "MiB" => 1024 * 1024,
        _ => return None,
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse::<usize>().ok())??.checked_mul(unit)
}

impl Written for u32 {
    type Limits = RangeInclusive<u32>;

    fn read(node: &Node, key: &str, limits: &Self::Limits, mistakes: &mut Mistakes) -> Option<Self> {
        let words = Self::form(limits).words;
        let (text, plain) = scalar(node, key, &words, mistakes)?;
        let digits = plain && text.bytes().all(|byte| byte.is_ascii_digit());
        let found = digits
            .then(|| text.parse().ok())
            .flatten()
            .filter(|count| limits.contains(count));
        if found.is_none() {
            wrong(node, key, &words, mistakes);
        }
        found
    }

    fn form(limits: &Self::Limits) -> Form {
        Form::new(
            format!("a whole number from {} to {}", limits.start(), limits.end()),
            json!({"type": "integer", "minimum": limits.start(), "maximum": limits.end()}),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        let expected = [
            ("100ms", 100_000_000),
            ("1.5s", 1_500_000_000),
            ("2m", 120_000_000_000),
            ("1m30s", 90_000_000_000),
            ("0.000000001s", 1),
            ("10ns", 10),
            ("250us", 250_000),
            ("24h", 86_400_000_000_000),
            ("0", 0),
            ("0s", 0),
        ];
        for (text, nanos) in expected {
            assert_eq!(duration(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for text in [
            "",
            "100",
            "s",
            "1.s",
            ".5s",
            "-1s",
            "1 s",
            "1d",
            "1s2",
            "1.5.5s",
            "1e3s",
            "99999999999999999h",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for nanos in [
            1,
            999,
            1_000,
            1_500_000_000,
            60_000_000_000,
            86_400_000_000_000,
            0,
        ] {
            let span = Duration::from_nanos(nanos);
            assert_eq!(duration(&shown(span)), Some(span));
        }
        let limits = Ratio::ZERO..=Ratio::percent(1000);
        for parts in [0, 1_000, 200_000_000, 333_333_330, 1_500_000_000] {
            let ratio = Ratio::from_parts(parts);
            assert_eq!(share(&shown_share(ratio), &limits), Some(ratio));
        }
    }

    /// `1` could be one percent or all of it, and the two are a storm apart.
    #[test]
    fn a_share_is_never_ambiguous() {
        let limits = Ratio::ZERO..=Ratio::ONE;
        assert_eq!(share("20%", &limits), Some(Ratio::percent(20)));
        assert_eq!(share("0.2", &limits), Some(Ratio::percent(20)));
        assert_eq!(share("1.0", &limits), Some(Ratio::ONE));
        assert_eq!(share("0", &limits), Some(Ratio::ZERO));
        assert_eq!(share("12.5%", &limits), Some(Ratio::from_parts(125_000_000)));
        for text in ["1", "20", "101%", "1.1", "-5%", "%", "", "abc%"] {
            assert_eq!(share(text, &limits), None, "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("64KiB"), Some(65536));
        assert_eq!(size("1MiB"), Some(1 << 20));
        assert_eq!(size("10"), Some(10));
        for text in ["", "KiB", "1kb", "-1", "1.5KiB", "99999999999999999999"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
