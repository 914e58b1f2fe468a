//! Pictures: what became of orders, and what arrived at the service in focus, over time.

use retryguard_lab::{
    Configuration,
    experiment::{Outcome, Second, Trouble},
};

use super::results::Results;
use retryguard_report::chart::{Figure, Panel, Piece};

/// A point stands for so many seconds: the 20 users send about 17 orders in one.
const STEP: usize = 5;

/// The time line of a fault: none where no run of it kept its load.
pub(super) fn of(results: &Results, trouble: Trouble) -> Option<String> {
    let kept: Vec<(Configuration, &Outcome)> = results
        .of(trouble)
        .filter(|(_, outcome)| outcome.figures.is_some())
        .collect();
    let phases = kept.first()?.1.phases;
    let end = phases.length().as_secs_f64();
    let (from, until) = phases.window();
    let panel = |label, value: &dyn Fn(&[Second]) -> Option<f64>| Panel {
        label,
        x_label: "seconds; the fault lasts between the two inner marks",
        x_range: (0.0, end),
        x_ticks: [0.0, from.as_secs_f64(), until.as_secs_f64(), end]
            .map(|tick| (tick, tick.to_string()))
            .to_vec(),
        lines: kept
            .iter()
            .map(|(_, outcome)| vec![piece(&outcome.seconds, value)])
            .collect(),
    };
    let arrivals = match trouble.focus() {
        retryguard_lab::Name::Inventory => "requests a second at inventory",
        _ => "requests a second at payments",
    };
    let title = format!("{trouble}: orders paid, and what it costs");
    let figure = Figure {
        title: &title,
        panels: vec![
            panel("% of the orders paid", &|part| {
                let (sent, paid) = part
                    .iter()
                    .fold((0, 0), |(sent, paid), it| (sent + it.sent, paid + it.paid));
                (sent > 0).then(|| 100.0 * paid as f64 / sent as f64)
            }),
            panel(arrivals, &|part| {
                let arrived: u64 = part.iter().map(|it| it.arrived).sum();
                Some(arrived as f64 / part.len() as f64)
            }),
        ],
        names: kept
            .iter()
            .map(|(configuration, _)| format!("{configuration}: {}", short(*configuration)))
            .collect(),
    };
    Some(figure.svg())
}

/// What a configuration adds to the one before it, short enough for a legend.
const fn short(configuration: Configuration) -> &'static str {
    match configuration {
        Configuration::A => "no resilience",
        Configuration::B => "immediate retries",
        Configuration::C => "timeouts, back-off",
        Configuration::D => "breakers",
        Configuration::E => "bulkheads, shedding",
        Configuration::F => "keys, outbox",
        Configuration::G => "RetryGuard",
    }
}

fn piece(seconds: &[Second], value: &dyn Fn(&[Second]) -> Option<f64>) -> Piece {
    seconds
        .chunks(STEP)
        .enumerate()
        .filter_map(|(place, part)| {
            let middle = (place * STEP) as f64 + part.len() as f64 / 2.0;
            Some((middle, value(part)?))
        })
        .collect()
}
