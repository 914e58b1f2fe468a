//! The pictures of a report: what happened when, and how a sweep came out.

use retryguard_sim::{
    comparison::{Kind, Summary, column},
    engine::Moment,
    world::Service,
};

use super::{Outcome, strips};
use crate::chart::{Figure, Panel, Piece};

/// Every picture that says something, by the name of its file.
pub(super) fn all(outcome: &Outcome) -> Vec<(String, String)> {
    if !outcome.sweep.is_empty() {
        return swept(outcome);
    }
    let world = &outcome.scenario.world;
    let focus = world.focus;
    let name = &world.services[focus].name;
    let step = world.step.as_secs_f64();
    let per_second = |count: u32| f64::from(count) / step;
    let mut pictures = vec![
        over_time(
            outcome,
            "rates",
            "Calls",
            &[
                ("calls that succeeded, a second", &|it: &Moment| {
                    per_second(it.successes)
                }),
                ("calls that failed, a second", &|it: &Moment| {
                    per_second(it.failures)
                }),
            ],
        ),
        over_time(
            outcome,
            "attempts",
            &format!("Requests at {name}"),
            &[
                ("requests a second", &|it: &Moment| per_second(it.attempts[focus])),
                ("of these sent again, a second", &|it: &Moment| {
                    per_second(it.retries[focus])
                }),
            ],
        ),
        over_time(
            outcome,
            "latency",
            "How long calls took",
            &[
                ("mean, in seconds", &|it: &Moment| {
                    it.latency.mean().unwrap_or(0.0) / 1e9
                }),
                ("95th percentile, in seconds", &|it: &Moment| {
                    it.latency.quantile(0.95).map_or(0.0, |nanos| nanos as f64 / 1e9)
                }),
            ],
        ),
    ];
    let moments = || {
        outcome
            .policies
            .iter()
            .flat_map(|summary| &summary.first.lines.steps)
    };
    let guards: Reading<'_> = ("retries held back by guards, percent", &|it: &Moment| {
        100.0 * it.state.guard_off
    });
    let breakers: Reading<'_> = ("breakers that are open, percent", &|it: &Moment| {
        100.0 * it.state.breaker_open
    });
    let states: Vec<Reading<'_>> = [guards, breakers]
        .into_iter()
        .filter(|(_, reading)| moments().any(|it| reading(it) > 0.0))
        .collect();
    if !states.is_empty() {
        pictures.push(over_time(
            outcome,
            "state",
            &format!("What protects {name}"),
            &states,
        ));
    }
    pictures.extend(strips::picture(outcome));
    let scaled = world.services.iter().position(|service| service.scaler.is_some());
    if let Some(scaled) = world.services[focus].scaler.as_ref().map(|_| focus).or(scaled) {
        let total = |it: &Moment| it.sizes.iter().sum::<f64>();
        let title = format!("Size of {}", world.services[scaled].name);
        let size: Reading<'_> = ("replicas, or capacity a second", &|it: &Moment| it.sizes[scaled]);
        let kind = |service: &Service| std::mem::discriminant(&service.station);
        let alike = world
            .services
            .iter()
            .all(|service| kind(service) == kind(&world.services[scaled]));
        // Replicas and capacity do not add up to anything.
        let both: &[Reading<'_>] = &[size, ("of all services together", &total)];
        let shown = if alike && world.services.len() > 1 { 2 } else { 1 };
        pictures.push(over_time(outcome, "size", &title, &both[..shown]));
    }
    if moments().any(|it| it.bill > 0.0) {
        pictures.push(over_time(
            outcome,
            "bill",
            "The bill",
            &[("so far", &|it: &Moment| it.bill)],
        ));
    }
    pictures
}

type Reading<'a> = (&'a str, &'a dyn Fn(&Moment) -> f64);

