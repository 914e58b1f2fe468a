//! Which assumption matters most: each is changed a little, by itself, and the model is solved once more.

use retryguard_model::Value;

use crate::{Costs, Error, Lowered};

/// How much real numbers are changed.
const STEP: f64 = 0.01;

/// What one assumption does to the costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Influence {
    /// The assumption, in words.
    pub what: &'static str,
    /// Whether the policy sets it. Otherwise it belongs to the world.
    pub setting: bool,
    /// The change of the total time for 1 % more of it, in percent.
    pub total: f64,
    /// The same of the time that is spent on attempts that fail. `None` where there is no such time.
    pub failing: Option<f64>,
}

/// Constants of the models that change together, in words, and whether the policy sets them.
const ASSUMPTIONS: &[(&[&str], &str, bool)] = &[
    (&["AV"], "availability of the target", false),
    (&["MRT"], "mean response time", false),
    (
        &["MAX_RBF"],
        "calls between two outages (and their length)",
        false,
    ),
    (&["MIRT"], "pause between two calls", false),
    (&["CONN_TO", "RES_TO"], "attempt timeout", true),
    (&["MAX_RET"], "retries", true),
    (&["MIN_BO", "MAX_BO"], "waits between attempts", true),
    (&["MAX_ERR"], "failures that open the breaker", true),
    (&["MAX_SUC"], "successes that close the breaker", true),
    (&["MIN_TO", "MAX_TO"], "open time of the breaker", true),
];

impl Lowered {
    /// What each assumption does to the mean costs over the availabilities, `costs` being those of the policy as it is. The largest
    /// influence on the total time comes first.
    ///
    /// # Errors
    /// Where the model checker refuses, or gives no number.
    pub fn influences(&self, costs: &[Costs]) -> Result<Vec<Influence>, Error> {
        let mut found = Vec::new();
        for (names, what, setting) in ASSUMPTIONS {
            let known = *names == ["AV"] || names.iter().all(|name| self.constants.contains_key(*name));
            if !known {
                continue;
            }
            let (changed, factor) = self.changed(names);
            // A setting of 0 has no share of itself to be changed by.
            if !factor.is_finite() {
                continue;
            }
            let changed = changed.costs()?;
            let percent = |of: fn(&Costs) -> f64| {
                let (before, after) = (mean(costs, of), mean(&changed, of));
                (before > 0.0 && after > 0.0).then(|| (after / before).ln() / factor.ln())
            };
            found.push(Influence {
                what,
                setting: *setting,
                total: percent(|costs| costs.total).ok_or(Error::TooLarge)?,
                failing: percent(|costs| costs.failing),
            });
        }
        found.sort_by(|a, b| b.total.abs().total_cmp(&a.total.abs()));
        Ok(found)
    }

    /// The model with other values of these constants, and by which factor they are larger.
    fn changed(&self, names: &[&str]) -> (Lowered, f64) {
        let mut changed = self.clone();
        let mut factor = 1.0 + STEP;
        if names == ["AV"] {
            // Downwards: nothing is available more often than always.
            factor = 1.0 - STEP;
            for availability in &mut changed.availabilities {
                *availability = Value::Real(availability.number().unwrap_or(f64::NAN) * factor);
            }
        }
        for name in names {
            match changed.constants.get_mut(*name) {
                Some(Value::Int(value)) => {
                    factor = (*value + 1) as f64 / *value as f64;
                    *value += 1;
                }
                Some(Value::Real(value)) => *value *= factor,
                _ => {}
            }
        }
        (changed, factor)
    }
}

fn mean(costs: &[Costs], of: fn(&Costs) -> f64) -> f64 {
    costs.iter().map(of).sum::<f64>() / costs.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use retryguard_policy::Policy;

    use super::*;
    use crate::{Pattern, lower};

    const POLICY: &str = "services:\n  payments:\n    maxRetries: 2\n    attemptTimeout: 80ms\n    initialDelay: 40ms\n    \
                          breaker: {trip: consecutive, failures: 2, openFor: 1s, openForAtMost: 2s, closeAfter: 1}\n";

    /// Where every time is 1 % longer, the total time is: so the influences of all times add up to 1.
    #[test]
    fn the_influences_of_all_times_add_up() {
        let policy = Policy::parse(POLICY).unwrap();
        for pattern in [Pattern::Retry, Pattern::Breaker] {
            let availabilities = vec![Value::Real(0.7), Value::Real(0.9)];
            let target = &policy.service("payments").target;
            let lowered = lower(target, Some(0.05), pattern, availabilities).unwrap();
            let found = lowered.influences(&lowered.costs().unwrap()).unwrap();
            let times = [
                "mean response time",
                "pause between two calls",
                "attempt timeout",
                "waits between attempts",
                "open time of the breaker",
            ];
            let sum: f64 = found
                .iter()
                .filter(|influence| times.contains(&influence.what))
                .map(|influence| influence.total)
                .sum();
            assert!((sum - 1.0).abs() < 0.02, "{sum} {found:?}");
            let of = |what: &str| found.iter().find(|influence| influence.what == what);
            let availability = of("availability of the target").unwrap();
            assert!(availability.total < 0.0 && !availability.setting, "{found:?}");
            assert_eq!(of("retries").is_some(), pattern == Pattern::Retry);
            assert!(
                found
                    .windows(2)
                    .all(|pair| pair[0].total.abs() >= pair[1].total.abs())
            );
        }
    }
}
