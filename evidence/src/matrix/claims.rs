//! Every claim of Platform Engineering Research 2026 (docs/references.md), held against what was measured.
//!
//! The rule was written before the runs: a claim of direction holds when the difference has its sign and exceeds two points
//! of a hundred (or a quarter, for durations); a claim of a figure holds within a quarter of the figure, and within two
//! points for shares near zero. What does not hold under the described fault is looked for in the sweep of the capacity, by
//! the same rule.

mod judge;

use std::fmt;

use retryguard_lab::{
    Configuration::{self, A, B, C, D, E},
    experiment::Trouble::{self, GatewayOverload, InventoryLock, PaymentErrors, PaymentSlow, RetryStorm},
};

use super::{
    claimed::Quantity::{
        self, AdmittedP95, Amplification, BulkheadShare, Duplicates, Errors, P95, PaymentP95, Recovery, Shed,
        Success,
    },
    results::Results,
};

/// Differences of shares up to this are chance.
pub(super) const MARGIN: f64 = 0.02;

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

/// When a claim holds.
#[derive(Debug, Clone, Copy)]
enum Test {
    /// The measured figure is the claimed one.
    Figure(Trouble, Quantity, Configuration),
    /// The measured figure is at most a quarter above the claimed one.
    AtMost(Trouble, Quantity, Configuration),
    /// The first succeeds more than the second.
    MoreSuccess(Trouble, Configuration, Configuration),
    /// The figure of the first is lower than that of the second by a quarter.
    Lower(Trouble, Quantity, Configuration, Configuration),
    /// Both have the same figure.
    Same(Trouble, Quantity, Configuration, Configuration),
    /// F charged no customer twice, under any fault.
    NoDuplicates,
    /// F succeeds more than every other, by the mean over the five faults.
    AllPatterns,
}

use Test::{AllPatterns, AtMost, Figure, Lower, MoreSuccess, NoDuplicates, Same};

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

/// All claims, in the published order.
const CLAIMS: &[(&str, &str, Test)] = &[
    (
        "5.1",
        "Naive retries lower success below no retries (20 % errors)",
        MoreSuccess(PaymentErrors, A, B),
    ),
    (
        "5.1",
        "Naive retries amplify 2.6 times",
        Figure(PaymentErrors, Amplification, B),
    ),
    (
        "5.1",
        "Breakers raise success above that of retries without them",
        MoreSuccess(PaymentErrors, D, C),
    ),
    (
        "5.1",
        "Breakers restore success to 92 %",
        Figure(PaymentErrors, Success, D),
    ),
    (
        "5.1",
        "Breakers bring amplification down to 1.1",
        Figure(PaymentErrors, Amplification, D),
    ),
    ("5.2", "Timeouts cap P95 at 8.1 s", AtMost(PaymentSlow, P95, C)),
    (
        "5.2",
        "Timeouts alone do not improve MTTR",
        Same(PaymentSlow, Recovery, A, C),
    ),
    (
        "5.2",
        "Breakers bring P95 down to 200 ms",
        AtMost(PaymentSlow, P95, D),
    ),
    (
        "5.2",
        "Breakers keep success at 88 %",
        Figure(PaymentSlow, Success, D),
    ),
    (
        "5.2",
        "Breakers bring MTTR down to 35 s",
        AtMost(PaymentSlow, Recovery, D),
    ),
    (
        "5.3",
        "Slow inventory makes payments slow without bulkheads: 4.1 s",
        Figure(InventoryLock, PaymentP95, A),
    ),
    (
        "5.3",
        "Bulkheads keep payments at 110 ms",
        AtMost(InventoryLock, PaymentP95, E),
    ),
    (
        "5.3",
        "Payments are faster with bulkheads than without",
        Lower(InventoryLock, PaymentP95, E, A),
    ),
    (
        "5.3",
        "Bulkheads turn 18 % of the calls to inventory away",
        Figure(InventoryLock, BulkheadShare, E),
    ),
    (
        "5.4",
        "Users that retry bring amplification to 2.8",
        Figure(RetryStorm, Amplification, B),
    ),
    (
        "5.4",
        "Success falls to 48 % under immediate retries",
        Figure(RetryStorm, Success, B),
    ),
    (
        "5.4",
        "Breakers bring amplification down to 1.1",
        Figure(RetryStorm, Amplification, D),
    ),
    (
        "5.4",
        "Breakers restore success to 91 %",
        Figure(RetryStorm, Success, D),
    ),
    (
        "5.4",
        "9.3 % of the writes are duplicates without keys",
        Figure(RetryStorm, Duplicates, B),
    ),
    (
        "5.4",
        "Keys and the outbox eliminate duplicate writes",
        NoDuplicates,
    ),
    (
        "5.5",
        "Without shedding P95 rises to 15.4 s",
        Figure(GatewayOverload, AdmittedP95, A),
    ),
    (
        "5.5",
        "Without shedding 42 % are answered with errors",
        Figure(GatewayOverload, Errors, A),
    ),
    (
        "5.5",
        "With shedding admitted requests keep a P95 under 400 ms",
        AtMost(GatewayOverload, AdmittedP95, E),
    ),
    (
        "5.5",
        "Admitted requests are faster with shedding than without",
        Lower(GatewayOverload, AdmittedP95, E, A),
    ),
    ("5.5", "51 % are shed", Figure(GatewayOverload, Shed, E)),
    (
        "5.5",
        "3 % are answered with errors",
        Figure(GatewayOverload, Errors, E),
    ),
    (
        "9",
        "All patterns together are significantly more reliable than any subset",
        AllPatterns,
    ),
];

/// All claims with their verdicts, in the published order.
pub(super) fn judged(results: &Results) -> Vec<Claim> {
    CLAIMS
        .iter()
        .map(|(section, text, test)| judge::judged(results, section, text, *test))
        .collect()
}
