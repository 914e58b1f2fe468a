//! Settings that are proposed must pass the linter.

use std::fmt::Write as _;

use retryguard_policy::{Policy, Severity, lint};

/// The service that is tuned, as far as the linter looks at it beside a proposal.
pub struct LintedService {
    /// Lines of keys that the proposal does not have.
    retries: String,
    times: String,
    /// What the linter says of the service as it is, which is not the proposal's fault.
    known: Vec<&'static str>,
}

impl LintedService {
    /// A service of a policy.
    #[must_use]
    pub fn of(policy: &Policy, name: &str) -> Self {
        let service = policy.service(name);
        let call = &service.target.call;
        let mut times = String::new();
        for (key, time) in [
            ("attemptTimeout", call.attempt_timeout),
            ("deadline", call.deadline),
        ] {
            let _ = match time {
                Some(time) => writeln!(times, "{key}: {}us", time.as_micros()),
                None => writeln!(times, "{key}: off"),
            };
        }
        let retries = format!("maxRetries: {}\n", call.retries);
        let mut service = Self {
            retries,
            times,
            known: Vec::new(),
        };
        service.known = service.codes("");
        service
    }

    /// Whether the linter finds nothing in the proposed keys beyond notes and what the service has already.
    #[must_use]
    pub fn passes(&self, proposed: &str) -> bool {
        let about_retries = proposed.starts_with("maxRetries");
        self.codes(proposed)
            .iter()
            .all(|code| !about_retries && self.known.contains(code))
    }

    /// Errors and warnings of a policy with the proposed keys.
    fn codes(&self, proposed: &str) -> Vec<&'static str> {
        let retries = if proposed.starts_with("maxRetries") {
            ""
        } else {
            &self.retries
        };
        let keys = [proposed, retries, &self.times].concat();
        let text: String = std::iter::once("services:\n  tuned:\n".to_owned())
            .chain(keys.lines().map(|line| format!("    {line}\n")))
            .collect();
        match lint(&text) {
            Ok(report) => report
                .findings
                .iter()
                .filter(|finding| finding.severity > Severity::Note)
                .map(|finding| finding.code)
                .collect(),
            Err(_) => vec!["mistake"],
        }
    }
}
