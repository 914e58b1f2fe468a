//! What a policy costs, in seconds.

use crate::lower::{Lowered, Row};
use crate::{Error, search::number};

/// The calls that must succeed, one after the other: `MAX_REQ` of the models.
pub const CALLS: u32 = 100;

/// What [`CALLS`] successful calls cost at one availability, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The availability of the target.
    pub availability: f64,
    /// The expected time until the last of them has succeeded, pauses between calls among it.
    pub total: f64,
    /// The time for which an attempt holds the network.
    pub contention: f64,
    /// The part of that which is spent on attempts that fail.
    pub failing: f64,
}

impl Costs {
    /// The part of the total time that is spent on attempts that fail, in percent.
    #[must_use]
    pub fn failing_percent(&self) -> f64 {
        100.0 * self.failing / self.total
    }
}

impl Lowered {
    /// What the policy costs at every availability.
    ///
    /// # Errors
    /// Where the model checker refuses, or gives no number.
    pub fn costs(&self) -> Result<Vec<Costs>, Error> {
        self.costs_of(&self.solve()?)
    }

    /// The same of rows that [`Lowered::solve`] gave.
    ///
    /// # Errors
    /// Where a row has no number.
    pub fn costs_of(&self, rows: &[Row]) -> Result<Vec<Costs>, Error> {
        let of = |row: &Row, name: &str| {
            let same =
                |other: &&Row| other.constants == row.constants && other.answer.name.as_deref() == Some(name);
            let found = rows.iter().find(same);
            let value = found.and_then(|row| row.answer.outcome.number());
            value.map(|value| value * self.unit).ok_or(Error::TooLarge)
        };
        rows.iter()
            .filter(|row| row.answer.name.as_deref() == Some("total"))
            .map(|row| {
                Ok(Costs {
                    availability: number(&row.constants, "AV"),
                    total: of(row, "total")?,
                    contention: of(row, "contention")?,
                    failing: of(row, "failing")?,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use retryguard_model::Value;
    use retryguard_policy::Policy;

    use crate::{Pattern, lower};

    /// A target that is always up: what is not spent on failures are the successes, whose mean is known.
    #[test]
    fn what_does_not_fail_succeeds() {
        let policy =
            Policy::parse("services:\n  payments:\n    maxRetries: 2\n    attemptTimeout: 80ms\n").unwrap();
        let always = vec![Value::Real(1.0)];
        let lowered = lower(
            &policy.service("payments").target,
            Some(0.05),
            Pattern::Retry,
            always,
        )
        .unwrap();
        let costs = lowered.costs().unwrap()[0];
        // A timer of 20 phases against an exponential answer: in each phase the answer comes first with 1 - q.
        let (phase, answer) = (20.0 / 0.08, 1.0 / 0.05);
        let q: f64 = phase / (phase + answer);
        let ends = (0..20).map(|n| (f64::from(n) + 1.0) * q.powi(n) * (1.0 - q) / (phase + answer));
        let success = ends.sum::<f64>() / (1.0 - q.powi(20));
        let failures = 100.0 * q.powi(20) / (1.0 - q.powi(20));
        let expected = failures * 20.0 / (phase + answer);
        assert!(
            (costs.failing / expected - 1.0).abs() < 1e-3,
            "{costs:?} {expected}"
        );
        let succeeding = costs.contention - costs.failing;
        assert!(
            (succeeding / (100.0 * success) - 1.0).abs() < 1e-3,
            "{costs:?} {success}"
        );
        assert!(costs.total > costs.contention);
    }
}
