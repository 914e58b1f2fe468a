//! Runs as tables: for a terminal, for a page, and for other programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Figures, Machine, Outcome};
use crate::Configuration;

/// The format of the JSON that [`json()`] gives; another number where it changes.
pub const FORMAT: u32 = 2;

/// All runs for other programs, without their time lines.
#[must_use]
pub fn json(machine: &Machine, at_once: u8, outcomes: &[Outcome]) -> Value {
    let runs: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            let mut run = serde_json::to_value(outcome).unwrap_or_default();
            if let Value::Object(run) = &mut run {
                run.remove("seconds");
            }
            run
        })
        .collect();
    json!({
        "format": FORMAT,
        "machine": serde_json::to_value(machine).unwrap_or_default(),
        "at_once": at_once,
        "runs": runs,
    })
}

/// A column: its head, its key in CSV, its value for readers and for programs.
struct Column {
    title: &'static str,
    key: &'static str,
    shown: fn(&Figures) -> String,
    value: fn(&Figures) -> f64,
}

const fn column(
    title: &'static str,
    key: &'static str,
    shown: fn(&Figures) -> String,
    value: fn(&Figures) -> f64,
) -> Column {
    Column {
        title,
        key,
        shown,
        value,
    }
}

const COLUMNS: &[Column] = &[
    column("orders", "sent", |it| it.sent.to_string(), |it| it.sent as f64),
    column("success", "success", |it| percent(it.success), |it| it.success),
    column("P50 ms", "p50_ms", |it| whole(it.p50_ms), |it| it.p50_ms),
    column("P95 ms", "p95_ms", |it| whole(it.p95_ms), |it| it.p95_ms),
    column("P99 ms", "p99_ms", |it| whole(it.p99_ms), |it| it.p99_ms),
    column(
        "amplif.",
        "amplification",
        |it| format!("{:.2}", it.amplification),
        |it| it.amplification,
    ),
    column(
        "retries",
        "retries",
        |it| (it.retries + it.user_retries).to_string(),
        |it| (it.retries + it.user_retries) as f64,
    ),
    column(
        "breaker open",
        "breaker_open",
        |it| percent(it.breaker_open),
        |it| it.breaker_open,
    ),
    column(
        "gateway's",
        "gateway_breaker_open",
        |it| percent(it.gateway_breaker_open),
        |it| it.gateway_breaker_open,
    ),
    column(
        "guard off",
        "guard_off",
        |it| percent(it.guard_off),
        |it| it.guard_off,
    ),
    column(
        "MTTR s",
        "recovery_s",
        |it| it.recovery_s.map_or_else(|| "never".to_owned(), whole),
        |it| it.recovery_s.unwrap_or(f64::NAN),
    ),
    column(
        "bulkhead",
        "bulkhead_rejections",
        |it| it.bulkhead_rejections.to_string(),
        |it| it.bulkhead_rejections as f64,
    ),
    column("shed", "shed", |it| percent(it.shed), |it| it.shed),
    column(
        "errors",
        "errors",
        |it| percent(it.failed + it.lost),
        |it| it.failed + it.lost,
    ),
    column(
        "charged twice",
        "duplicate_charges",
        |it| it.effects.duplicate_charges().to_string(),
        |it| it.effects.duplicate_charges() as f64,
    ),
    column(
        "duplicate rate",
        "duplicate_rate",
        |it| percent(it.duplicate_rate),
        |it| it.duplicate_rate,
    ),
];

/// What only programs want.
const MORE: &[Column] = &[
    column("", "success_before", |_| String::new(), |it| it.success_before),
    column("", "success_after", |_| String::new(), |it| it.success_after),
    column("", "admitted_p95_ms", |_| String::new(), |it| it.admitted_p95_ms),
    column("", "payment_p50_ms", |_| String::new(), |it| it.payment_p50_ms),
    column("", "payment_p95_ms", |_| String::new(), |it| it.payment_p95_ms),
    column("", "bulkhead_share", |_| String::new(), |it| it.bulkhead_share),
    column(
        "",
        "shed_requests",
        |_| String::new(),
        |it| it.shed_requests as f64,
    ),
    column(
        "",
        "charged_orders",
        |_| String::new(),
        |it| it.effects.charged_orders as f64,
    ),
    column(
        "",
        "duplicate_orders",
        |_| String::new(),
        |it| it.effects.duplicate_orders() as f64,
    ),
    column(
        "",
        "duplicate_reservations",
        |_| String::new(),
        |it| it.effects.duplicate_reservations() as f64,
    ),
    column(
        "",
        "duplicate_notifications",
        |_| String::new(),
        |it| it.effects.duplicate_notifications() as f64,
    ),
];

