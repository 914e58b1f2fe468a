//! The picture of a fleet: what arrived, and what was claimed.

use retryguard_core::time::nanos;

use super::{Found, print::seconds};
use crate::chart::{Figure, Panel, Piece};

pub(super) fn svg(found: &Found) -> String {
    let shown = (seconds(found.plan.shown.0), seconds(found.plan.shown.1));
    let in_hours = shown.1 >= 36_000.0;
    Figure {
        title: &found.plan.title,
        panels: vec![Panel {
            label: "attempts a second, relative to an even fleet without retries",
            x_label: if in_hours {
                "hours since the start"
            } else {
                "seconds since the start"
            },
            x_range: shown,
            x_ticks: ticks(shown, in_hours),
            lines: vec![vec![measured(found, shown)], claimed(found, shown)],
        }],
        names: vec!["simulated".to_owned(), "claimed".to_owned()],
    }
    .svg()
}

/// Steps of one height, with corners: a rate is that of a bin and not of a moment.
fn measured(found: &Found, (from, until): (f64, f64)) -> Piece {
    let factor = nanos(found.plan.shown_step) / nanos(found.first.step());
    let series = found.first.coarser(usize::try_from(factor).unwrap_or(1));
    let step = series.step().as_secs_f64();
    let mut line: Piece = Vec::new();
    for (index, rate) in series.rates().enumerate() {
        let (left, right) = (index as f64 * step, (index + 1) as f64 * step);
        if left < from || right > until {
            continue;
        }
        match line.last_mut() {
            Some(last) if last.1 == rate => last.0 = right,
            _ => line.extend([(left, rate), (right, rate)]),
        }
    }
    line
}

fn claimed(found: &Found, (from, until): (f64, f64)) -> Vec<Piece> {
    let spans = found.claims.iter().map(|(claim, _)| {
        let ends = (seconds(claim.from).max(from), seconds(claim.until).min(until));
        (ends, claim.rate)
    });
    spans
        .filter(|((left, right), _)| left < right)
        .map(|((left, right), rate)| vec![(left, rate), (right, rate)])
        .collect()
}

/// Marks at whole multiples of a step that people count in, ten at most.
fn ticks((from, until): (f64, f64), in_hours: bool) -> Vec<(f64, String)> {
    let steps = [
        60.0, 150.0, 300.0, 600.0, 900.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0,
    ];
    let enough = |step: &&f64| (until - from) / **step <= 12.0;
    let step = *steps.iter().find(enough).unwrap_or(&86_400.0);
    let mut at = (from / step).ceil() * step;
    let mut ticks = Vec::new();
    while at <= until {
        let text = if in_hours {
            format!("{:.0}:{:02.0}", (at / 3600.0).floor(), at % 3600.0 / 60.0)
        } else {
            format!("{at:.0}")
        };
        ticks.push((at, text));
        at += step;
    }
    ticks
}
