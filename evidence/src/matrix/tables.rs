//! Tables of the report that only the comparison with claims needs.

use std::fmt::Write as _;

use retryguard_lab::{
    Configuration,
    experiment::{
        SweepPoint, Trouble,
        table::{lost, percent},
    },
};

use super::{
    claimed::{claimed, quantities},
    results::Results,
};

/// A point of the sweep in a line.
pub(super) fn swept(point: &SweepPoint) -> String {
    match point.figures {
        Some((success, amplification)) => {
            format!("success {}, amplification {amplification:.2}", percent(success))
        }
        None => lost(point.not_kept.as_deref()),
    }
}

/// What is published of a fault, beside what was measured and what the simulator says.
pub(super) fn compared(results: &Results, trouble: Trouble) -> String {
    let mut text = String::from(
        "| quantity | config | claimed | measured | simulated | measured − simulated |\n\
         | --- | --- | ---: | ---: | ---: | ---: |\n",
    );
    for quantity in quantities(trouble) {
        for (configuration, outcome) in results.of(trouble) {
            let claimed = claimed(trouble, quantity, configuration);
            let measured = outcome
                .figures
                .as_ref()
                .and_then(|figures| quantity.measured(figures));
            let simulated = results
                .predictions
                .get(&(trouble, configuration))
                .and_then(|predicted| quantity.predicted(predicted))
                .filter(|value| value.is_finite());
            let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |it| quantity.shown(it));
            let difference = match (measured, simulated) {
                (Some(measured), Some(simulated)) => quantity.difference(measured - simulated),
                _ => "–".to_owned(),
            };
            let _ = writeln!(
                text,
                "| {} | {configuration} | {} | {} | {} | {difference} |",
                quantity.title(),
                cell(claimed),
                cell(measured),
                cell(simulated)
            );
        }
    }
    text
}

/// The configurations of a report, as Markdown.
pub(super) fn configurations(results: &Results) -> String {
    let mut text = String::from("| config | what it is | policy digest |\n| --- | --- | --- |\n");
    for configuration in Configuration::ALL {
        if let Some(outcome) = results
            .outcomes
            .iter()
            .find(|outcome| outcome.configuration == configuration.letter())
        {
            let _ = writeln!(
                text,
                "| {configuration} | {} | `{}` |",
                configuration.title(),
                outcome.digest
            );
        }
    }
    text
}
