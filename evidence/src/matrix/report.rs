//! The report of a matrix: Markdown, pictures, and the numbers for other programs.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::Context as _;
use retryguard_lab::experiment::{Machine, Outcome, Trouble, table};

use super::{
    capacity,
    claims::{self, Verdict},
    prediction::{self, Predictions},
    questions,
    results::Results,
    sections, tables, timelines,
};
use crate::output;

/// The files of a report, by name.
pub(super) fn files(results: &Results) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for trouble in Trouble::ALL {
        if let Some(svg) = timelines::of(results, trouble) {
            files.push((format!("{trouble}.svg"), svg));
        }
    }
    files.extend(without_time_lines(results));
    files
}

/// The files that are made of the numbers alone.
fn without_time_lines(results: &Results) -> Vec<(String, String)> {
    let mut files = vec![
        ("runs.json".to_owned(), format!("{:#}\n", results.json())),
        ("runs.csv".to_owned(), table::csv(&results.outcomes)),
        ("README.md".to_owned(), markdown(results)),
    ];
    if let Some(sweep) = &results.sweep {
        files.push(("capacity.svg".to_owned(), capacity::picture(sweep)));
    }
    files
}

/// Makes the report of a folder anew from its numbers: a matrix, with another sweep where one is given, or a sweep.
/// `predict` asks the simulator again, too.
pub(super) fn again(folder: &Path, sweep: Option<&Path>, predict: bool) -> anyhow::Result<()> {
    let (runs, alone) = (folder.join("runs.json"), folder.join("sweep.json"));
    if sweep.is_none() && !runs.exists() && alone.exists() {
        let mut sweep = read_sweep(&alone)?;
        if predict {
            sweep.predicted = prediction::sweep(sweep.seed)?;
        }
        return output::write(folder, &sweep.files());
    }
    let mut results =
        Results::read(&read(&runs)?).with_context(|| format!("cannot use {}", runs.display()))?;
    if let Some(path) = sweep {
        results.sweep = Some(read_sweep(path)?);
    }
    if predict {
        results.predictions = fresh_predictions(&results)?;
        if let Some(sweep) = &mut results.sweep {
            sweep.predicted = prediction::sweep(sweep.seed)?;
        }
    }
    output::write(folder, &without_time_lines(&results))
}

