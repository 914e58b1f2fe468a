//! Policies that are written in code.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use retryguard_core::Criticality;

use crate::{
    diagnostics::Diagnostics,
    policy::{Policy, Service},
    written,
};

/// Builds a [`Policy`] in code. The keys are those of the file, and so are the checks and the digest.
///
/// ```
/// use std::time::Duration;
/// use retryguard_policy::Policy;
///
/// let policy = Policy::builder()
///     .defaults(|keys| keys.deadline(Duration::from_secs(3)))
///     .service("payments", |keys| keys.max_retries(1).set("idempotency.addKeys", true))
///     .service("search", |keys| keys.off("breaker").attempt_timeout(Duration::from_millis(300)))
///     .build()?;
/// assert_eq!(policy.service("payments").target.call.retries, 1);
/// # Ok::<(), retryguard_policy::Diagnostics>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct PolicyBuilder {
    defaults: ServiceKeys,
    services: BTreeMap<String, ServiceKeys>,
}

impl PolicyBuilder {
    /// Sets keys of `defaults`, which hold for every service.
    pub fn defaults(mut self, change: impl FnOnce(ServiceKeys) -> ServiceKeys) -> Self {
        self.defaults = change(self.defaults);
        self
    }

    /// Sets keys of one service.
    pub fn service(
        mut self,
        name: impl Into<String>,
        change: impl FnOnce(ServiceKeys) -> ServiceKeys,
    ) -> Self {
        let keys = self.services.entry(name.into()).or_default();
        *keys = change(std::mem::take(keys));
        self
    }

    /// The policy.
    ///
    /// # Errors
    /// With every mistake at once. The lines are those of [`PolicyBuilder::to_yaml`].
    pub fn build(&self) -> Result<Policy, Diagnostics> {
        Policy::parse(&self.to_yaml())
    }

    /// The same as a policy file.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        if !self.defaults.keys.is_empty() {
            text.push_str("defaults:\n");
            write_block(&mut text, &self.defaults.keys, 1);
        }
        if !self.services.is_empty() {
            text.push_str("services:\n");
        }
        for (name, service) in &self.services {
            let name = quoted(name);
            if service.keys.is_empty() {
                // Writing to a string does not fail.
                let _ = writeln!(text, "  {name}: {{}}");
            } else {
                let _ = writeln!(text, "  {name}:");
                write_block(&mut text, &service.keys, 2);
            }
        }
        text
    }
}

impl Policy {
    /// The rules for calls to `name`, which the policy must list: a misspelt name would otherwise mean the defaults.
    ///
    /// ```
    /// let policy = retryguard_policy::Policy::parse("services: {payments: {}}")?;
    /// assert!(policy.require("payments").is_ok());
    /// let unknown = policy.require("paymetns").unwrap_err();
    /// assert_eq!(unknown.to_string(), "the policy has no service `paymetns`; did you mean `payments`?");
    /// # Ok::<(), retryguard_policy::Diagnostics>(())
    /// ```
    ///
    /// # Errors
    /// Where the policy does not list it.
    pub fn require(&self, name: &str) -> Result<Arc<Service>, UnknownService> {
        self.listed(name).ok_or_else(|| UnknownService {
            name: name.to_owned(),
            nearest: written::nearest(name, self.services().map(|(name, _)| name)).map(str::to_owned),
        })
    }

    /// A policy from code.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }
}

/// A service that a policy does not list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownService {
    name: String,
    nearest: Option<String>,
}

impl std::fmt::Display for UnknownService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the policy has no service `{}`; ", self.name)?;
        match &self.nearest {
            Some(nearest) => write!(f, "did you mean `{nearest}`?"),
            None => f.write_str("list it under `services`, or ask for the defaults by `Policy::service`"),
        }
    }
}

impl std::error::Error for UnknownService {}

/// The keys of one service, or of the defaults.
#[derive(Debug, Clone, Default)]
#[must_use = "keys are handed back to the builder"]
pub struct ServiceKeys {
    keys: BTreeMap<String, Tree>,
}

#[derive(Debug, Clone)]
enum Tree {
    Value(Value),
    Block(BTreeMap<String, Tree>),
}

