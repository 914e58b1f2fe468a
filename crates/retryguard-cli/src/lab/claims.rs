//! Every claim of the described paper, held against what was measured.
//!
//! The rule was written before the runs: a claim of direction holds when the difference has its sign and exceeds two points
//! of a hundred (or a quarter, for durations); a claim of a figure holds within a quarter of the figure, and within two
//! points for shares near zero.

use std::fmt;

use retryguard_lab::{
    Configuration::{self, A, B, C, D, E, F},
    experiment::Trouble::{self, GatewayOverload, InventoryLock, PaymentErrors, PaymentSlow, RetryStorm},
};

use super::{
    claimed::{
        Quantity::{
            self, AdmittedP95, Amplification, BulkheadShare, Duplicates, Errors, P95, PaymentP95, Recovery,
            Shed, Success,
        },
        claimed, measured,
    },
    results::Results,
};

/// Differences of shares up to this are chance.
pub(super) const MARGIN: f64 = 0.02;

/// Figures within this share of each other are the same.
const QUARTER: f64 = 0.25;

/// What became of a claim.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    Held,
    NotHeld,
    /// Held only beyond a load, which it says.
    Beyond(String),
    NotMeasured,
}

/// A claim that was judged.
pub(super) struct Claim {
    pub(super) section: &'static str,
    pub(super) text: &'static str,
    pub(super) verdict: Verdict,
    pub(super) evidence: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("held"),
            Self::NotHeld => f.write_str("**not held**"),
            Self::Beyond(load) => write!(f, "held only {load}"),
            Self::NotMeasured => f.write_str("not measured"),
        }
    }
}

/// All claims, in the order of the paper.
pub(super) fn judged(results: &Results) -> Vec<Claim> {
    let judge = Judge { results };
    let mut claims = vec![judge.naive_retries_harm(
        PaymentErrors,
        "5.1",
        "Naive retries lower success below no retries (20 % errors)",
    )];
    claims.push(judge.figure(
        "5.1",
        "Naive retries amplify 2.6 times",
        PaymentErrors,
        Amplification,
        B,
    ));
    claims.push(judge.above(
        "5.1",
        "Breakers raise success above that of retries without them",
        PaymentErrors,
        (D, C),
    ));
    claims.push(judge.figure(
        "5.1",
        "Breakers restore success to 92 %",
        PaymentErrors,
        Success,
        D,
    ));
    claims.push(judge.figure(
        "5.1",
        "Breakers bring amplification down to 1.1",
        PaymentErrors,
        Amplification,
        D,
    ));
    claims.push(judge.at_most("5.2", "Timeouts cap P95 at 8.1 s", PaymentSlow, P95, C));
    claims.push(judge.same(
        "5.2",
        "Timeouts alone do not improve MTTR",
        PaymentSlow,
        Recovery,
        (A, C),
    ));
    claims.push(judge.at_most("5.2", "Breakers bring P95 down to 200 ms", PaymentSlow, P95, D));
    claims.push(judge.figure("5.2", "Breakers keep success at 88 %", PaymentSlow, Success, D));
    claims.push(judge.at_most(
        "5.2",
        "Breakers bring MTTR down to 35 s",
        PaymentSlow,
        Recovery,
        D,
    ));
    claims.push(judge.figure(
        "5.3",
        "Slow inventory makes payments slow without bulkheads: 4.1 s",
        InventoryLock,
        PaymentP95,
        A,
    ));
    claims.push(judge.at_most(
        "5.3",
        "Bulkheads keep payments at 110 ms",
        InventoryLock,
        PaymentP95,
        E,
    ));
    claims.push(judge.lower(
        "5.3",
        "Payments are faster with bulkheads than without",
        InventoryLock,
        PaymentP95,
        (E, A),
    ));
    claims.push(judge.figure(
        "5.3",
        "Bulkheads turn 18 % of the calls to inventory away",
        InventoryLock,
        BulkheadShare,
        E,
    ));
    claims.push(judge.figure(
        "5.4",
        "Users that retry bring amplification to 2.8",
        RetryStorm,
        Amplification,
        B,
    ));
    claims.push(judge.figure(
        "5.4",
        "Success falls to 48 % under immediate retries",
        RetryStorm,
        Success,
        B,
    ));
    claims.push(judge.figure(
        "5.4",
        "Breakers bring amplification down to 1.1",
        RetryStorm,
        Amplification,
        D,
    ));
    claims.push(judge.figure("5.4", "Breakers restore success to 91 %", RetryStorm, Success, D));
    claims.push(judge.figure(
        "5.4",
        "9.3 % of the writes are duplicates without keys",
        RetryStorm,
        Duplicates,
        B,
    ));
    claims.push(judge.no_duplicates());
    claims.push(judge.figure(
        "5.5",
        "Without shedding P95 rises to 15.4 s",
        GatewayOverload,
        AdmittedP95,
        A,
    ));
    claims.push(judge.figure(
        "5.5",
        "Without shedding 42 % are answered with errors",
        GatewayOverload,
        Errors,
        A,
    ));
    claims.push(judge.at_most(
        "5.5",
        "With shedding admitted requests keep a P95 under 400 ms",
        GatewayOverload,
        AdmittedP95,
        E,
    ));
    claims.push(judge.lower(
        "5.5",
        "Admitted requests are faster with shedding than without",
        GatewayOverload,
        AdmittedP95,
        (E, A),
    ));
    claims.push(judge.figure("5.5", "51 % are shed", GatewayOverload, Shed, E));
    claims.push(judge.figure("5.5", "3 % are answered with errors", GatewayOverload, Errors, E));
    claims.push(judge.all_patterns());
    claims
}

