//! Retries: how many, and how long the waits between them are.

use retryguard_model::{Constants, Value};
use serde_json::{Map, json};

use crate::search::{Search, number, own, policy_time, time, whole};
use crate::{Error, Lowered};

const NAMES: &[&str] = &["MAX_RET", "MIN_BO", "MAX_BO"];

impl Search {
    /// Over retries: how many, and how long the waits between them are.
    ///
    /// # Errors
    /// Where `lowered` is not a model of retries.
    pub fn retries(lowered: &Lowered) -> Result<Self, Error> {
        let written = own(lowered, NAMES)?;
        let wait = number(&written, "MIN_BO");
        let mut grid = vec![written];
        for retries in 0..=6 {
            for factor in [0.25, 0.5, 1.0, 2.0, 4.0] {
                for cap in [1.0, 2.0, 4.0, 8.0] {
                    let first = wait * factor;
                    grid.push(Constants::from([
                        ("MAX_RET".to_owned(), Value::Int(retries)),
                        ("MIN_BO".to_owned(), Value::Real(first)),
                        ("MAX_BO".to_owned(), Value::Real(first * cap)),
                    ]));
                }
            }
        }
        Ok(Search {
            plain: lowered.without_retries(),
            without: ("without retries", "withoutRetries"),
            grid,
            words: |chosen, unit| {
                format!(
                    "{} retries, mean waits {} to {}",
                    number(chosen, "MAX_RET"),
                    time(number(chosen, "MIN_BO") * unit),
                    time(number(chosen, "MAX_BO") * unit)
                )
            },
            keys: |chosen, unit| {
                Map::from_iter([
                    ("maxRetries".to_owned(), json!(whole(chosen, "MAX_RET"))),
                    (
                        "meanFirstWaitSeconds".to_owned(),
                        json!(number(chosen, "MIN_BO") * unit),
                    ),
                    (
                        "meanLargestWaitSeconds".to_owned(),
                        json!(number(chosen, "MAX_BO") * unit),
                    ),
                ])
            },
            advice: |chosen, unit| {
                // Full jitter halves the mean, so that a delay is twice the mean wait.
                let delay = |name: &str| policy_time(2.0 * number(chosen, name) * unit);
                match whole(chosen, "MAX_RET") {
                    0 => "maxRetries: 0\n".to_owned(),
                    retries => format!(
                        "maxRetries: {retries}\ninitialDelay: {}\nmaxDelay: {}\njitter: full\n",
                        delay("MIN_BO"),
                        delay("MAX_BO")
                    ),
                }
            },
        })
    }
}
