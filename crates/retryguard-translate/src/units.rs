//! Durations in the spellings of the systems that are read and written.

use std::time::Duration;

/// The longest time that a policy knows.
pub(crate) const LONGEST: Duration = Duration::from_secs(86_400);

/// A duration: `1.5s`, `250ms`, `1m30s`, `PT1.5S` (Java), `00:00:01.5` (.NET), or a bare number of `bare`.
pub(crate) fn duration(text: &str, bare: Duration) -> Option<Duration> {
    let text = text.trim();
    if let Some(iso) = text.strip_prefix("PT").or_else(|| text.strip_prefix("pt")) {
        return go(&iso.to_lowercase());
    }
    if text.contains(':') {
        return clock(text);
    }
    if let Ok(number) = text.parse::<f64>() {
        return times(bare, number);
    }
    go(text)
}

/// Go's and Envoy's spelling: numbers with units, one after the other.
fn go(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ns" => Duration::from_nanos(1),
            "us" | "µs" => Duration::from_micros(1),
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            "d" => Duration::from_secs(86_400),
            _ => return None,
        };
        sum = sum.checked_add(times(unit, number)?)?;
        rest = &rest[letters..];
    }
    (!text.is_empty()).then_some(sum)
}

/// `[d.]hh:mm[:ss[.fffffff]]`.
fn clock(text: &str) -> Option<Duration> {
    let (days, rest) = match text.split_once(':')?.0.split_once('.') {
        Some((days, _)) => (days.parse::<f64>().ok()?, &text[days.len() + 1..]),
        None => (0.0, text),
    };
    let mut parts = rest.split(':');
    let mut part = || -> Option<f64> { parts.next().map_or(Some(0.0), |part| part.parse().ok()) };
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    times(
        Duration::from_secs(1),
        days * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds,
    )
}

/// Rounded to the nearest nanosecond, so that 0.1 s is 100 ms.
fn times(unit: Duration, number: f64) -> Option<Duration> {
    let nanos = unit.as_nanos() as f64 * number;
    if !(0.0..9e18).contains(&nanos) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked just before"
    )]
    Some(Duration::from_nanos(nanos.round() as u64))
}

/// As a policy writes it: in the largest unit that needs no fraction.
pub(crate) fn written(span: Duration) -> String {
    let nanos = span.as_nanos();
    match nanos {
        0 => "0".to_owned(),
        _ if nanos.is_multiple_of(1_000_000_000) => format!("{}s", nanos / 1_000_000_000),
        _ if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1_000) => format!("{}us", nanos / 1_000),
        _ => format!("{nanos}ns"),
    }
}

/// As protobuf's JSON writes it: seconds with up to nine digits.
pub(crate) fn protobuf(span: Duration) -> String {
    let (seconds, nanos) = (span.as_secs(), span.subsec_nanos());
    if nanos == 0 {
        return format!("{seconds}s");
    }
    let digits = format!("{nanos:09}");
    format!("{seconds}.{}s", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_read() {
        let milli = Duration::from_millis;
        for (text, expected) in [
            ("1.5s", milli(1500)),
            ("0.1s", milli(100)),
            ("250ms", milli(250)),
            ("1m30s", milli(90_000)),
            ("PT1.5S", milli(1500)),
            ("00:00:01.5", milli(1500)),
            ("1.02:00:00", milli(93_600_000)),
            ("500", milli(500)),
        ] {
            assert_eq!(duration(text, milli(1)), Some(expected), "{text}");
        }
        for text in ["", "x", "1 parsec", "-1s", "1s2", "::", "1e400"] {
            assert_eq!(duration(text, milli(1)), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for nanos in [0, 1, 1_000, 25_000_000, 1_500_000_000, 86_400_000_000_000] {
            let span = Duration::from_nanos(nanos);
            assert_eq!(duration(&written(span), Duration::ZERO), Some(span));
            assert_eq!(duration(&protobuf(span), Duration::ZERO), Some(span));
        }
    }
}
