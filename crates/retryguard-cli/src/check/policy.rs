//! From a policy to a model: the user's own numbers in the world of the resiliency patterns.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use retryguard_core::backoff::{Growth, Jitter};
use retryguard_core::breaker::Trip;
use retryguard_core::target::Settings;
use retryguard_model::{Constants, Model, Options, Properties, Value};
use retryguard_policy::Policy;

use super::embedded::{POLICY_BREAKER, POLICY_RETRY, TIMES};
use super::output::Row;
use super::rows;

/// Which policy, and which world it is judged in.
#[derive(Args, Clone, Debug)]
pub(crate) struct World {
    /// The policy file.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The service of the policy that is called.
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// Availabilities of the target: one, or from:step:to.
    #[arg(long, value_name = "RANGE", default_value = "0.5:0.1:1.0")]
    pub(crate) availability: String,
    /// Mean response time of the target, such as 50ms; half the attempt timeout if not given, as in the paper.
    #[arg(long, value_name = "TIME")]
    pub(crate) response_time: Option<String>,
    /// Which part of the policy to model; the retries if it has any, else the breaker.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Option<Pattern>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pattern {
    /// The retries.
    Retry,
    /// The breaker.
    Breaker,
}

/// A policy lowered to a model.
pub(crate) struct Lowered {
    pub(crate) text: &'static str,
    /// The values of the model's constants, in units of a fifth of the mean response time.
    pub(crate) constants: Constants,
    pub(crate) availabilities: Vec<Value>,
    /// The length of the model's unit of time, in seconds.
    pub(crate) unit: f64,
    /// What the model leaves out or bends.
    pub(crate) losses: Vec<String>,
}

impl World {
    pub(crate) fn lower(&self) -> anyhow::Result<Lowered> {
        let path = self
            .policy
            .as_ref()
            .context("no policy is given: give --policy FILE")?;
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the policy {}", path.display()))?;
        let policy = Policy::parse(&text).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
        let known: Vec<&str> = policy.services().map(|(known, _)| known).collect();
        let known = known.join(", ");
        let name = self
            .service
            .as_deref()
            .with_context(|| format!("no service is given: give --service with one of {known}"))?;
        if !policy.services().any(|(known, _)| known == name) {
            bail!("the policy has no service `{name}`: give --service with one of {known}");
        }
        let service = policy.service(name);
        let response = self.response_time.as_deref().map(duration).transpose()?;
        let pattern = match self.pattern {
            Some(pattern) => pattern,
            None if service.target.call.retries == 0 && service.target.breaker.is_some() => Pattern::Breaker,
            None => Pattern::Retry,
        };
        lower(
            &service.target,
            response,
            pattern,
            availabilities(&self.availability)
                .with_context(|| format!("--availability {}", self.availability))?,
        )
    }
}

/// At an availability of nothing no request succeeds, so that every expected time is infinite and nothing can be compared.
fn availabilities(text: &str) -> anyhow::Result<Vec<Value>> {
    let values = super::constants::range(text)?;
    if values.is_empty() {
        bail!("the range is empty: write from:step:to with from below to");
    }
    for value in &values {
        let share = match value {
            Value::Int(value) => *value as f64,
            Value::Real(value) => *value,
            Value::Bool(_) => f64::NAN,
        };
        if !(share > 0.0 && share <= 1.0) {
            bail!("{value} is not an availability: give a share of the time, above 0 and at most 1");
        }
    }
    Ok(values)
}

pub(crate) fn lower(
    settings: &Settings,
    response: Option<f64>,
    pattern: Pattern,
    availabilities: Vec<Value>,
) -> anyhow::Result<Lowered> {
    let mut losses = Vec::new();
    let timeout = settings.call.attempt_timeout.map(|t| t.as_secs_f64());
    let response = match (response, timeout) {
        (Some(response), _) => response,
        (None, Some(timeout)) => timeout / 2.0,
        (None, None) => {
            bail!("the policy has no attempt timeout to take the response time from: give --response-time")
        }
    };
    if !(response > 0.0 && response.is_finite()) {
        bail!("the response time must be positive: give --response-time, such as 50ms");
    }
    let timeout = timeout.unwrap_or_else(|| {
        losses.push("no attempt timeout: the model gives up after twice the mean response time".to_owned());
        2.0 * response
    });
    let unit = response / 5.0;
    let mut constants = Constants::from([
        ("CONN_TO".to_owned(), Value::Real(timeout / unit)),
        ("RES_TO".to_owned(), Value::Real(timeout / unit)),
    ]);
    let text = match pattern {
        Pattern::Retry => {
            retry_constants(settings, unit, &mut constants, &mut losses);
            POLICY_RETRY
        }
        Pattern::Breaker => {
            breaker_constants(settings, unit, &mut constants, &mut losses)?;
            POLICY_BREAKER
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
) -> anyhow::Result<()> {
    let breaker = settings
        .breaker
        .as_ref()
        .context("the policy has no breaker for this service")?;
    let failures = match breaker.trip {
        Trip::Consecutive(failures) => failures,
        Trip::Count { failures, .. } => {
            losses.push(format!(
                "{failures} failures in a window are modelled as {failures} in a row"
            ));
            failures
        }
        Trip::Rate {
            ratio, minimum_calls, ..
        } => {
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
        bail!("a breaker that needs {failures} failures is too large for the model");
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
    /// The same client in the same world, with neither retries nor a breaker: what a pattern is compared with.
    pub(crate) fn without_retries(&self) -> Lowered {
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

    /// Total and contention time at every availability.
    pub(crate) fn solve(&self) -> anyhow::Result<Vec<Row>> {
        let model =
            Model::parse(self.text).map_err(|e| anyhow::anyhow!(e.render("model", self.text, TIMES)))?;
        let properties =
            Properties::parse(TIMES).map_err(|e| anyhow::anyhow!(e.render("model", self.text, TIMES)))?;
        let solved: Result<Vec<Vec<Row>>, retryguard_model::Error> = self
            .availabilities
            .par_iter()
            .map(|availability| {
                let mut constants = self.constants.clone();
                constants.insert("AV".to_owned(), *availability);
                rows(&model, &properties, &constants, &Options::default())
            })
            .collect();
        let solved = solved.map_err(|e| anyhow::anyhow!(e.render("model", self.text, TIMES)))?;
        Ok(solved.into_iter().flatten().collect())
    }
}

/// `50ms`, `1.5s`, `200us`.
pub(crate) fn duration(text: &str) -> anyhow::Result<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => bail!("`{text}` is not a time: write 50ms, 1.5s or 200us"),
    };
    let number: f64 = digits
        .trim()
        .parse()
        .with_context(|| format!("`{text}` is not a time"))?;
    Ok(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "services:\n  payments:\n    maxRetries: 5\n    attemptTimeout: 100ms\n    initialDelay: 100ms\n    \
                          maxDelay: 200ms\n    multiplier: 2\n    jitterFactor: 0\n";

    fn lowered(pattern: Pattern, response: f64) -> anyhow::Result<Lowered> {
        let policy = Policy::parse(POLICY).map_err(|e| anyhow::anyhow!("{e}"))?;
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
        assert_eq!(found.solve().unwrap().len(), 2);
    }

    #[test]
    fn times_are_read_with_their_units() {
        assert!((duration("50ms").unwrap() - 0.05).abs() < 1e-12);
        assert!((duration("1.5s").unwrap() - 1.5).abs() < 1e-12);
        assert!(duration("5").is_err() && duration("ms").is_err() && duration("5 parsecs").is_err());
    }
}