impl ServiceKeys {
    /// Sets any key of the policy file; a dot leads into a block: `set("breaker.openFor", Duration::from_secs(5))`.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        let mut block = &mut self.keys;
        let (path, last) = key
            .rsplit_once('.')
            .map_or((None, key), |(path, last)| (Some(path), last));
        for part in path.into_iter().flat_map(|path| path.split('.')) {
            let tree = block
                .entry(part.to_owned())
                .or_insert_with(|| Tree::Block(BTreeMap::new()));
            if let Tree::Value(_) = tree {
                *tree = Tree::Block(BTreeMap::new());
            }
            let Tree::Block(inner) = tree else {
                unreachable!("a value was replaced by a block above")
            };
            block = inner;
        }
        block.insert(last.to_owned(), Tree::Value(value.into()));
        self
    }

    /// Switches a part off: `off("breaker")`.
    pub fn off(self, key: &str) -> Self {
        self.set(key, "off")
    }

    /// Attempts after the first that failures may cause.
    pub fn max_retries(self, retries: u8) -> Self {
        self.set("maxRetries", u32::from(retries))
    }

    /// The delay before the first retry, before jitter.
    pub fn initial_delay(self, delay: Duration) -> Self {
        self.set("initialDelay", delay)
    }

    /// The largest delay, before jitter.
    pub fn max_delay(self, delay: Duration) -> Self {
        self.set("maxDelay", delay)
    }

    /// How long one attempt may take.
    pub fn attempt_timeout(self, timeout: Duration) -> Self {
        self.set("attemptTimeout", timeout)
    }

    /// How long the whole call may take.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.set("deadline", deadline)
    }

    /// The criticality of calls that do not state one themselves.
    pub fn criticality(self, criticality: Criticality) -> Self {
        self.set("criticality", criticality.as_str())
    }
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Value(String);

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self(value.to_string())
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self(value.to_string())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self(value.to_string())
    }
}

impl From<Duration> for Value {
    fn from(value: Duration) -> Self {
        Self(written::shown(value))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        // A plain word is a word of the file; anything else is text.
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.%".contains(letter);
        let starts_plain = value.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        Self(if starts_plain && value.chars().all(is_plain) {
            value.to_owned()
        } else {
            quoted(value)
        })
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        let values: Vec<_> = values.into_iter().map(|value| value.into().0).collect();
        Self(format!("[{}]", values.join(", ")))
    }
}

fn write_block(text: &mut String, block: &BTreeMap<String, Tree>, depth: usize) {
    for (key, tree) in block {
        let indent = "  ".repeat(depth);
        let key = quoted(key);
        // Writing to a string does not fail.
        let _ = match tree {
            Tree::Value(Value(value)) => writeln!(text, "{indent}{key}: {value}"),
            Tree::Block(_) => writeln!(text, "{indent}{key}:"),
        };
        if let Tree::Block(inner) = tree {
            write_block(text, inner, depth + 1);
        }
    }
}

/// A text in double quotes. JSON's escapes are YAML's too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_file_say_the_same() {
        let built = Policy::builder()
            .defaults(|keys| {
                keys.deadline(Duration::from_millis(1500))
                    .set("budget.percent", "10%")
            })
            .service("payments", |keys| {
                keys.max_retries(1)
                    .criticality(Criticality::CriticalPlus)
                    .set("retryOn", vec!["http 500"; 0])
                    .off("breaker")
            })
            .service("plain", |keys| keys)
            .build()
            .unwrap();
        let read = Policy::parse(
            "defaults: { deadline: 1500ms, budget: { percent: 10% } }\n\
             services: { payments: { maxRetries: 1, criticality: critical-plus, breaker: off }, plain: {} }",
        )
        .unwrap();
        assert_eq!(built.digest(), read.digest());
        assert!(built.listed("plain").is_some());
    }

    #[test]
    fn mistakes_are_told_as_in_a_file() {
        let builder = Policy::builder().service("a b: {", |keys| {
            keys.max_retries(200)
                .set("maxRetrys", 3)
                .set("breaker.trip", "sometimes")
        });
        let mistakes = builder.build().unwrap_err();
        // The name, the trip, the number and the key.
        assert_eq!(mistakes.as_slice().len(), 4, "{mistakes}\n{}", builder.to_yaml());
        assert!(mistakes.to_string().contains("maxRetries"), "{mistakes}");
    }

    #[test]
    fn a_later_key_wins() {
        let policy = Policy::builder()
            .service("a", |keys| {
                keys.off("breaker").set("breaker.openFor", Duration::from_secs(7))
            })
            .service("a", |keys| keys.max_retries(4))
            .build()
            .unwrap();
        let settings = policy.service("a").target.clone();
        assert_eq!(settings.breaker.unwrap().open_for, Duration::from_secs(7));
        assert_eq!(settings.call.retries, 4);
    }
}
