//! What a policy says without a mistake, and should not say all the same.

mod allowed;
mod code;
mod findings;
mod graph;
mod parts;
mod paths;
mod times;

use std::sync::Arc;

use retryguard_core::guard::Mode;

use crate::{
    compile,
    diagnostics::{Diagnostics, Mistakes},
    policy::{Policy, Service},
    written,
};

pub(crate) use code::CODES;
pub use code::{Code, lint_codes};
use findings::Findings;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing: the policy does something else than it seems to, and does no harm.
    Note,
    /// Likely to hurt in an outage.
    Warning,
    /// Will hurt in an outage. A policy with one of these should not be deployed.
    Error,
}

impl Severity {
    /// The word used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that the linter found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its code, such as `RG001`. Never given a second meaning, so that a pipeline may name it.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The line that it is about; the first where the file does not speak of it.
    pub line: u32,
    /// The services that it is about, as the policy names them; empty where it is about the file or about a path of calls.
    pub about: Vec<String>,
    /// What was found, with the names and numbers of this policy.
    pub message: String,
    /// What to do about it.
    pub cure: String,
}

impl Finding {
    /// The message without the names of the services that it is about.
    #[must_use]
    pub fn what(&self) -> &str {
        let names = findings::names(&self.about);
        names
            .and_then(|names| self.message.strip_prefix(&names)?.strip_prefix(": "))
            .unwrap_or(&self.message)
    }

    /// The same about other services.
    #[must_use]
    pub fn about(mut self, services: Vec<String>, what: &str) -> Self {
        self.message =
            findings::names(&services).map_or_else(|| what.to_owned(), |names| format!("{names}: {what}"));
        self.about = services;
        self
    }
}

/// What the linter says about a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The digest of the policy.
    pub digest: String,
    /// The attempts that can arrive at a target for one call at the edge, along the worst path of `calls`,
    /// hedges included. What each layer's own rules allow: budgets, breakers and the mark of a failure that
    /// was already retried keep it lower, where every layer obeys them. `None` where the calls form a cycle,
    /// because no bound exists then.
    pub amplification: Option<u64>,
    /// The findings, in the order of the file, without those that the file allows.
    pub findings: Vec<Finding>,
    /// What the file allows by a comment, with its reason.
    pub allowed: Vec<Allowed>,
}

/// A finding that a comment of the file allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// The finding.
    pub finding: Finding,
    /// Why it is allowed, as the comment says.
    pub reason: String,
}

impl Report {
    /// Whether there is a finding that should stop a deployment.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Lets the comments of another text allow findings, where the policy was made from that text and the findings stand on its
    /// lines.
    #[must_use]
    pub fn allowed_by(mut self, text: &str) -> Self {
        let mut mistakes = Findings::default();
        let comments = allowed::Comments::read(text, &mut mistakes);
        self.findings.extend(mistakes.in_order());
        self.findings
            .sort_by_key(|finding| (finding.line, std::cmp::Reverse(finding.severity), finding.code));
        let (findings, allowed) = comments.apply(self.findings);
        self.findings = findings;
        self.allowed.extend(allowed);
        self
    }
}

/// Checks a policy file and judges what it says.
///
/// ```
/// let report = retryguard_policy::lint("defaults: {maxRetries: 2, jitter: none}")?;
/// assert_eq!(report.findings[0].code, "RG005");
/// # Ok::<(), retryguard_policy::Diagnostics>(())
/// ```
pub fn lint(text: &str) -> Result<Report, Diagnostics> {
    let mut mistakes = Mistakes::default();
    let written = compile::read(text, &mut mistakes);
    let policy = compile::policy(&written, &mut mistakes);
    mistakes
        .or(())
        .map(|()| judge(text, &written, &in_a_storm(&policy, &written)))
}