/// One or two panels over time, with a line for each policy.
fn over_time(outcome: &Outcome, file: &str, title: &str, readings: &[Reading<'_>]) -> (String, String) {
    let ends = ends(outcome);
    let panels = readings
        .iter()
        .map(|(label, reading)| Panel {
            label,
            x_label: "seconds since the start",
            x_range: (0.0, ends),
            x_ticks: ticks(ends),
            lines: outcome
                .policies
                .iter()
                .map(|summary| vec![line(summary, ends, *reading)])
                .collect(),
        })
        .collect();
    let figure = Figure {
        title,
        panels,
        names: outcome
            .policies
            .iter()
            .map(|summary| summary.name.clone())
            .collect(),
    };
    (format!("{file}.svg"), figure.svg())
}

/// When the last run had ended: a measurement that ends early leaves nothing to show after it.
pub(super) fn ends(outcome: &Outcome) -> f64 {
    let world = &outcome.scenario.world;
    let whole = world.duration.as_secs_f64();
    let last = |summary: &Summary| {
        let looked = summary
            .first
            .lines
            .steps
            .iter()
            .filter(|it| it.sizes.iter().any(|size| *size > 0.0));
        looked.count() as f64 * summary.first.lines.step
    };
    outcome
        .policies
        .iter()
        .map(last)
        .fold(0.0, f64::max)
        .clamp(1.0, whole.max(1.0))
}

fn line(summary: &Summary, ends: f64, reading: &dyn Fn(&Moment) -> f64) -> Piece {
    let step = summary.first.lines.step;
    let steps = summary.first.lines.steps.iter().enumerate();
    // The last step of a run that ended early holds no look at the sizes.
    steps
        .map(|(index, moment)| ((index as f64 + 0.5) * step, moment))
        .take_while(|(at, moment)| *at < ends && moment.sizes.iter().any(|size| *size > 0.0))
        .map(|(at, moment)| (at, reading(moment)))
        .collect()
}

/// Marks at whole multiples of a step that people count in, eight at most.
pub(super) fn ticks(ends: f64) -> Vec<(f64, String)> {
    const STEPS: [f64; 12] = [
        1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0, 7200.0, 36_000.0,
    ];
    let fits = |step: &&f64| ends / **step <= 8.0;
    let step = STEPS.iter().find(fits).copied().unwrap_or(ends / 4.0);
    let mut marks = Vec::new();
    let mut at = 0.0;
    while at <= ends {
        marks.push((at, format!("{at:.0}")));
        at += step;
    }
    marks
}

/// The main columns over the values of a sweep.
fn swept(outcome: &Outcome) -> Vec<(String, String)> {
    let key = outcome
        .scenario
        .sweep
        .as_ref()
        .map_or("", |sweep| sweep.key.as_str());
    let places: Vec<f64> = outcome
        .sweep
        .iter()
        .enumerate()
        .map(|(index, (value, _))| value.trim_end_matches('%').parse().unwrap_or(index as f64))
        .collect();
    let range = places
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &it| {
            (low.min(it), high.max(it))
        });
    let panel = |column_key: &'static str| {
        let column = column(column_key)?;
        let scale = if column.kind == Kind::Share { 100.0 } else { 1.0 };
        let line = |policy: usize| -> Vec<Piece> {
            let points = outcome.sweep.iter().zip(&places);
            vec![
                points
                    .map(|((_, summaries), &at)| (at, scale * summaries[policy].mean(column_key)))
                    .collect(),
            ]
        };
        Some(Panel {
            label: if column.kind == Kind::Share {
                "calls that succeed, percent"
            } else {
                column.title
            },
            x_label: key,
            x_range: range,
            x_ticks: outcome
                .sweep
                .iter()
                .zip(&places)
                .map(|((value, _), &at)| (at, value.clone()))
                .collect(),
            lines: (0..outcome.policies.len()).map(line).collect(),
        })
    };
    let figure = Figure {
        title: &outcome.scenario.name,
        panels: ["successRate", "retriesPerCall"]
            .into_iter()
            .filter_map(panel)
            .collect(),
        names: outcome
            .policies
            .iter()
            .map(|summary| summary.name.clone())
            .collect(),
    };
    vec![("sweep.svg".to_owned(), figure.svg())]
}
