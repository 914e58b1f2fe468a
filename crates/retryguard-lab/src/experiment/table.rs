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

/// The columns of a terminal that is not made for this table.
const TERMINAL: usize = 100;

/// All runs for a terminal: as many tables below each other as the columns need, and a sentence for each fault.
#[must_use]
pub fn terminal(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let mut left: &[Column] = COLUMNS;
    while !left.is_empty() {
        let widths: Vec<usize> = left.iter().map(|column| width(column, outcomes)).collect();
        let names = name_width(outcomes);
        let mut all = names;
        let fits = widths
            .iter()
            .take_while(|width| {
                all += **width + 2;
                all <= TERMINAL
            })
            .count()
            .max(1);
        if !text.is_empty() {
            text.push('\n');
        }
        block(&mut text, &left[..fits], &widths, names, outcomes);
        left = &left[fits..];
    }
    for fault in faults(outcomes) {
        if let Some(sentence) = verdict(fault, outcomes) {
            let _ = write!(text, "\n{sentence}\n");
        }
    }
    text
}

fn block(text: &mut String, columns: &[Column], widths: &[usize], names: usize, outcomes: &[Outcome]) {
    let _ = write!(text, "{:names$}", "fault, config");
    for (column, width) in columns.iter().zip(widths) {
        let _ = write!(text, "  {:>width$}", column.title);
    }
    text.push('\n');
    for outcome in outcomes {
        let _ = write!(text, "{:names$}", name(outcome));
        match &outcome.figures {
            Some(figures) => {
                for (column, width) in columns.iter().zip(widths) {
                    let _ = write!(text, "  {:>width$}", (column.shown)(figures));
                }
            }
            None => {
                let _ = write!(text, "  {}", lost(outcome.not_kept.as_deref()));
            }
        }
        text.push('\n');
    }
}

fn name(outcome: &Outcome) -> String {
    format!("{}, {}", outcome.fault, outcome.configuration)
}

fn name_width(outcomes: &[Outcome]) -> usize {
    outcomes
        .iter()
        .map(|outcome| name(outcome).chars().count())
        .chain(["fault, config".len()])
        .max()
        .unwrap_or(0)
}

fn width(column: &Column, outcomes: &[Outcome]) -> usize {
    outcomes
        .iter()
        .filter_map(|outcome| outcome.figures.as_ref())
        .map(|figures| (column.shown)(figures).chars().count())
        .chain([column.title.chars().count()])
        .max()
        .unwrap_or(0)
}

/// The faults, each once, in the order of the runs.
fn faults(outcomes: &[Outcome]) -> Vec<&str> {
    let mut faults = Vec::new();
    for outcome in outcomes {
        if !faults.contains(&outcome.fault.as_str()) {
            faults.push(&outcome.fault);
        }
    }
    faults
}

/// Who paid most under a fault, in a sentence; nothing where no run can be judged.
fn verdict(fault: &str, outcomes: &[Outcome]) -> Option<String> {
    let mut runs: Vec<(&str, f64, f64)> = outcomes
        .iter()
        .filter(|outcome| outcome.fault == fault)
        .filter_map(|outcome| {
            let figures = outcome.figures.as_ref()?;
            Some((
                outcome.configuration.as_str(),
                figures.success * 100.0,
                figures.amplification,
            ))
        })
        .collect();
    runs.sort_by(|a, b| b.1.total_cmp(&a.1));
    let [(best, most, attempts), .., (worst, least, _)] = runs[..] else {
        let (only, paid, attempts) = runs.first()?;
        return Some(format!(
            "{fault}: {only} paid {paid:.1} % of the orders, with {attempts:.2} attempts for each."
        ));
    };
    let near: Vec<&str> = runs[1..]
        .iter()
        .filter(|run| most - run.1 < 1.0)
        .map(|run| run.0)
        .collect();
    let beside = if near.is_empty() {
        String::new()
    } else {
        format!(" ({} within a point of it)", near.join(", "))
    };
    Some(format!(
        "{fault}: {best} paid the most orders, {most:.1} %{beside}, with {attempts:.2} attempts for each; {worst} paid {least:.1} %."
    ))
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
