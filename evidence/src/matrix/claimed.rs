//! The figures that the described paper prints, in its sections 5.1 to 5.5. Its own repository calls them placeholders.

use retryguard_lab::{
    Configuration::{self, A, B, C, D, E, F},
    experiment::{Figures, Trouble},
};

use super::{prediction::Predicted, results::Results};

/// A quantity of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    Success,
    P95,
    P99,
    Amplification,
    BreakerOpen,
    Recovery,
    PaymentP95,
    BulkheadShare,
    Duplicates,
    AdmittedP95,
    Shed,
    Errors,
}

use Quantity::{
    AdmittedP95, Amplification, BreakerOpen, BulkheadShare, Duplicates, Errors, P95, P99, PaymentP95,
    Recovery, Shed, Success,
};

/// A row of one of its tables, by configuration.
type Row = (Trouble, Quantity, &'static [(Configuration, f64)]);

const CLAIMED: &[Row] = &[
    (
        Trouble::PaymentErrors,
        Success,
        &[
            (A, 0.802),
            (B, 0.513),
            (C, 0.587),
            (D, 0.921),
            (E, 0.938),
            (F, 0.939),
        ],
    ),
    (
        Trouble::PaymentErrors,
        P95,
        &[
            (A, 340.0),
            (B, 890.0),
            (C, 820.0),
            (D, 210.0),
            (E, 190.0),
            (F, 185.0),
        ],
    ),
    (
        Trouble::PaymentErrors,
        Amplification,
        &[(A, 1.0), (B, 2.6), (C, 2.5), (D, 1.1), (E, 1.1), (F, 1.1)],
    ),
    (
        Trouble::PaymentErrors,
        BreakerOpen,
        &[(A, 0.0), (B, 0.0), (C, 0.0), (D, 0.38), (E, 0.35), (F, 0.34)],
    ),
    (
        Trouble::PaymentSlow,
        Success,
        &[(A, 0.72), (C, 0.81), (D, 0.88), (E, 0.91)],
    ),
    (
        Trouble::PaymentSlow,
        P95,
        &[(A, 18_200.0), (C, 8_100.0), (D, 200.0), (E, 185.0)],
    ),
    (
        Trouble::PaymentSlow,
        P99,
        &[(A, 21_000.0), (C, 9_200.0), (D, 310.0), (E, 280.0)],
    ),
    (
        Trouble::PaymentSlow,
        Recovery,
        &[(A, 130.0), (C, 120.0), (D, 35.0), (E, 32.0)],
    ),
    (
        Trouble::InventoryLock,
        P95,
        &[(A, 4_200.0), (C, 2_800.0), (E, 2_600.0)],
    ),
    (
        Trouble::InventoryLock,
        PaymentP95,
        &[(A, 4_100.0), (C, 2_700.0), (E, 110.0)],
    ),
    (Trouble::InventoryLock, BulkheadShare, &[(E, 0.18)]),
    (
        Trouble::RetryStorm,
        Amplification,
        &[(B, 2.8), (C, 2.7), (D, 1.1), (F, 1.1)],
    ),
    (
        Trouble::RetryStorm,
        Success,
        &[(B, 0.48), (C, 0.54), (D, 0.91), (F, 0.91)],
    ),
    (
        Trouble::RetryStorm,
        Duplicates,
        &[(B, 0.093), (C, 0.081), (D, 0.008), (F, 0.0)],
    ),
    (
        Trouble::GatewayOverload,
        AdmittedP95,
        &[(A, 15_400.0), (B, 15_400.0), (E, 380.0)],
    ),
    (Trouble::GatewayOverload, Shed, &[(A, 0.0), (B, 0.0), (E, 0.51)]),
    (
        Trouble::GatewayOverload,
        Errors,
        &[(A, 0.42), (B, 0.42), (E, 0.03)],
    ),
];

/// The quantities that are published for a fault, in that order.
pub(super) fn quantities(trouble: Trouble) -> impl Iterator<Item = Quantity> {
    CLAIMED
        .iter()
        .filter(move |(it, ..)| *it == trouble)
        .map(|(_, quantity, _)| *quantity)
}

/// The published figure.
pub(super) fn claimed(trouble: Trouble, quantity: Quantity, configuration: Configuration) -> Option<f64> {
    CLAIMED
        .iter()
        .find(|(its, of, _)| *its == trouble && *of == quantity)?
        .2
        .iter()
        .find(|(it, _)| *it == configuration)
        .map(|(_, value)| *value)
}

impl Quantity {
    /// Its head in tables.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Success => "success",
            P95 => "P95 ms",
            P99 => "P99 ms",
            Amplification => "amplification",
            BreakerOpen => "breaker open",
            Recovery => "MTTR s",
            PaymentP95 => "payment P95 ms",
            BulkheadShare => "bulkhead rejections",
            Duplicates => "duplicate writes",
            AdmittedP95 => "admitted P95 ms",
            Shed => "shed",
            Errors => "errors",
        }
    }

    /// What was measured. Nothing for a recovery that never came.
    pub(super) const fn measured(self, figures: &Figures) -> Option<f64> {
        Some(match self {
            Success => figures.success,
            P95 => figures.p95_ms,
            P99 => figures.p99_ms,
            Amplification => figures.amplification,
            BreakerOpen => figures.breaker_open,
            Recovery => return figures.recovery_s,
            PaymentP95 => figures.payment_p95_ms,
            BulkheadShare => figures.bulkhead_share,
            Duplicates => figures.duplicate_rate,
            AdmittedP95 => figures.admitted_p95_ms,
            Shed => figures.shed,
            Errors => figures.failed + figures.lost,
        })
    }

    /// What the simulator says, where it has the quantity.
    pub(super) const fn predicted(self, predicted: &Predicted) -> Option<f64> {
        Some(match self {
            Success => predicted.success,
            P95 => predicted.p95_ms,
            P99 => predicted.p99_ms,
            Amplification => predicted.amplification,
            BreakerOpen => return predicted.breaker_open,
            Recovery => return predicted.recovery_s,
            Duplicates => predicted.duplicate_rate,
            // It does not tell shed orders from others that were turned away, and measures whole calls only.
            PaymentP95 | BulkheadShare | AdmittedP95 | Shed | Errors => return None,
        })
    }

    /// A value as tables show it.
    pub(super) fn shown(self, value: f64) -> String {
        match self {
            Success | BreakerOpen | BulkheadShare | Duplicates | Shed | Errors => {
                format!("{:.1} %", 100.0 * value)
            }
            P95 | P99 | PaymentP95 | AdmittedP95 => format!("{value:.0}"),
            Amplification => format!("{value:.2}"),
            Recovery => format!("{value:.0}"),
        }
    }

    /// The difference of two values as tables show it: points for shares.
    pub(super) fn difference(self, value: f64) -> String {
        let text = match self {
            Success | BreakerOpen | BulkheadShare | Duplicates | Shed | Errors => {
                format!("{:+.1}", 100.0 * value)
            }
            P95 | P99 | PaymentP95 | AdmittedP95 | Recovery => format!("{value:+.0}"),
            Amplification => format!("{value:+.2}"),
        };
        // What is rounded to nothing has no direction.
        if text.contains(|digit| matches!(digit, '1'..='9')) {
            text
        } else {
            text[1..].to_owned()
        }
    }
}

/// What was measured in a run, where it was run and its load was kept.
pub(super) fn measured(
    results: &Results,
    trouble: Trouble,
    configuration: Configuration,
    quantity: Quantity,
) -> Option<f64> {
    quantity.measured(results.figures(trouble, configuration)?)
}