/// A share as it is shown.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// Why a run has no numbers.
#[must_use]
pub fn lost(why: Option<&str>) -> String {
    format!("load not kept: {}", why.unwrap_or("no figures"))
}

/// A run in a line.
#[must_use]
pub fn line(outcome: &Outcome) -> String {
    let Some(figures) = &outcome.figures else {
        return lost(outcome.not_kept.as_deref());
    };
    let cells: Vec<String> = COLUMNS
        .iter()
        .map(|column| format!("{} {}", column.title, (column.shown)(figures)))
        .collect();
    cells.join(", ")
}

/// All runs for a terminal.
#[must_use]
pub fn terminal(outcomes: &[Outcome]) -> String {
    let mut rows = vec![
        ["fault", "config"]
            .into_iter()
            .chain(COLUMNS.iter().map(|column| column.title))
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    ];
    for outcome in outcomes {
        let mut row = vec![outcome.fault.clone(), outcome.configuration.clone()];
        match &outcome.figures {
            Some(figures) => row.extend(COLUMNS.iter().map(|column| (column.shown)(figures))),
            None => row.push(lost(outcome.not_kept.as_deref())),
        }
        rows.push(row);
    }
    let width = |place: usize| {
        rows.iter()
            .filter(|row| row.len() > 3)
            .filter_map(|row| row.get(place))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (place, cell) in row.iter().enumerate() {
            let width = widths[place];
            let gap = if place == 0 { "" } else { "  " };
            let _ = if place < 2 {
                write!(text, "{gap}{cell:<width$}")
            } else {
                write!(text, "{gap}{cell:>width$}")
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// The runs of one fault as Markdown.
#[must_use]
pub fn markdown<'r>(runs: impl Iterator<Item = (Configuration, &'r Outcome)>) -> String {
    let mut text = String::from("| config |");
    for column in COLUMNS {
        let _ = write!(text, " {} |", column.title);
    }
    text += "\n| --- |";
    text += &" ---: |".repeat(COLUMNS.len());
    text.push('\n');
    for (configuration, outcome) in runs {
        let _ = write!(text, "| {configuration} |");
        match &outcome.figures {
            Some(figures) => {
                for column in COLUMNS {
                    let _ = write!(text, " {} |", (column.shown)(figures));
                }
            }
            None => {
                let _ = write!(
                    text,
                    " {} |{}",
                    lost(outcome.not_kept.as_deref()),
                    " |".repeat(COLUMNS.len() - 1)
                );
            }
        }
        text.push('\n');
    }
    text
}

/// All runs as comma-separated values; a run that did not keep its load has none.
#[must_use]
pub fn csv(outcomes: &[Outcome]) -> String {
    let all = || COLUMNS.iter().chain(MORE);
    let keys: Vec<&str> = all().map(|column| column.key).collect();
    let mut text = format!(
        "fault,config,stores,scale,seed,policy,phases,load_average,worst_lag_ms,kept,{}\n",
        keys.join(",")
    );
    for outcome in outcomes {
        let _ = write!(
            text,
            "{},{},{},{},{},{},{},{},{:.1},{}",
            outcome.fault,
            outcome.configuration,
            outcome.stores,
            outcome.scale,
            outcome.seed,
            outcome.digest,
            outcome.phases,
            outcome.load_average,
            outcome.worst_lag_ms,
            outcome.figures.is_some()
        );
        for column in all() {
            text.push(',');
            let value = outcome.figures.as_ref().map(column.value);
            if let Some(value) = value.filter(|value| value.is_finite()) {
                let _ = write!(text, "{}", (value * 1e4).round() / 1e4);
            }
        }
        text.push('\n');
    }
    text
}
