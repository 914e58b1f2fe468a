//! Collecting findings: what several services inherit from one line is one finding.

use std::collections::HashMap;

use super::{Finding, Severity, code::Code};

/// The most findings of a report; the mildest are left out. More than that is one cause met again and again.
const MOST: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Findings {
    found: Vec<Draft>,
    places: HashMap<(&'static str, u32, String), usize>,
}

#[derive(Debug)]
struct Draft {
    code: &'static Code,
    severity: Severity,
    line: u32,
    /// The services that it is about.
    about: Vec<String>,
    /// Whether the message names them itself.
    named: bool,
    message: String,
    /// In place of the code's own cure.
    cure: Option<String>,
}

impl Findings {
    /// Adds a finding about one service. The same finding about another, on the same line, joins it.
    pub(super) fn about(
        &mut self,
        service: &str,
        code: &'static Code,
        severity: Severity,
        line: u32,
        message: String,
    ) {
        let place = (code.id, line, message);
        if let Some(index) = self.places.get(&place) {
            self.found[*index].about.push(service.to_owned());
            return;
        }
        let message = place.2.clone();
        self.places.insert(place, self.found.len());
        self.found.push(Draft {
            code,
            severity,
            line,
            about: vec![service.to_owned()],
            named: false,
            message,
            cure: None,
        });
    }

    /// Adds a finding about the file or about several services that the message names.
    pub(super) fn add(&mut self, code: &'static Code, severity: Severity, line: u32, message: String) {
        self.found.push(Draft {
            code,
            severity,
            line,
            about: Vec::new(),
            named: true,
            message,
            cure: None,
        });
    }

    /// Adds a finding about a service that the message names, with a cure that depends on the policy.
    pub(super) fn cured(
        &mut self,
        service: &str,
        code: &'static Code,
        severity: Severity,
        line: u32,
        message: String,
        cure: String,
    ) {
        self.found.push(Draft {
            code,
            severity,
            line,
            about: vec![service.to_owned()],
            named: true,
            message,
            cure: Some(cure),
        });
    }

    /// By line, then by severity with the worst first, then by code.
    pub(super) fn in_order(mut self) -> Vec<Finding> {
        self.found
            .sort_by_key(|draft| (std::cmp::Reverse(draft.severity), draft.line));
        self.found.truncate(MOST);
        let mut findings: Vec<Finding> = self
            .found
            .into_iter()
            .map(|draft| Finding {
                code: draft.code.id,
                severity: draft.severity,
                line: draft.line,
                message: match names(&draft.about).filter(|_| !draft.named) {
                    Some(names) => format!("{names}: {}", draft.message),
                    None => draft.message,
                },
                about: draft.about,
                cure: draft.cure.unwrap_or_else(|| draft.code.cure.to_owned()),
            })
            .collect();
        findings.sort_by_key(|finding| (finding.line, std::cmp::Reverse(finding.severity), finding.code));
        findings
    }
}

/// Up to three names; none where there is none.
pub(super) fn names(about: &[String]) -> Option<String> {
    const SHOWN: usize = 3;
    let shown: Vec<String> = about.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match about.len() {
        0 => None,
        count if count > SHOWN => Some(format!("{} and {} more", shown.join(", "), count - SHOWN)),
        _ => Some(shown.join(", ")),
    }
}
