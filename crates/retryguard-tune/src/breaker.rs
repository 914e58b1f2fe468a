//! The breaker: how many failures open it, for how long, and how many successes close it.

use retryguard_model::{Constants, Value};
use serde_json::{Map, json};

use crate::lower::RESPONSE;
use crate::search::{Search, number, own, policy_time, time, whole};
use crate::{Error, Lowered};

const NAMES: &[&str] = &["MAX_ERR", "MAX_SUC", "MIN_TO", "MAX_TO"];

impl Search {
    /// Over the breaker. `as_retries` is the same service lowered by [`crate::Pattern::Retry`]: without its retries it is what the
    /// breaker is compared with.
    ///
    /// # Errors
    /// Where `lowered` is not a model of a breaker.
    pub fn breaker(lowered: &Lowered, as_retries: &Lowered) -> Result<Self, Error> {
        let written = own(lowered, NAMES)?;
        Ok(Search {
            plain: as_retries.without_retries(),
            without: ("without a breaker", "withoutBreaker"),
            grid: grid(written),
            words: |chosen, unit| {
                format!(
                    "opens after {} failures in a row, for {} to {}, closes after {} successes",
                    number(chosen, "MAX_ERR"),
                    time(number(chosen, "MIN_TO") * unit),
                    time(number(chosen, "MAX_TO") * unit),
                    number(chosen, "MAX_SUC")
                )
            },
            keys: |chosen, unit| {
                Map::from_iter([
                    ("failures".to_owned(), json!(whole(chosen, "MAX_ERR"))),
                    ("closeAfter".to_owned(), json!(whole(chosen, "MAX_SUC"))),
                    (
                        "openForSeconds".to_owned(),
                        json!(number(chosen, "MIN_TO") * unit),
                    ),
                    (
                        "openForAtMostSeconds".to_owned(),
                        json!(number(chosen, "MAX_TO") * unit),
                    ),
                ])
            },
            advice: |chosen, unit| {
                let time = |name: &str| policy_time(number(chosen, name) * unit);
                format!(
                    "breaker: {{trip: consecutive, failures: {}, openFor: {}, openForAtMost: {}, closeAfter: {}}}\n",
                    number(chosen, "MAX_ERR"),
                    time("MIN_TO"),
                    time("MAX_TO"),
                    number(chosen, "MAX_SUC")
                )
            },
        })
    }
}

/// The policy's own breaker first. Times around its own, and around the response time of the target: outages in the model last as long
/// as so many responses, and a breaker that is set for minutes would leave no candidate on their scale.
fn grid(written: Constants) -> Vec<Constants> {
    let open = number(&written, "MIN_TO");
    let mut times: Vec<f64> = [0.5, 1.0, 2.0].iter().map(|factor| open * factor).collect();
    times.extend([0.5, 1.0, 2.0, 4.0, 8.0].iter().map(|factor| RESPONSE * factor));
    times.sort_by(f64::total_cmp);
    times.dedup_by(|a, b| (*a / *b - 1.0).abs() < 0.05);
    let mut grid = vec![written];
    for failures in [1, 2, 3, 5, 8] {
        for successes in [1, 2] {
            for time in &times {
                for cap in [1.0, 4.0] {
                    grid.push(Constants::from([
                        ("MAX_ERR".to_owned(), Value::Int(failures)),
                        ("MAX_SUC".to_owned(), Value::Int(successes)),
                        ("MIN_TO".to_owned(), Value::Real(*time)),
                        ("MAX_TO".to_owned(), Value::Real(time * cap)),
                    ]));
                }
            }
        }
    }
    grid
}
