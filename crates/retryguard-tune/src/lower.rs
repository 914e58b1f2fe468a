//! From a policy to a model: the user's own numbers in the world of the resiliency patterns.

use std::time::Duration;

use rayon::prelude::*;
use retryguard_core::backoff::{Growth, Jitter};
use retryguard_core::breaker::Trip;
use retryguard_core::target::Settings;
use retryguard_model::{Answer, Constants, Model, Options, Properties, Value};

use crate::Error;

const RETRY: &str = include_str!("../models/retry.prism");
const BREAKER: &str = include_str!("../models/breaker.prism");
const TIMES: &str = include_str!("../models/times.props");

/// The mean response time, in units of the model.
pub(crate) const RESPONSE: f64 = 5.0;

/// One answer and the constants it is for.
#[derive(Debug, Clone)]
pub struct Row {
    /// The values of the model's constants.
    pub constants: Constants,
    /// What the model checker says.
    pub answer: Answer,
}

/// Which part of a policy is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The retries.
    Retry,
    /// The breaker.
    Breaker,
}

/// A policy lowered to a model.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// The model in the PRISM language.
    pub text: &'static str,
    /// The values of the model's constants, in units of a fifth of the mean response time.
    pub constants: Constants,
    /// The availabilities of the target that are looked at.
    pub availabilities: Vec<Value>,
    /// The length of the model's unit of time, in seconds.
    pub unit: f64,
    /// What the model leaves out or bends.
    pub losses: Vec<String>,
}

/// The model of one service's policy. `response` is the mean response time of the target in seconds; half the attempt timeout if
/// not given.
///
/// # Errors
/// Where the policy has no such pattern, or says too little for a model.
pub fn lower(
    settings: &Settings,
    response: Option<f64>,
    pattern: Pattern,
    availabilities: Vec<Value>,
) -> Result<Lowered, Error> {
    let mut losses = Vec::new();
    let timeout = settings.call.attempt_timeout.map(|t| t.as_secs_f64());
    let response = match (response, timeout) {
        (Some(response), _) => response,
        (None, Some(timeout)) => timeout / 2.0,
        (None, None) => {
            return Err(Error::NoResponseTime);
        }
    };
    if !(response > 0.0 && response.is_finite()) {
        return Err(Error::ResponseTime);
    }
    let timeout = timeout.unwrap_or_else(|| {
        losses.push("no attempt timeout: the model gives up after twice the mean response time".to_owned());
        2.0 * response
    });
    let unit = response / RESPONSE;
    let mut constants = Constants::from([
        ("MRT".to_owned(), Value::Real(RESPONSE)),
        ("MIRT".to_owned(), Value::Real(1.0)),
        ("MAX_RBF".to_owned(), Value::Int(10)),
        ("CONN_TO".to_owned(), Value::Real(timeout / unit)),
        ("RES_TO".to_owned(), Value::Real(timeout / unit)),
    ]);
    let text = match pattern {
        Pattern::Retry => {
            retry_constants(settings, unit, &mut constants, &mut losses);
            RETRY
        }
        Pattern::Breaker => {
            breaker_constants(settings, unit, &mut constants, &mut losses)?;
            BREAKER
        }
    };
    losses.push("timeouts are Erlang delays of 20 stages; waits are exponential, with the mean that the policy's jitter has".to_owned());
    for (present, what) in [
        (settings.call.deadline.is_some(), "the deadline of a call"),
        (
            pattern == Pattern::Retry && settings.breaker.is_some(),
            "the breaker (ask for it with --pattern breaker)",
        ),
        (
            pattern == Pattern::Breaker && settings.call.retries > 0,
            "the retries (ask for them with --pattern retry)",
        ),
        (
            settings.budget.is_some(),
            "the budget: one client alone cannot exhaust it",
        ),
        (settings.throttle.is_some(), "the throttle"),
        (
            settings.bulkhead.is_some(),
            "the concurrency limit: the client makes one call at a time",
        ),
        (settings.hedge.is_some(), "hedges"),
        (
            settings.guard.is_some(),
            "the guard: see models/clients/guard.prism",
        ),
    ] {
        if present {
            losses.push(format!("not in the model: {what}"));
        }
    }
    Ok(Lowered {
        text,
        constants,
        availabilities,
        unit,
        losses,
    })
}

fn retry_constants(settings: &Settings, unit: f64, constants: &mut Constants, losses: &mut Vec<String>) {
    let backoff = &settings.call.backoff;
    let units = |span: Duration| span.as_secs_f64() / unit;
    let share = match backoff.jitter {
        Jitter::None => 1.0,
        Jitter::Full => 0.5,
        Jitter::Equal => 0.75,
        Jitter::Factor { low, high } => (low.as_f64() + high.as_f64()) / 2.0,
        Jitter::Decorrelated => 1.0,
    };
    let growth = match (backoff.jitter, backoff.growth) {
        (Jitter::Decorrelated, _) => {
            losses.push("decorrelated jitter: each mean wait is one and a half times the last".to_owned());
            1.5
        }
        (_, Growth::Constant) => 1.0,
        (_, Growth::Linear) => {
            losses.push("linear growth: the waits double once and then stay".to_owned());
            2.0
        }
        (_, Growth::Exponential(factor)) => factor.as_f64(),
    };
    // A wait of nothing is the rate of what takes no time, not a division by zero.
    let first = (units(backoff.initial) * share).max(1e-4);
    let cap = match backoff.growth {
        Growth::Linear if backoff.jitter != Jitter::Decorrelated => {
            (2.0 * units(backoff.initial)).min(units(backoff.cap))
        }
        _ => units(backoff.cap),
    };
    constants.insert("MAX_RET".to_owned(), Value::Int(i64::from(settings.call.retries)));
    constants.insert("MIN_BO".to_owned(), Value::Real(first));
    constants.insert("MAX_BO".to_owned(), Value::Real((cap * share).max(first)));
    constants.insert("GROWTH".to_owned(), Value::Real(growth));
}

