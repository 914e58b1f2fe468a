//! A mean over replications and how far it may be off.

/// Collects one number from each replication (Welford's way, which does not lose the small differences of
/// large numbers).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    count: u32,
    mean: f64,
    squares: f64,
}

impl Tally {
    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / f64::from(self.count);
        self.squares += before * (value - self.mean);
    }

    /// The mean and its confidence interval.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let half_width = (self.count > 1).then(|| {
            let freedom = self.count - 1;
            let variance = self.squares / f64::from(freedom);
            student(freedom) * (variance / f64::from(self.count)).sqrt()
        });
        Estimate {
            mean: self.mean,
            half_width,
        }
    }
}

impl FromIterator<f64> for Tally {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut tally = Self::default();
        values.into_iter().for_each(|value| tally.add(value));
        tally
    }
}

/// A mean over independent replications.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` of a single run, which is no evidence about its
    /// own spread.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// The lower end of the interval; the mean itself for a single run.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.mean - self.half_width.unwrap_or(0.0)
    }

    /// The upper end of the interval; the mean itself for a single run.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.mean + self.half_width.unwrap_or(0.0)
    }
}

/// The 97.5 % quantile of Student's distribution. A table where the expansion is poor, Cornish and Fisher's
/// expansion around the normal quantile beyond it.
fn student(freedom: u32) -> f64 {
    const SMALL: [f64; 8] = [
        12.706_2, 4.302_7, 3.182_4, 2.776_4, 2.570_6, 2.446_9, 2.364_6, 2.306_0,
    ];
    if let Some(&value) = SMALL.get(freedom as usize - 1) {
        return value;
    }
    let (z, n) = (1.959_964_f64, f64::from(freedom));
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * n)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{Purpose, Seed};

    #[test]
    fn the_quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [(1, 12.706), (4, 2.776), (9, 2.262), (19, 2.093), (99, 1.984)] {
            assert!(
                (student(freedom) - expected).abs() < 0.001,
                "{freedom}: {}",
                student(freedom)
            );
        }
    }

    #[test]
    fn the_interval_holds_the_truth_in_nineteen_of_twenty_cases() {
        let mut stream = Seed(11).stream(0, Purpose::Service);
        let cases = 4000;
        let held = (0..cases)
            .filter(|_| {
                let estimate = (0..6).map(|_| stream.normal()).collect::<Tally>().estimate();
                estimate.low() <= 0.0 && 0.0 <= estimate.high()
            })
            .count();
        let share = held as f64 / f64::from(cases);
        assert!((share - 0.95).abs() < 0.015, "{share}");
    }

    #[test]
    fn one_run_claims_no_confidence() {
        assert_eq!(
            Tally::from_iter([4.0]).estimate(),
            Estimate {
                mean: 4.0,
                half_width: None
            }
        );
    }
}
