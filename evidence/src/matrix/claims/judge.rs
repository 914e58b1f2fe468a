//! Whether a claim holds, by a way to look figures up: in the runs, or at a point of the sweep.

use retryguard_lab::{
    Configuration::{self, A, B, C, D, E, F},
    experiment::{
        Rule,
        Trouble::{self, GatewayOverload, InventoryLock, PaymentErrors, PaymentSlow, RetryStorm},
    },
};

use super::{Claim, MARGIN, Test, Verdict};
use crate::matrix::{
    capacity::Sweep,
    claimed::{
        Quantity::{self, Amplification, Success},
        claimed, measured,
    },
    results::Results,
};

/// Figures within this share of each other are the same.
const QUARTER: f64 = 0.25;

/// The five published faults.
const FAULTS: [Trouble; 5] = [
    PaymentErrors,
    PaymentSlow,
    InventoryLock,
    RetryStorm,
    GatewayOverload,
];

pub(super) fn judged(results: &Results, section: &'static str, text: &'static str, test: Test) -> Claim {
    let look = |trouble, quantity, configuration| measured(results, trouble, configuration, quantity);
    let mut verdict = match test {
        Test::NoDuplicates => of(charged_twice(results).map(|(sum, _)| sum == 0)),
        Test::AllPatterns => of(f_is_best(&means(results))),
        // A recovery that never came is none that came in time.
        Test::AtMost(trouble, quantity, configuration)
            if look(trouble, quantity, configuration).is_none()
                && results.figures(trouble, configuration).is_some() =>
        {
            Verdict::NotHeld
        }
        _ => of(holds(test, &look)),
    };
    let mut evidence = evidence(results, test);
    if let Some(sweep) = &results.sweep
        && let Some(load) = sweep.where_it_holds(|workers| holds_at(sweep, workers, test))
    {
        evidence += "; see the capacity sweep";
        if verdict == Verdict::NotHeld {
            verdict = Verdict::Beyond(load);
        }
    }
    Claim {
        section,
        text,
        verdict,
        evidence,
    }
}

/// A way to look a figure up.
type Look<'l> = &'l dyn Fn(Trouble, Quantity, Configuration) -> Option<f64>;

/// Whether a claim about figures holds; none where one of them is missing, or where the claim is about more than figures.
fn holds(test: Test, look: Look<'_>) -> Option<bool> {
    match test {
        Test::Figure(trouble, quantity, configuration) => {
            let wanted = claimed(trouble, quantity, configuration)?;
            let least = if quantity == Amplification { 0.0 } else { MARGIN };
            let found = look(trouble, quantity, configuration)?;
            Some((found - wanted).abs() <= (QUARTER * wanted).max(least))
        }
        Test::AtMost(trouble, quantity, configuration) => {
            let wanted = claimed(trouble, quantity, configuration)?;
            Some(look(trouble, quantity, configuration)? <= (1.0 + QUARTER) * wanted)
        }
        Test::MoreSuccess(trouble, one, other) => {
            Some(look(trouble, Success, one)? > look(trouble, Success, other)? + MARGIN)
        }
        Test::Lower(trouble, quantity, one, other) => {
            Some(look(trouble, quantity, one)? < (1.0 - QUARTER) * look(trouble, quantity, other)?)
        }
        Test::Same(trouble, quantity, one, other) => {
            let (one, other) = (look(trouble, quantity, one)?, look(trouble, quantity, other)?);
            Some((one - other).abs() <= QUARTER * one.max(other))
        }
        Test::NoDuplicates | Test::AllPatterns => None,
    }
}

/// The same at a point of the sweep, which is about payments that fail and knows success and amplification. Retries without
/// a breaker are there those at once.
fn holds_at(sweep: &Sweep, workers: usize, test: Test) -> Option<bool> {
    let look = |trouble, quantity, configuration| {
        let rule = match configuration {
            A => Rule::None,
            B | C => Rule::Immediate,
            D => Rule::Breaker,
            _ => return None,
        };
        let (success, amplification) = sweep.figures(workers, rule)?;
        match (trouble, quantity) {
            (PaymentErrors, Success) => Some(success),
            (PaymentErrors, Amplification) => Some(amplification),
            _ => None,
        }
    };
    holds(test, &look)
}

fn evidence(results: &Results, test: Test) -> String {
    let said = |trouble, quantity: Quantity, configuration| {
        let value = measured(results, trouble, configuration, quantity)
            .map_or_else(|| "none".to_owned(), |value| quantity.shown(value));
        format!("{configuration}: {} {value}", quantity.title())
    };
    let both = |trouble, quantity, one, other| {
        format!(
            "{}; {}",
            said(trouble, quantity, one),
            said(trouble, quantity, other)
        )
    };
    match test {
        Test::Figure(trouble, quantity, configuration) | Test::AtMost(trouble, quantity, configuration) => {
            said(trouble, quantity, configuration)
        }
        Test::MoreSuccess(trouble, one, other) => both(trouble, Success, one, other),
        Test::Lower(trouble, quantity, one, other) | Test::Same(trouble, quantity, one, other) => {
            both(trouble, quantity, one, other)
        }
        Test::NoDuplicates => charged_twice(results).map_or_else(
            || "F: not run".to_owned(),
            |(sum, runs)| format!("F charged {sum} orders twice in {runs} runs"),
        ),
        Test::AllPatterns => {
            let said: Vec<String> = means(results)
                .iter()
                .map(|(it, mean)| format!("{it} {}", Success.shown(*mean)))
                .collect();
            format!("mean success over the five faults: {}", said.join(", "))
        }
    }
}

/// What F charged beyond the first time, and in how many runs; none where there was no run.
fn charged_twice(results: &Results) -> Option<(u64, usize)> {
    let found: Vec<u64> = Trouble::ALL
        .into_iter()
        .filter_map(|trouble| Some(results.figures(trouble, F)?.effects.duplicate_charges()))
        .collect();
    (!found.is_empty()).then(|| (found.iter().sum(), found.len()))
}

/// The mean of success over the five faults, of every configuration that was measured under all of them.
fn means(results: &Results) -> Vec<(Configuration, f64)> {
    [A, B, C, D, E, F]
        .into_iter()
        .filter_map(|configuration| {
            let all: Option<Vec<f64>> = FAULTS
                .into_iter()
                .map(|trouble| measured(results, trouble, configuration, Success))
                .collect();
            let all = all?;
            Some((configuration, all.iter().sum::<f64>() / all.len() as f64))
        })
        .collect()
}

fn f_is_best(means: &[(Configuration, f64)]) -> Option<bool> {
    let ours = means.iter().find(|(it, _)| *it == F)?.1;
    let best = means
        .iter()
        .filter(|(it, _)| *it != F)
        .map(|(_, mean)| *mean)
        .reduce(f64::max)?;
    Some(ours > best + MARGIN)
}

fn of(held: Option<bool>) -> Verdict {
    match held {
        None => Verdict::NotMeasured,
        Some(true) => Verdict::Held,
        Some(false) => Verdict::NotHeld,
    }
}
