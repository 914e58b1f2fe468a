//! The scenario as a file.

use std::{fmt::Write as _, time::Duration};

use super::{Fitted, Known, Observed, Shape};

/// The most values of the trace.
const MOST_VALUES: usize = 300;

pub(super) fn scenario(
    observed: &Observed,
    known: &Known,
    shape: &Shape,
    fit: &[Fitted],
    notes: &[String],
) -> String {
    let mut out = format!("# Written by `retryguard calibrate` from {}.\n", known.source);
    for note in notes {
        // Writing into a string cannot fail.
        let _ = writeln!(out, "# Note: {note}.");
    }
    if !fit.is_empty() {
        out += "#\n# The fit, without retries:           observed  simulated\n";
        for row in fit {
            let name = format!("{} ({})", row.name, row.unit);
            let _ = writeln!(
                out,
                "#   {name:32} {:>10.1} {:>10.1}",
                row.observed, row.simulated
            );
        }
    }
    let replicas = known.replicas.max(1);
    let name = quoted(&known.service);
    let (every, values) = trace(observed);
    let _ = write!(
        out,
        "name: {name}\nduration: {}\nservices:\n  {name}:\n",
        span(observed.length())
    );
    if replicas > 1 {
        let _ = writeln!(out, "    replicas: {replicas}");
    }
    let _ = writeln!(out, "    workers: {}", shape.workers.div_ceil(replicas).max(1));
    if let Some(queue) = shape.queue {
        let _ = writeln!(out, "    queue: {queue}");
    }
    let _ = writeln!(
        out,
        "    time: {{logNormal: {{median: {}, p95: {}}}}}",
        millis(shape.work.median),
        millis(shape.work.p95())
    );
    if shape.errors > 0.0005 {
        let _ = writeln!(out, "    errors: {:.2}%", shape.errors * 100.0);
    }
    let values: Vec<String> = values.iter().map(|value| format!("{value:.2}")).collect();
    let _ = write!(
        out,
        "clients:\n  callers:\n    calls: {name}\n    rate:\n      every: {}\n      times: 1\n      values: [{}]\n    deadline: {}\n\
         policies: [none, retryguard]\n\
         # Other loads:\n# sweep: {{key: clients.callers.rate.times, values: [0.5, 1, 1.5, 2]}}\n",
        span(every),
        values.join(", "),
        span(shape.deadline)
    );
    out
}

/// The arrivals a second: every window, or the mean of several where there are many.
fn trace(observed: &Observed) -> (Duration, Vec<f64>) {
    let joined = observed.windows.len().div_ceil(MOST_VALUES).max(1);
    let every = observed.every * u32::try_from(joined).unwrap_or(u32::MAX);
    let values = observed
        .windows
        .chunks(joined)
        .map(|windows| {
            let requests: f64 = windows.iter().map(|window| window.requests).sum();
            requests / (observed.every.as_secs_f64() * windows.len() as f64).max(1e-9)
        })
        .collect();
    (every, values)
}

fn quoted(name: &str) -> String {
    let plain = !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_');
    if plain && !name.starts_with(|letter: char| letter.is_ascii_digit()) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace(['"', '\\', '\n'], "_"))
    }
}

/// To the microsecond, in milliseconds.
fn millis(seconds: f64) -> String {
    let text = format!("{:.3}", (seconds * 1e3).max(0.001));
    format!("{}ms", text.trim_end_matches('0').trim_end_matches('.'))
}

/// To the millisecond, in seconds where that needs no fraction.
fn span(duration: Duration) -> String {
    match duration.as_millis().max(1) {
        whole if whole % 1000 == 0 => format!("{}s", whole / 1000),
        millis => format!("{millis}ms"),
    }
}
