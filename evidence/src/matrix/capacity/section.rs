//! The sweep as a page, as a part of the matrix's page, as a picture, and for a terminal.

use std::fmt::Write as _;

use retryguard_lab::experiment::{RATE, Rule, SWEPT, load_of, table::percent};

use retryguard_report::chart::{Figure, Panel, Piece};

use super::{FORMAT, Sweep};
use crate::matrix::{report, tables};

const HOW: &str = "\
Orders come whether those before were answered or not, 36 a described second; a worker does ten charges a second, 200 orders may \
wait, and a caller that has no answer from payments after half a second gives the attempt up while payments go on with it. 20 % of the \
charges fail anyway, after the worker has done its work. Only orders retries, and only payments: once, up to three times at once, \
the same behind a breaker that opens for 30 s after five failures in 60 s, and up to three times under RetryGuard. `load` is \
orders over capacity before any retry.
";

/// What the sweep says, for the page of a matrix.
pub(in crate::matrix) fn section(sweep: &Sweep) -> String {
    format!(
        "{HOW}\nStores: {}. Load average at the start {:.1}. Time scale {}. Phases {}. {} points at once.\n\n{}\n\
         ![The sweep](capacity.svg)\n\n{}\n",
        sweep.stores,
        sweep.machine.load_average,
        sweep.scale,
        sweep.phases,
        sweep.at_once,
        table(sweep),
        findings(sweep)
    )
}

/// A page of its own.
pub(super) fn page(sweep: &Sweep) -> String {
    format!(
        "<!-- cargo xtask evidence sweep, format {FORMAT} -->\n# Capacity: where naive retries turn from help to harm\n\n{}\n{}",
        report::machine("sweep", &sweep.machine),
        section(sweep)
    )
}

/// What follows from the numbers, with the load at which it follows.
fn findings(sweep: &Sweep) -> String {
    let mut text = match sweep.where_it_holds(|workers| sweep.harms(workers)) {
        Some(load) => format!("Retries at once pay fewer orders than none {load}."),
        None => "Retries at once did no harm at any load of the sweep.".to_owned(),
    };
    let helps = |workers| {
        let (none, immediate) = (
            sweep.figures(workers, Rule::None)?,
            sweep.figures(workers, Rule::Immediate)?,
        );
        Some((workers, immediate.0 - none.0))
    };
    let most = SWEPT
        .into_iter()
        .filter_map(helps)
        .max_by(|one, other| one.1.total_cmp(&other.1));
    if let Some((workers, gain)) = most.filter(|(_, gain)| *gain > 0.0) {
        let _ = write!(
            text,
            " They help most at a load of {:.2}: {:.1} points.",
            load_of(workers),
            100.0 * gain
        );
    }
    text += " A charge that fails has cost a worker's time, so three attempts under 20 % errors ask for 1.24 times the load. Where \
             that exceeds the capacity, or comes so near to it that a chance crowd waits for more than half a second, callers \
             give up first attempts too; from then on every order makes three attempts and hardly one is answered in time.";
    let again: u32 = sweep
        .measured
        .iter()
        .map(|point| u32::from(point.tries).saturating_sub(1))
        .sum();
    if again > 0 {
        let _ = write!(
            text,
            "\n\n{again} runs of {} did not keep their load and were made again.",
            u32::try_from(sweep.measured.len()).unwrap_or(u32::MAX) + again
        );
    }
    let lost: Vec<String> = sweep
        .measured
        .iter()
        .filter_map(|point| {
            let why = point.not_kept.as_ref()?;
            Some(format!(
                "{} with {} workers ({why})",
                point.rule.as_str(),
                point.workers
            ))
        })
        .collect();
    if !lost.is_empty() {
        let _ = write!(
            text,
            "\n\nThese did not keep their load and say nothing: {}.",
            lost.join("; ")
        );
    }
    text
}

