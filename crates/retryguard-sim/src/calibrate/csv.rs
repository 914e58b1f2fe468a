//! A file of requests, one a line.

use std::time::Duration;

use super::{Observed, Window};

/// A mistake in a file of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl std::fmt::Display for CsvError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for CsvError {}

/// The most windows that a file is cut into.
const MOST_WINDOWS: usize = 1_000;

/// The bounds of latencies go from 0.1 ms in steps of 5 % to an hour.
fn bounds() -> Vec<f64> {
    std::iter::successors(Some(1e-4), |bound| Some(bound * 1.05))
        .take_while(|bound| *bound < 3_600.0)
        .chain([f64::INFINITY])
        .collect()
}

/// Reads requests from a CSV file with the columns `time` (in seconds, from any moment), `duration` (in seconds) or
/// `duration_ms`, and `status` (an HTTP status, or `ok` and `error`), in any order and beside others.
///
/// # Errors
/// With the line and the cure.
pub fn read_csv(text: &str, every: Duration) -> Result<Observed, CsvError> {
    let at = |line: usize, reason: &str| CsvError {
        line,
        reason: reason.to_owned(),
    };
    let mut lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty());
    let Some((first, header)) = lines.next() else {
        return Err(at(1, "the file is empty: begin with `time,duration,status`"));
    };
    let names: Vec<String> = cells(header)
        .iter()
        .map(|name| name.to_ascii_lowercase())
        .collect();
    let column = |name: &str| names.iter().position(|known| known == name);
    let (duration, unit) = match (column("duration"), column("duration_ms")) {
        (Some(place), _) => (place, 1.0),
        (None, Some(place)) => (place, 1e-3),
        (None, None) => return Err(at(first, "there is no column `duration` or `duration_ms`")),
    };
    let Some(time) = column("time") else {
        return Err(at(
            first,
            "there is no column `time`: the moment of each request in seconds",
        ));
    };
    let status = column("status");
    let mut requests = Vec::new();
    for (number, line) in lines {
        let cells = cells(line);
        let value = |place: usize, name: &str| {
            cells
                .get(place)
                .and_then(|cell| cell.parse::<f64>().ok())
                .filter(|value| value.is_finite())
                .ok_or_else(|| at(number, &format!("`{name}` is not a number")))
        };
        let (moment, took) = (value(time, "time")?, value(duration, "duration")? * unit);
        if took < 0.0 {
            return Err(at(number, "a duration below zero"));
        }
        let failed = match status.and_then(|place| cells.get(place)) {
            None => false,
            Some(word) => failed(word)
                .ok_or_else(|| at(number, "`status` is neither an HTTP status nor `ok` nor `error`"))?,
        };
        requests.push((moment, took, failed));
    }
    Ok(windows(&requests, every))
}

/// The cells of a line. A comma between quotes is a part of its cell.
fn cells(line: &str) -> Vec<&str> {
    let mut quoted = false;
    let separates = |letter: char| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    };
    line.split(separates)
        .map(|cell| cell.trim().trim_matches('"'))
        .collect()
}

fn failed(word: &str) -> Option<bool> {
    match word {
        "ok" | "success" | "true" => Some(false),
        "error" | "failure" | "false" => Some(true),
        _ => word
            .parse::<u16>()
            .ok()
            .filter(|status| (100..600).contains(status))
            .map(|status| status >= 500 || status == 429),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and bounded by the number of windows"
)]
fn windows(requests: &[(f64, f64, bool)], every: Duration) -> Observed {
    let begin = requests
        .iter()
        .map(|request| request.0)
        .fold(f64::INFINITY, f64::min);
    let end = requests
        .iter()
        .map(|request| request.0)
        .fold(f64::NEG_INFINITY, f64::max);
    let span = (end - begin).max(0.0);
    let every = every.as_secs_f64().max(span / MOST_WINDOWS as f64).max(1e-3);
    let bounds = bounds();
    let empty = Window {
        buckets: bounds.iter().map(|bound| (*bound, 0.0)).collect(),
        ..Window::default()
    };
    let count = if requests.is_empty() {
        0
    } else {
        (span / every) as usize + 1
    };
    let mut windows = vec![empty; count];
    for (moment, took, failed) in requests {
        let window = &mut windows[(((moment - begin) / every) as usize).min(count - 1)];
        window.requests += 1.0;
        window.failures += f64::from(u8::from(*failed));
        window.seconds += took;
        for (bound, below) in &mut window.buckets {
            if *took <= *bound {
                *below += 1.0;
            }
        }
    }
    // The last window ends when the file does, and not when the window would.
    if windows.len() > 2 {
        windows.pop();
    }
    Observed {
        windows,
        every: Duration::from_secs_f64(every),
    }
}