fn judge(text: &str, written: &written::Document, policy: &Policy) -> Report {
    let subjects = Subject::all(written, policy);
    let mut findings = Findings::default();
    let comments = allowed::Comments::read(text, &mut findings);
    for subject in &subjects {
        parts::judge(subject, &mut findings);
        times::judge(subject, &mut findings);
    }
    let graph = graph::Graph::new(&subjects);
    times::judge_ladder(&graph, &mut findings);
    let amplification = paths::judge(&graph, written, policy, &mut findings);
    let (findings, allowed) = comments.apply(findings.in_order());
    Report {
        digest: policy.digest.clone(),
        amplification,
        findings,
        allowed,
    }
}

/// A service as the linter sees it: what it means, and where that is written.
struct Subject {
    name: String,
    /// The line of its name.
    line: u32,
    /// The line on which something would be written that is not written anywhere.
    unwritten: u32,
    /// Its own keys.
    own: written::Service,
    /// Its own keys over those of the defaults.
    all: written::Service,
    service: Arc<Service>,
}

impl Subject {
    /// The defaults first, because every unlisted service takes them; then the listed services in the order
    /// of the file.
    fn all(written: &written::Document, policy: &Policy) -> Vec<Self> {
        let nothing = written::Service::default();
        let defaults = compile::value(&written.defaults).unwrap_or(&nothing);
        let top = written.defaults.as_ref().map_or(1, |defaults| defaults.at.line);
        let mut subjects = vec![Self {
            name: "defaults".to_owned(),
            line: top,
            unwritten: top,
            own: defaults.clone(),
            all: defaults.clone(),
            service: Arc::clone(&policy.defaults),
        }];
        let listed = compile::value(&written.services).map_or(&[][..], |services| &services.0);
        subjects.extend(listed.iter().map(|(name, own)| Self {
            name: name.clone(),
            line: own.at.line,
            unwritten: top,
            own: own.value.clone(),
            all: compile::effective(&own.value, defaults),
            service: policy.service(name),
        }));
        subjects
    }

    /// The line of the first of these keys that is written.
    fn line_of(&self, keys: &[Option<u32>]) -> u32 {
        keys.iter().copied().flatten().next().unwrap_or(self.unwritten)
    }

    /// The most attempts that one call can make.
    fn attempts(&self) -> u32 {
        let target = &self.service.target;
        1 + u32::from(target.call.retries) + target.hedge.map_or(0, |hedge| u32::from(hedge.most))
    }

    fn retries(&self) -> bool {
        self.service.target.call.retries > 0
    }
}

/// The policy as an overload meets it. A guard that measures allows more than `limitedRetries` only while they are known
/// to help, so that a service which writes no `maxRetries` retries no more often than that in a storm.
fn in_a_storm(policy: &Policy, written: &written::Document) -> Policy {
    let nothing = written::Service::default();
    let defaults = compile::value(&written.defaults).unwrap_or(&nothing);
    let listed = compile::value(&written.services).map_or(&[][..], |services| &services.0);
    let mut policy = policy.clone();
    limit_retries(&mut policy.defaults, defaults.max_retries.is_some());
    for (name, service) in &mut policy.services {
        let own = listed.iter().find(|(listed, _)| listed == name);
        let own_limit = own.is_some_and(|(_, own)| own.value.max_retries.is_some());
        limit_retries(service, own_limit || defaults.max_retries.is_some());
    }
    policy
}

fn limit_retries(service: &mut Arc<Service>, is_written: bool) {
    if let (Some(Mode::Response(rules)), false) = (service.target.guard.map(|guard| guard.mode), is_written) {
        let service = Arc::make_mut(service);
        let target = Arc::make_mut(&mut service.target);
        target.call.retries = target.call.retries.min(rules.limited_retries);
    }
}

/// The line of a key, if it is written.
fn line<T>(key: &Option<written::At<T>>) -> Option<u32> {
    key.as_ref().map(|key| key.at.line)
}

#[cfg(test)]
mod tests;
