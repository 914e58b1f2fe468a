//! One service of a policy as it is modelled: which part of it, and in which world.

use retryguard_model::{Value, sweep};
use retryguard_policy::{Policy, reading::nearest};

use crate::{Error, Found, LintedService, Lowered, Pattern, Search, lower};

/// A service of a policy, and the world that it is judged in.
#[derive(Debug, Clone)]
pub struct ModelledService {
    policy: Policy,
    name: String,
    pattern: Option<Pattern>,
    /// In seconds.
    response: Option<f64>,
    availabilities: Vec<Value>,
}

/// Why a service cannot be modelled as it is described.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The policy lists no service.
    #[error(
        "no service is given, and the policy lists none: give --service with any name, for what its `defaults` say"
    )]
    NoServices,
    /// No name is given.
    #[error("no service is given: give --service with one of {0}")]
    NoName(String),
    /// The policy does not list the service.
    #[error("the policy has no service `{name}`; {near}give --service with one of {known}")]
    Unknown {
        /// What was given.
        name: String,
        /// What may have been meant.
        near: String,
        /// The services of the policy.
        known: String,
    },
    /// The response time is not a time.
    #[error("`{0}` is not a time: write 50ms, 1.5s or 200us")]
    Time(String),
    /// The availabilities are not a range.
    #[error("--availability {0}: {1}")]
    Range(String, String),
    /// A range without values.
    #[error("--availability {0}: the range is empty: write from:step:to with from below to")]
    EmptyRange(String),
    /// At an availability of zero no request succeeds, so that every expected time is infinite and nothing can be compared.
    #[error(
        "--availability {0}: {1} is not an availability: give a share of the time, above 0 and at most 1"
    )]
    Availability(String, Value),
    /// The policy has no such model.
    #[error(transparent)]
    Model(#[from] Error),
}

impl ModelledService {
    /// A service as a command line describes it. `response` is the mean response time of the target, such as `50ms`; half the
    /// attempt timeout where it is not given. `availability` is a number or `from:step:to`.
    ///
    /// # Errors
    /// Where the policy has no such service, or a text is not what it should be.
    pub fn new(
        policy: Policy,
        name: Option<&str>,
        response: Option<&str>,
        availability: &str,
        pattern: Option<Pattern>,
    ) -> Result<Self, ServiceError> {
        let names: Vec<&str> = policy.services().map(|(known, _)| known).collect();
        let known = names.join(", ");
        let name = match (name, names.as_slice()) {
            (Some(name), _) | (None, &[name]) => name,
            (None, []) => return Err(ServiceError::NoServices),
            (None, _) => return Err(ServiceError::NoName(known)),
        };
        // Without a list, as in a file of AWS, the defaults hold for every name.
        if !names.is_empty() && !names.contains(&name) {
            let near = nearest(name, names.iter().copied());
            return Err(ServiceError::Unknown {
                name: name.to_owned(),
                near: near.map_or_else(String::new, |near| format!("did you mean {near}? ")),
                known,
            });
        }
        let name = name.to_owned();
        Ok(Self {
            name,
            pattern,
            response: response.map(seconds).transpose()?,
            availabilities: availabilities(availability)?,
            policy,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The part that is modelled: as asked for, otherwise the retries if there are any, else the breaker.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        let target = &self.policy.service(&self.name).target;
        match self.pattern {
            Some(pattern) => pattern,
            None if target.call.retries == 0 && target.breaker.is_some() => Pattern::Breaker,
            None => Pattern::Retry,
        }
    }

    /// The model of that part.
    ///
    /// # Errors
    /// Where the policy has no such part, or says too little for a model.
    pub fn lower(&self) -> Result<Lowered, Error> {
        self.lower_as(self.pattern())
    }

    /// The retries of the same service. Without them it is what a pattern is compared with.
    ///
    /// # Errors
    /// Where the policy says too little for a model.
    pub fn as_retries(&self) -> Result<Lowered, Error> {
        self.lower_as(Pattern::Retry)
    }

    fn lower_as(&self, pattern: Pattern) -> Result<Lowered, Error> {
        let service = self.policy.service(&self.name);
        lower(
            &service.target,
            self.response,
            pattern,
            self.availabilities.clone(),
        )
    }

    /// Searches for better settings that take at most so many percent more time and pass the linter.
    ///
    /// # Errors
    /// Where no setting does, or a model is too large.
    pub fn tuned(&self, lowered: &Lowered, more_time: f64) -> Result<(Search, Found), Error> {
        let search = match self.pattern() {
            Pattern::Breaker => Search::breaker(lowered, &self.as_retries()?)?,
            Pattern::Retry => Search::retries(lowered)?,
        };
        let linted = LintedService::of(&self.policy, &self.name);
        let found = search.run(lowered, more_time, &|proposed| linted.passes(proposed))?;
        Ok((search, found))
    }
}

fn availabilities(text: &str) -> Result<Vec<Value>, ServiceError> {
    let values =
        sweep::range(text).map_err(|refused| ServiceError::Range(text.to_owned(), refused.to_string()))?;
    if values.is_empty() {
        return Err(ServiceError::EmptyRange(text.to_owned()));
    }
    for value in &values {
        let share = match value {
            Value::Int(value) => *value as f64,
            Value::Real(value) => *value,
            Value::Bool(_) => f64::NAN,
        };
        if !(share > 0.0 && share <= 1.0) {
            return Err(ServiceError::Availability(text.to_owned(), *value));
        }
    }
    Ok(values)
}

/// `50ms`, `1.5s`, `200us`.
fn seconds(text: &str) -> Result<f64, ServiceError> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(ServiceError::Time(text.to_owned())),
    };
    let number = digits.trim().parse::<f64>();
    number
        .map(|number| number * scale)
        .map_err(|_| ServiceError::Time(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of AWS names no service, and a policy of one leaves nothing to choose. Both were refused.
    #[test]
    fn the_service_is_named_where_there_is_a_choice() {
        let given = |text: &str, name| {
            let policy = Policy::parse(text).unwrap();
            ModelledService::new(policy, name, Some("50ms"), "0.9", None)
        };
        let defaults = given("defaults: {maxRetries: 2}", Some("any")).unwrap();
        defaults.lower().unwrap();
        let nothing = given("defaults: {maxRetries: 2}", None).unwrap_err().to_string();
        assert!(nothing.contains("any name"), "{nothing}");
        assert_eq!(given("services: {a: {}}", None).unwrap().name(), "a");
        let two = given("services: {a: {}, b: {}}", None).unwrap_err().to_string();
        assert!(two.contains("one of a, b"), "{two}");
        assert!(given("services: {a: {}}", Some("b")).is_err());
    }

    #[test]
    fn times_are_read_with_their_units() {
        assert!((seconds("50ms").unwrap() - 0.05).abs() < 1e-12);
        assert!((seconds("1.5s").unwrap() - 1.5).abs() < 1e-12);
        assert!(seconds("5").is_err() && seconds("ms").is_err() && seconds("5 parsecs").is_err());
    }
}
