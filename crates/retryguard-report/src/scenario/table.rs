//! The table on the terminal.

use std::fmt::Write as _;

use retryguard_sim::comparison::{COLUMNS, Column, Kind, Summary, is_known_within};

use super::{Outcome, differences};
use crate::{
    number,
    table::{WIDTH, within},
    verdict::sentence,
};

pub(super) fn of(outcome: &Outcome) -> String {
    let mut out = String::new();
    let scenario = &outcome.scenario;
    let focus = &scenario.world.services[scenario.world.focus].name;
    let _ = writeln!(
        out,
        "{}: seed {}, {} replication{}, attempts and amplification are those at {focus}",
        scenario.name,
        outcome.seed,
        outcome.replications,
        if outcome.replications == 1 { "" } else { "s" },
    );
    if let Some(share) = outcome.until {
        let known = is_known_within(&outcome.policies, "goodputPerSecond", share);
        let _ = writeln!(
            out,
            "{} of goodput between two policies is known to within {} % of the larger (95 % confidence)",
            if known {
                "every difference"
            } else {
                "the limit was reached before every difference"
            },
            100.0 * share,
        );
    }
    if !scenario.claim.is_empty() {
        let _ = writeln!(out, "claim: {}", scenario.claim.trim());
    }
    out.push('\n');
    if outcome.sweep.is_empty() {
        out.push_str(&comparison(outcome, &outcome.policies));
    } else {
        let key = scenario.sweep.as_ref().map_or("", |sweep| sweep.key.as_str());
        for (label, summaries) in &outcome.sweep {
            let _ = writeln!(out, "{key} = {label}");
            out.push_str(&comparison(outcome, summaries));
            out.push('\n');
        }
    }
    if let Some(source) = &scenario.source {
        for note in &source.notes {
            let _ = writeln!(out, "note: {}", note.trim());
        }
    }
    for policy in &scenario.policies {
        for note in &policy.notes {
            let _ = writeln!(out, "note: {}: {note}", policy.name);
        }
    }
    out
}

/// The columns that say something here: those of the table, and others where they are not all nothing.
pub(super) fn columns(summaries: &[Summary]) -> Vec<usize> {
    let says = |index: usize| {
        summaries
            .iter()
            .any(|it| it.columns[index].is_some_and(|estimate| estimate.mean != 0.0))
    };
    let extra = [
        "duplicateRate",
        "recoverySeconds",
        "breakerOpen",
        "guardOff",
        "unfinished",
        "undelivered",
        "deliveryP95Ms",
        "increases",
        "largestSize",
        "lastSize",
        "replicaHours",
    ];
    COLUMNS
        .iter()
        .enumerate()
        .filter(|(index, column)| {
            let always = column.in_table && column.kind != Kind::Money;
            always || (column.in_table || extra.contains(&column.key)) && says(*index)
        })
        .map(|(index, _)| index)
        .collect()
}

/// The table, and what it comes to in a sentence.
fn comparison(outcome: &Outcome, summaries: &[Summary]) -> String {
    let mut columns = columns(summaries);
    // Goodput is what a user looks for; it stands before the shares.
    let goodput = COLUMNS.iter().position(|column| column.key == "goodputPerSecond");
    let place = columns
        .iter()
        .position(|index| COLUMNS[*index].key == "successRate");
    if let (Some(goodput), Some(place)) = (goodput, place) {
        columns.insert(place, goodput);
    }
    let table = within(&rows_of(outcome, summaries, &columns), WIDTH);
    let mut out = format!("{table}\n{}\n", sentence(summaries));
    if let Some(against) = &outcome.against {
        let _ = write!(out, "\n{}", differences::text(summaries, against));
    }
    out
}

/// The head, and for each policy our numbers and those of the source.
pub(super) fn rows(outcome: &Outcome, summaries: &[Summary]) -> Vec<Vec<String>> {
    rows_of(outcome, summaries, &columns(summaries))
}

fn rows_of(outcome: &Outcome, summaries: &[Summary], columns: &[usize]) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut head = vec!["policy".to_owned()];
    head.extend(columns.iter().map(|&index| COLUMNS[index].title.to_owned()));
    let relative = relative_to(outcome, summaries);
    if relative.is_some() {
        head.push("bill share".to_owned());
    }
    rows.push(head);
    for summary in summaries {
        let mut row = vec![summary.name.clone()];
        row.extend(
            columns
                .iter()
                .map(|&index| number::with_confidence(summary.columns[index], COLUMNS[index].kind)),
        );
        if let Some(base) = relative {
            row.push(format!("{:.0}%", 100.0 * summary.mean("bill") / base));
        }
        rows.push(row);
        if let Some(quoted) = quoted(outcome, &summary.name, columns, relative.is_some()) {
            rows.push(quoted);
        }
    }
    rows
}

/// The bill that others are shown as a share of.
pub(super) fn relative_to(outcome: &Outcome, summaries: &[Summary]) -> Option<f64> {
    let name = outcome.scenario.source.as_ref()?.relative_to.as_ref()?;
    let base = summaries.iter().find(|it| it.name == *name)?.mean("bill");
    (base > 0.0).then_some(base)
}

/// What the source reports for a policy, in the place of each number.
fn quoted(outcome: &Outcome, policy: &str, columns: &[usize], relative: bool) -> Option<Vec<String>> {
    let source = outcome.scenario.source.as_ref()?;
    let value = |key: &str| {
        let found = source
            .values
            .iter()
            .find(|it| it.policy == policy && it.column == key);
        found.map_or_else(String::new, |it| it.value.clone())
    };
    let mut row = vec![format!("  {}", source.title)];
    row.extend(columns.iter().map(|&index| value(column(index).key)));
    if relative {
        row.push(value("billShare"));
    }
    row[1..].iter().any(|cell| !cell.is_empty()).then_some(row)
}

fn column(index: usize) -> &'static Column {
    &COLUMNS[index]
}