fn table(sweep: &Sweep) -> String {
    let mut text = String::from("| workers | load of payments |");
    for rule in Rule::ALL {
        let _ = write!(
            text,
            " {0}: success | simulated | {0}: amplif. | simulated |",
            rule.as_str()
        );
    }
    text += " immediate − none |\n| ---: | ---: |";
    text += &" ---: |".repeat(4 * Rule::ALL.len() + 1);
    text.push('\n');
    let cell = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    for workers in SWEPT {
        let _ = write!(text, "| {workers} | {:.2} |", load_of(workers));
        for rule in Rule::ALL {
            let measured = sweep.figures(workers, rule);
            let simulated = sweep.predicted.get(&(workers, rule.as_str()));
            let _ = write!(
                text,
                " {} | {} | {} | {} |",
                cell(measured.map(|it| percent(it.0))),
                cell(simulated.map(|it| percent(it.0))),
                cell(measured.map(|it| format!("{:.2}", it.1))),
                cell(simulated.map(|it| format!("{:.2}", it.1)))
            );
        }
        let pair = (
            sweep.figures(workers, Rule::None),
            sweep.figures(workers, Rule::Immediate),
        );
        let difference = match pair {
            (Some(none), Some(immediate)) => format!("{:+.1}", 100.0 * (immediate.0 - none.0)),
            _ => "–".to_owned(),
        };
        let _ = writeln!(text, " {difference} |");
    }
    text
}

/// A line for each point.
pub(super) fn terminal(sweep: &Sweep) -> String {
    let mut text = String::from("workers  load  rule        measured, and as simulated\n");
    for point in &sweep.measured {
        let simulated = sweep
            .predicted
            .get(&(point.workers, point.rule.as_str()))
            .map_or_else(String::new, |(success, amplification)| {
                format!(" (simulated {}, {amplification:.2})", percent(*success))
            });
        let _ = writeln!(
            text,
            "{:>7}  {:.2}  {:<10}  {}{simulated}",
            point.workers,
            load_of(point.workers),
            point.rule.as_str(),
            tables::swept(point)
        );
    }
    text + &findings(sweep) + "\n"
}

/// Success and amplification by workers, measured and simulated.
pub(in crate::matrix) fn picture(sweep: &Sweep) -> String {
    let measured = |rule: Rule, of: fn((f64, f64)) -> f64| -> Piece {
        SWEPT
            .into_iter()
            .filter_map(|workers| Some((workers as f64, of(sweep.figures(workers, rule)?))))
            .collect()
    };
    let predicted = |rule: Rule, of: fn((f64, f64)) -> f64| -> Piece {
        SWEPT
            .into_iter()
            .filter_map(|workers| {
                Some((
                    workers as f64,
                    of(*sweep.predicted.get(&(workers, rule.as_str()))?),
                ))
            })
            .collect()
    };
    let panel = |label, of: fn((f64, f64)) -> f64| Panel {
        label,
        x_label: "workers of payments, ten charges a second each",
        x_range: (SWEPT[0] as f64, SWEPT.last().copied().unwrap_or(SWEPT[0]) as f64),
        x_ticks: SWEPT
            .iter()
            .map(|workers| (*workers as f64, workers.to_string()))
            .collect(),
        lines: Rule::ALL
            .into_iter()
            .flat_map(|rule| [vec![measured(rule, of)], vec![predicted(rule, of)]])
            .collect(),
    };
    let title = format!("{RATE} orders a second, 20 % errors: where retries turn from help to harm");
    Figure {
        title: &title,
        panels: vec![
            panel("% of the orders paid", |(success, _)| 100.0 * success),
            panel("requests at payments per order", |(_, amplification)| {
                amplification
            }),
        ],
        names: Rule::ALL
            .into_iter()
            .flat_map(|rule| {
                [
                    format!("{}: measured", rule.as_str()),
                    format!("{}: simulated", rule.as_str()),
                ]
            })
            .collect(),
    }
    .svg_with_marks()
}