struct Judge<'r> {
    results: &'r Results,
}

impl Judge<'_> {
    fn value(&self, trouble: Trouble, quantity: Quantity, configuration: Configuration) -> Option<f64> {
        measured(self.results, trouble, configuration, quantity)
    }

    /// The measured figure is the claimed one.
    fn figure(
        &self,
        section: &'static str,
        text: &'static str,
        trouble: Trouble,
        quantity: Quantity,
        configuration: Configuration,
    ) -> Claim {
        let claimed = claimed(trouble, quantity, configuration).unwrap_or(f64::NAN);
        let found = self.value(trouble, quantity, configuration);
        let least = if quantity == Amplification { 0.0 } else { MARGIN };
        let verdict = of(found.map(|found| (found - claimed).abs() <= (QUARTER * claimed).max(least)));
        Claim {
            section,
            text,
            verdict,
            evidence: said(configuration, quantity, found),
        }
    }

    /// The measured figure is at most a quarter above the claimed one.
    fn at_most(
        &self,
        section: &'static str,
        text: &'static str,
        trouble: Trouble,
        quantity: Quantity,
        configuration: Configuration,
    ) -> Claim {
        let claimed = claimed(trouble, quantity, configuration).unwrap_or(f64::NAN);
        let found = self.value(trouble, quantity, configuration);
        let ran = self.results.figures(trouble, configuration).is_some();
        let verdict = match found {
            // A recovery that never came is none that came in time.
            None if ran => Verdict::NotHeld,
            found => of(found.map(|found| found <= (1.0 + QUARTER) * claimed)),
        };
        Claim {
            section,
            text,
            verdict,
            evidence: said(configuration, quantity, found),
        }
    }

    fn pair(
        &self,
        (section, text): (&'static str, &'static str),
        trouble: Trouble,
        quantity: Quantity,
        (one, other): (Configuration, Configuration),
        holds: impl Fn(f64, f64) -> bool,
    ) -> Claim {
        let (first, second) = (
            self.value(trouble, quantity, one),
            self.value(trouble, quantity, other),
        );
        let held = match (first, second) {
            (Some(first), Some(second)) => Some(holds(first, second)),
            _ => None,
        };
        Claim {
            section,
            text,
            verdict: of(held),
            evidence: format!(
                "{}; {}",
                said(one, quantity, first),
                said(other, quantity, second)
            ),
        }
    }

    fn above(
        &self,
        section: &'static str,
        text: &'static str,
        trouble: Trouble,
        pair: (Configuration, Configuration),
    ) -> Claim {
        self.pair((section, text), trouble, Success, pair, |first, second| {
            first > second + MARGIN
        })
    }

    fn lower(
        &self,
        section: &'static str,
        text: &'static str,
        trouble: Trouble,
        quantity: Quantity,
        pair: (Configuration, Configuration),
    ) -> Claim {
        self.pair((section, text), trouble, quantity, pair, |first, second| {
            first < (1.0 - QUARTER) * second
        })
    }

    fn same(
        &self,
        section: &'static str,
        text: &'static str,
        trouble: Trouble,
        quantity: Quantity,
        pair: (Configuration, Configuration),
    ) -> Claim {
        self.pair((section, text), trouble, quantity, pair, |first, second| {
            (first - second).abs() <= QUARTER * first.max(second)
        })
    }

    /// Under the described fault, and if not there, then in the sweep of the capacity.
    fn naive_retries_harm(&self, trouble: Trouble, section: &'static str, text: &'static str) -> Claim {
        let (none, naive) = (self.value(trouble, Success, A), self.value(trouble, Success, B));
        let held = match (none, naive) {
            (Some(none), Some(naive)) => Some(naive < none - MARGIN),
            _ => None,
        };
        let mut evidence = format!("{}; {}", said(A, Success, none), said(B, Success, naive));
        let mut verdict = of(held);
        if let Some(workers) = self
            .results
            .sweep
            .as_ref()
            .and_then(super::results::Sweep::harm_up_to)
        {
            let load = retryguard_lab::experiment::RATE / (10.0 * workers as f64);
            evidence += &format!("; sweep: harm with up to {workers} workers");
            if verdict == Verdict::NotHeld {
                verdict = Verdict::Beyond(format!(
                    "beyond a load of {load:.2} of payments' capacity, before any retry"
                ));
            }
        }
        Claim {
            section,
            text,
            verdict,
            evidence,
        }
    }

    fn no_duplicates(&self) -> Claim {
        let found: Vec<(Configuration, u64)> = Trouble::ALL
            .into_iter()
            .filter_map(|trouble| Some((F, self.results.figures(trouble, F)?)))
            .map(|(configuration, figures)| (configuration, figures.effects.duplicate_charges()))
            .collect();
        let sum: u64 = found.iter().map(|(_, duplicates)| duplicates).sum();
        Claim {
            section: "5.4",
            text: "Keys and the outbox eliminate duplicate writes",
            verdict: of((!found.is_empty()).then_some(sum == 0)),
            evidence: format!("F charged {sum} orders twice in {} runs", found.len()),
        }
    }

    /// F against each subset, by the mean of its success over the five faults.
    fn all_patterns(&self) -> Claim {
        let mean = |configuration: Configuration| {
            let all: Option<Vec<f64>> = [
                PaymentErrors,
                PaymentSlow,
                InventoryLock,
                RetryStorm,
                GatewayOverload,
            ]
            .into_iter()
            .map(|trouble| self.value(trouble, Success, configuration))
            .collect();
            all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
        };
        let means: Vec<(Configuration, f64)> = [A, B, C, D, E, F]
            .into_iter()
            .filter_map(|it| Some((it, mean(it)?)))
            .collect();
        let ours = means.iter().find(|(it, _)| *it == F).map(|(_, mean)| *mean);
        let others = means
            .iter()
            .filter(|(it, _)| *it != F)
            .map(|(_, mean)| *mean)
            .reduce(f64::max);
        let held = match (ours, others) {
            (Some(ours), Some(best)) => Some(ours > best + MARGIN),
            _ => None,
        };
        let said: Vec<String> = means
            .iter()
            .map(|(it, mean)| format!("{it} {}", Success.shown(*mean)))
            .collect();
        Claim {
            section: "9",
            text: "All patterns together are significantly more reliable than any subset",
            verdict: of(held),
            evidence: format!("mean success over the five faults: {}", said.join(", ")),
        }
    }
}

fn of(held: Option<bool>) -> Verdict {
    match held {
        None => Verdict::NotMeasured,
        Some(true) => Verdict::Held,
        Some(false) => Verdict::NotHeld,
    }
}

fn said(configuration: Configuration, quantity: Quantity, value: Option<f64>) -> String {
    let value = value.map_or_else(|| "none".to_owned(), |value| quantity.shown(value));
    format!("{configuration}: {} {value}", quantity.title())
}