fn breaker_constants(
    settings: &Settings,
    unit: f64,
    constants: &mut Constants,
    losses: &mut Vec<String>,
) -> Result<(), Error> {
    let breaker = settings.breaker.as_ref().ok_or(Error::NoBreaker)?;
    let failures = match breaker.trip {
        Trip::Consecutive(failures) => failures,
        Trip::Silence(failures) => {
            losses.push(format!(
                "{failures} failures without a success are modelled as {failures} in a row, and calls that wait for the recovery as calls that fail"
            ));
            failures
        }
        Trip::Count { failures, .. } => {
            losses.push(format!(
                "{failures} failures in a window are modelled as {failures} in a row"
            ));
            failures
        }
        Trip::Rate {
            ratio,
            minimum_calls,
            slow,
            ..
        } => {
            if slow.is_some() {
                losses.push("the share of slow calls that opens the breaker is not modelled".to_owned());
            }
            let failures = (1..=minimum_calls)
                .find(|n| f64::from(*n) >= ratio.as_f64() * f64::from(minimum_calls))
                .unwrap_or(minimum_calls);
            losses.push(format!(
                "a share of failures in a window is modelled as {failures} failures in a row, the least that can trip it"
            ));
            failures
        }
    };
    if failures > 100 {
        return Err(Error::BreakerTooLarge(failures));
    }
    let units = |span: Duration| span.as_secs_f64() / unit;
    let first = units(breaker.open_for).max(1e-4);
    constants.insert("MAX_ERR".to_owned(), Value::Int(i64::from(failures.max(1))));
    constants.insert(
        "MAX_SUC".to_owned(),
        Value::Int(i64::from(breaker.close_after.clamp(1, 100))),
    );
    constants.insert("MIN_TO".to_owned(), Value::Real(first));
    constants.insert(
        "MAX_TO".to_owned(),
        Value::Real(units(breaker.open_for_at_most).max(first)),
    );
    Ok(())
}

impl Lowered {
    /// Which part of the policy it is the model of.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        match self.constants.contains_key("MAX_ERR") {
            true => Pattern::Breaker,
            false => Pattern::Retry,
        }
    }

    /// The same client in the same world, with neither retries nor a breaker: what a pattern is compared with.
    #[must_use]
    pub fn without_retries(&self) -> Lowered {
        let mut constants = self.constants.clone();
        constants.insert("MAX_RET".to_owned(), Value::Int(0));
        Lowered {
            text: self.text,
            constants,
            availabilities: self.availabilities.clone(),
            unit: self.unit,
            losses: Vec::new(),
        }
    }

    /// The mean response time of the target, in seconds.
    #[must_use]
    pub fn response(&self) -> f64 {
        RESPONSE * self.unit
    }

    /// Total time, contention time and the time of attempts that fail at every availability.
    ///
    /// # Errors
    /// Where the model checker refuses.
    pub fn solve(&self) -> Result<Vec<Row>, Error> {
        let refused = |error: retryguard_model::Error| Error::Model(error.render("model", self.text, TIMES));
        let model = Model::parse(self.text).map_err(refused)?;
        let properties = Properties::parse(TIMES).map_err(refused)?;
        let solved: Result<Vec<Vec<Row>>, retryguard_model::Error> = self
            .availabilities
            .par_iter()
            .map(|availability| {
                let mut constants = self.constants.clone();
                constants.insert("AV".to_owned(), *availability);
                let answers = retryguard_model::check(&model, &properties, &constants, &Options::default())?;
                let row = |answer| Row {
                    constants: constants.clone(),
                    answer,
                };
                Ok(answers.into_iter().map(row).collect())
            })
            .collect();
        Ok(solved.map_err(refused)?.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use retryguard_policy::Policy;

    use super::*;

    const POLICY: &str = "services:\n  payments:\n    maxRetries: 5\n    attemptTimeout: 100ms\n    initialDelay: 100ms\n    \
                          maxDelay: 200ms\n    multiplier: 2\n    jitterFactor: 0\n";

    fn lowered(pattern: Pattern, response: f64) -> Result<Lowered, Error> {
        let policy = Policy::parse(POLICY).expect("a policy without mistakes");
        lower(
            &policy.service("payments").target,
            Some(response),
            pattern,
            vec![Value::Real(0.5)],
        )
    }

    #[test]
    fn durations_become_units_of_the_response_time() {
        let found = lowered(Pattern::Retry, 0.05).unwrap();
        // The response time of 50 ms is five units.
        assert!((found.unit - 0.01).abs() < 1e-12);
        let number = |name: &str| match found.constants[name] {
            Value::Int(value) => value as f64,
            Value::Real(value) => value,
            Value::Bool(_) => panic!("{name}"),
        };
        assert!((number("RES_TO") - 10.0).abs() < 1e-9);
        assert!((number("MAX_BO") / number("MIN_BO") - 2.0).abs() < 1e-9);
        assert_eq!(number("MAX_RET"), 5.0);
        assert!(found.losses.iter().any(|loss| loss.contains("exponential")));
        assert_eq!(found.solve().unwrap().len(), 3);
    }
}
