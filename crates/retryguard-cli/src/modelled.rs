//! What `check` and `tune` share: which policy is modelled and in which world, and how they end: 0 for answers, 1 for a model, a
//! property or a limit that stands in their way, 2 for what the user has to give differently.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use retryguard_model::{Value, sweep};
use retryguard_policy::{Policy, reading::nearest};
use retryguard_tune::{Lowered, lower};

use crate::foreign;

/// What was given is wrong, whatever the model would have said.
#[derive(Debug)]
pub(crate) struct Wrong(pub(crate) anyhow::Error);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Wrong {}

/// Says on standard error why there is no answer.
pub(crate) fn exit(answer: anyhow::Result<()>) -> ExitCode {
    let Err(error) = answer else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    if error.is::<Wrong>() {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}

/// Which policy, and which world it is judged in.
#[derive(Args, Clone, Debug)]
pub(crate) struct World {
    /// The policy file, or one of another system that `retryguard import` reads.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The service of the policy that is called.
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// Availabilities of the target: one, or from:step:to.
    #[arg(long, value_name = "RANGE", default_value = "0.5:0.1:1.0")]
    pub(crate) availability: String,
    /// Mean response time of the target, such as 50ms; half the attempt timeout if not given, as in Mendonça et al. 2020.
    #[arg(long, value_name = "TIME")]
    pub(crate) response_time: Option<String>,
    /// Which part of the policy to model; the retries if it has any, else the breaker.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Option<Pattern>,
}

/// The part of a policy that is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pattern {
    /// The retries.
    Retry,
    /// The breaker.
    Breaker,
}

impl From<Pattern> for retryguard_tune::Pattern {
    fn from(pattern: Pattern) -> Self {
        match pattern {
            Pattern::Retry => Self::Retry,
            Pattern::Breaker => Self::Breaker,
        }
    }
}

impl From<retryguard_tune::Pattern> for Pattern {
    fn from(pattern: retryguard_tune::Pattern) -> Self {
        match pattern {
            retryguard_tune::Pattern::Retry => Self::Retry,
            retryguard_tune::Pattern::Breaker => Self::Breaker,
        }
    }
}

impl World {
    pub(crate) fn lower(&self) -> anyhow::Result<Lowered> {
        let path = self
            .policy
            .as_ref()
            .context("no policy is given: give --policy FILE")?;
        let policy = foreign::policy(&foreign::read(path)?, &path.display().to_string())?;
        let names: Vec<&str> = policy.services().map(|(known, _)| known).collect();
        let known = names.join(", ");
        let name = self
            .service
            .as_deref()
            .with_context(|| format!("no service is given: give --service with one of {known}"))?;
        if !policy.services().any(|(known, _)| known == name) {
            let near = nearest(name, names.iter().copied());
            let near = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
            bail!("the policy has no service `{name}`; {near}give --service with one of {known}");
        }
        let service = policy.service(name);
        let response = self.response_time.as_deref().map(duration).transpose()?;
        let pattern = match self.pattern {
            Some(pattern) => pattern,
            None if service.target.call.retries == 0 && service.target.breaker.is_some() => Pattern::Breaker,
            None => Pattern::Retry,
        };
        let availabilities = availabilities(&self.availability)
            .with_context(|| format!("--availability {}", self.availability))?;
        Ok(lower(&service.target, response, pattern.into(), availabilities)?)
    }

    /// The policy that [`World::lower`] lowers.
    pub(crate) fn read(&self) -> anyhow::Result<Policy> {
        let path = self.policy.as_deref().unwrap_or(Path::new(""));
        let text = foreign::read(path)?.text;
        Policy::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
    }

    /// The retries of the same service. Without them it is what a pattern is compared with.
    pub(crate) fn as_retries(&self) -> anyhow::Result<Lowered> {
        let retries = World {
            pattern: Some(Pattern::Retry),
            ..self.clone()
        };
        retries.lower()
    }
}

/// At an availability of nothing no request succeeds, so that every expected time is infinite and nothing can be compared.
fn availabilities(text: &str) -> anyhow::Result<Vec<Value>> {
    let values = sweep::range(text)?;
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

/// `50ms`, `1.5s`, `200us`.
fn duration(text: &str) -> anyhow::Result<f64> {
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

    #[test]
    fn times_are_read_with_their_units() {
        assert!((duration("50ms").unwrap() - 0.05).abs() < 1e-12);
        assert!((duration("1.5s").unwrap() - 1.5).abs() < 1e-12);
        assert!(duration("5").is_err() && duration("ms").is_err() && duration("5 parsecs").is_err());
    }
}