/// What the simulator says today of what it was asked then.
fn fresh_predictions(results: &Results) -> anyhow::Result<Predictions> {
    let (mut faults, mut configurations) = (Vec::new(), Vec::new());
    for (fault, configuration) in results.predictions.keys() {
        faults.push(*fault);
        configurations.push(*configuration);
    }
    faults.dedup();
    configurations.sort_unstable();
    configurations.dedup();
    let seed = results.outcomes.first().map_or(1, |outcome| outcome.seed);
    prediction::all(&configurations, &faults, seed)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn read_sweep(path: &Path) -> anyhow::Result<capacity::Sweep> {
    serde_json::from_str(&read(path)?)
        .map_err(anyhow::Error::from)
        .and_then(|all| capacity::Sweep::read(&all))
        .with_context(|| format!("cannot use {}", path.display()))
}

fn markdown(results: &Results) -> String {
    let mut text = format!("<!-- cargo xtask evidence matrix, format {} -->\n", table::FORMAT);
    text += "# Seven configurations, five faults: what was measured\n\n";
    text += &provenance(results);
    text += "\n## The claims, and what became of them\n\n";
    text += &claims_table(results);
    text += "\n## Method\n\n";
    text += sections::METHOD;
    text += "\n";
    text += &tables::configurations(results);
    text += "\n## Results\n";
    for trouble in Trouble::ALL {
        if results.of(trouble).next().is_none() {
            continue;
        }
        let _ = write!(
            text,
            "\n### {}\n\n{}\n",
            sections::title(trouble),
            table::markdown(results.of(trouble))
        );
        if results.of(trouble).any(|(_, outcome)| outcome.figures.is_some()) {
            let _ = writeln!(text, "![{trouble} over time]({trouble}.svg)\n");
        }
        text += sections::why(trouble);
        text += "\n";
        if super::claimed::quantities(trouble).next().is_some() {
            let _ = write!(
                text,
                "\nClaimed, measured, simulated:\n\n{}",
                tables::compared(results, trouble)
            );
        }
    }
    if let Some(sweep) = &results.sweep {
        let _ = write!(
            text,
            "\n### Capacity: where naive retries turn from help to harm\n\n{}",
            capacity::section(sweep)
        );
    }
    text += "\n## The five research questions\n\n";
    text += &questions::answered(results);
    text
}

/// What made a page, and on what.
pub(super) fn machine(command: &str, machine: &Machine) -> String {
    format!(
        "Generated by `cargo xtask evidence {command}` {} ({} build); not edited. {} cores ({}), {} GB, Linux {}; load average at the \
         start {:.1}: others used the machine meanwhile where it exceeds the cores.\n",
        machine.version,
        machine.build,
        machine.cores,
        machine.processor,
        machine.memory_gb,
        machine.kernel,
        machine.load_average
    )
}

/// Where the numbers come from.
fn provenance(results: &Results) -> String {
    let mut text = machine("matrix", &results.machine);
    if let Some(first) = results.outcomes.first() {
        let scales = told(results, |outcome| outcome.scale.to_string());
        let phases = told(results, |outcome| outcome.phases.to_string());
        let loads = results.outcomes.iter().map(|outcome| outcome.load_average);
        let _ = write!(
            text,
            "\nStores: {}. Seed {}. Time scale {scales}. Warm-up, fault and recovery, as described: {phases}. {} runs at once, \
             except those of gateway_overload. Load average when a run began: {:.1} to {:.1}.\n",
            first.stores,
            first.seed,
            results.at_once,
            loads.clone().fold(f64::INFINITY, f64::min),
            loads.fold(0.0, f64::max)
        );
    }
    let lost: Vec<String> = results
        .outcomes
        .iter()
        .filter(|outcome| outcome.figures.is_none())
        .map(|outcome| format!("{}/{}", outcome.fault, outcome.configuration))
        .collect();
    let _ = write!(
        text,
        "\n{} of {} runs kept their offered load{}\n",
        results.outcomes.len() - lost.len(),
        results.outcomes.len(),
        if lost.is_empty() {
            ".".to_owned()
        } else {
            format!("; these did not, and say nothing: {}.", lost.join(", "))
        }
    );
    text
}

/// What all runs have in common, or each value with the fault whose runs have it.
fn told(results: &Results, of: impl Fn(&Outcome) -> String) -> String {
    let mut values: Vec<(String, Vec<&str>)> = Vec::new();
    for outcome in &results.outcomes {
        let value = of(outcome);
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, faults)) if faults.contains(&outcome.fault.as_str()) => {}
            Some((_, faults)) => faults.push(&outcome.fault),
            None => values.push((value, vec![&outcome.fault])),
        }
    }
    // The value of most faults is named first, and alone where it is the only one.
    values.sort_by_key(|(_, faults)| std::cmp::Reverse(faults.len()));
    let mut parts = values.iter().map(|(value, faults)| (value, faults.join(", ")));
    let usual = parts.next().map_or_else(String::new, |(value, _)| value.clone());
    parts.fold(usual, |text, (value, faults)| {
        format!("{text} ({value} for {faults})")
    })
}

fn claims_table(results: &Results) -> String {
    let judged = claims::judged(results);
    let count = |wanted: fn(&Verdict) -> bool| judged.iter().filter(|it| wanted(&it.verdict)).count();
    let mut text = format!(
        "Of {} claims {} held, {} held only beyond a load, {} did not hold, {} could not be measured. A direction holds when the \
         difference has its sign and exceeds two points (a quarter, for durations); a figure within a quarter of it, or two \
         points for shares near zero. The claims are those of Platform Engineering Research 2026 ([references](../../references.md)), whose repository calls its figures simulated placeholders.\n\n\
         | section | claim | verdict | measured |\n| --- | --- | --- | --- |\n",
        judged.len(),
        count(|it| *it == Verdict::Held),
        count(|it| matches!(it, Verdict::Beyond(_))),
        count(|it| *it == Verdict::NotHeld),
        count(|it| *it == Verdict::NotMeasured),
    );
    for claim in &judged {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            claim.section, claim.text, claim.verdict, claim.evidence
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The page says what its numbers say, in the words of this program, and the simulator still predicts the same.
    #[test]
    fn the_committed_page_is_made_of_its_numbers() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/evidence/lab-matrix/");
        let committed = |name: &str| {
            std::fs::read_to_string(format!("{folder}{name}"))
                .unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let results = Results::read(&committed("runs.json")).unwrap();
        let again = "run `cargo xtask evidence matrix` as docs/lab.md says, and commit what it writes";
        assert!(markdown(&results) == committed("README.md"), "README.md: {again}");
        assert!(
            table::csv(&results.outcomes) == committed("runs.csv"),
            "runs.csv: {again}"
        );
        let fresh = fresh_predictions(&results).unwrap();
        let close = |one: f64, other: f64| (one - other).abs() <= 1e-9 * other.abs().max(1.0);
        let differ: BTreeMap<_, _> = fresh
            .iter()
            .filter(|(key, new)| {
                let old = &results.predictions[*key];
                !(close(old.success, new.success) && close(old.amplification, new.amplification))
            })
            .collect();
        assert!(
            differ.is_empty(),
            "the simulator predicts otherwise: {differ:?}; {again}"
        );
    }
}
