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

/// A column of the terminal: its head, and a cell for each run that has figures.
struct Shown {
    title: &'static str,
    cells: Vec<Option<String>>,
}

impl Shown {
    fn new(title: &'static str, outcomes: &[Outcome], shown: impl Fn(&Outcome, &Figures) -> String) -> Self {
        let cell = |outcome: &Outcome| outcome.figures.as_ref().map(|figures| shown(outcome, figures));
        Self {
            title,
            cells: outcomes.iter().map(cell).collect(),
        }
    }

    fn width(&self) -> usize {
        self.cells
            .iter()
            .flatten()
            .map(|cell| cell.chars().count())
            .chain([self.title.chars().count()])
            .max()
            .unwrap_or(0)
    }
}

/// Where goodput stands: behind orders and success, of which it is the product.
const GOODPUT: usize = 2;

/// All runs for a terminal: as many tables below each other as the columns need, and a sentence for each fault.
#[must_use]
pub fn terminal(outcomes: &[Outcome]) -> String {
    let mut columns: Vec<Shown> = COLUMNS
        .iter()
        .map(|column| Shown::new(column.title, outcomes, |_, figures| (column.shown)(figures)))
        .collect();
    let goodput = |outcome: &Outcome, figures: &Figures| format!("{:.1}/s", goodput(outcome, figures));
    columns.insert(GOODPUT, Shown::new("goodput", outcomes, goodput));
    let mut text = String::new();
    let mut left = &columns[..];
    while !left.is_empty() {
        let names = name_width(outcomes);
        let mut all = names;
        let fits = left
            .iter()
            .take_while(|column| {
                all += column.width() + 2;
                all <= TERMINAL
            })
            .count()
            .max(1);
        if !text.is_empty() {
            text.push('\n');
        }
        block(&mut text, &left[..fits], names, outcomes);
        left = &left[fits..];
    }
    for fault in faults(outcomes) {
        let _ = write!(text, "\n{}\n", verdict(fault, outcomes));
    }
    text
}

/// Paid orders in a described second of the fault.
fn goodput(outcome: &Outcome, figures: &Figures) -> f64 {
    figures.sent as f64 * figures.success / (outcome.phases.fault.max(1)) as f64
}

fn block(text: &mut String, columns: &[Shown], names: usize, outcomes: &[Outcome]) {
    let _ = write!(text, "{:names$}", "fault, config");
    for column in columns {
        let _ = write!(text, "  {:>width$}", column.title, width = column.width());
    }
    text.push('\n');
    for (row, outcome) in outcomes.iter().enumerate() {
        let _ = write!(text, "{:names$}", name(outcome));
        if outcome.figures.is_none() {
            let _ = write!(text, "  {}", lost(outcome.not_kept.as_deref()));
        }
        for column in columns {
            if let Some(cell) = &column.cells[row] {
                let _ = write!(text, "  {cell:>width$}", width = column.width());
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

/// Who paid most under a fault, in a sentence.
fn verdict(fault: &str, outcomes: &[Outcome]) -> String {
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
        return match runs.first() {
            Some((only, paid, attempts)) => {
                format!(
                    "{fault}: {only} paid {paid:.1} % of the orders, with {attempts:.2} attempts for each."
                )
            }
            None => format!("{fault}: no run kept its load, so none can be judged."),
        };
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
    format!(
        "{fault}: {best} paid the most orders, {most:.1} %{beside}, with {attempts:.2} attempts for each; {worst} paid {least:.1} %."
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(configuration: &str, success: Option<f64>) -> Outcome {
        let figures = success.map(|success| {
            json!({
                "sent": 2400, "success": success, "shed": 0.0, "failed": 1.0 - success, "lost": 0.0,
                "success_before": 1.0, "success_after": 1.0, "p50_ms": 100.0, "p95_ms": 200.0, "p99_ms": 300.0,
                "admitted_p95_ms": 200.0, "payment_p50_ms": 90.0, "payment_p95_ms": 190.0, "calls": 2400,
                "amplification": 1.25, "retries": 600, "user_retries": 0, "breaker_open": 0.0,
                "gateway_breaker_open": 0.0, "guard_off": 0.0, "recovery_s": null, "bulkhead_rejections": 0,
                "bulkhead_share": 0.0, "shed_requests": 0, "duplicate_rate": 0.0,
                "effects": serde_json::to_value(crate::database::Effects::default()).unwrap(),
            })
        });
        serde_json::from_value(json!({
            "configuration": configuration, "fault": "payment_errors", "stores": "embedded", "scale": 0.1, "seed": 1,
            "digest": "d", "phases": {"warm_up": 20, "fault": 120, "recovery": 60}, "load_average": 0.0,
            "worst_lag_ms": 0.0, "not_kept": if figures.is_none() { Some("orders were sent late") } else { None },
            "figures": figures,
        }))
        .unwrap()
    }

    #[test]
    fn goodput_is_a_column_and_a_sentence_ends_the_table() {
        let text = terminal(&[
            outcome("A", Some(0.5)),
            outcome("G", Some(0.991)),
            outcome("B", None),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("success  goodput"), "{text}");
        assert!(lines[1].contains("50.0 %   10.0/s"), "{text}");
        assert!(
            lines[3].contains("load not kept: orders were sent late"),
            "{text}"
        );
        assert_eq!(
            lines.last(),
            Some(
                &"payment_errors: G paid the most orders, 99.1 %, with 1.25 attempts for each; A paid 50.0 %."
            )
        );
        assert!(
            lines.iter().all(|line| line.chars().count() <= TERMINAL),
            "{text}"
        );
        let text = terminal(&[outcome("A", None)]);
        assert!(
            text.ends_with("no run kept its load, so none can be judged.\n"),
            "{text}"
        );
    }
}
