//! What the linter finds in a file of another system, in the words of that system.

use retryguard_policy::{Diagnostics, Finding, Policy, Report, lint};

use crate::{
    Imported,
    draft::Places,
    words::{self, Times, Words},
};

/// How many blocks a cure names.
const SHOWN: usize = 3;

impl Imported {
    /// Judges the policy. The findings stand on the lines of the file, name its blocks and keys, and may be allowed by comments in it.
    ///
    /// A finding about `defaults` is left out where the file has no such block: it would be about services that the file does not
    /// name.
    ///
    /// # Errors
    /// Where the policy has mistakes; their lines are the policy's.
    pub fn judged(&self, source: &str) -> Result<Report, Diagnostics> {
        let policy = Policy::parse(&self.policy)?;
        let mut report = lint(&self.policy)?;
        let findings = std::mem::take(&mut report.findings);
        report.findings = findings
            .into_iter()
            .filter_map(|finding| self.reworded(finding, &policy))
            .collect();
        Ok(report.allowed_by(source))
    }

    /// One finding in the words of the file; `None` where the file does not say what it is about.
    fn reworded(&self, finding: Finding, policy: &Policy) -> Option<Finding> {
        if finding.about.is_empty() {
            let line = self.source_line(finding.line);
            return Some(Finding { line, ..finding });
        }
        let subjects: Vec<(&String, &Places)> = finding
            .about
            .iter()
            .filter_map(|name| {
                let (_, places) = self.places.iter().find(|(known, _)| known == name)?;
                (name != "defaults" || places.block.is_some()).then_some((name, places))
            })
            .collect();
        let (first, places) = *subjects.first()?;
        let key = words::key(finding.code);
        // Nothing is to be changed at a cap that only this translation wrote.
        if finding.code == "RG018" && places.line(key).is_none() {
            return None;
        }
        let words = Words::of(self.format);
        let line = places
            .line(key)
            .or_else(|| words::stands_with_retries(finding.code).then(|| places.line("maxRetries"))?)
            .or_else(|| places.block.as_ref().map(|(_, line)| *line))
            .unwrap_or_else(|| self.source_line(finding.line));
        let what = match finding.code {
            "RG023" if policy.service(first).target.gate.at_most.is_zero() => {
                "a Retry-After of the server is not obeyed".to_owned()
            }
            _ => words.in_message(finding.what()),
        };
        let cure = match words.cure(finding.code, &Times::of(policy, first)) {
            Some(cure) if words::stands_elsewhere(finding.code, &cure) => cure.replace("{service}", first),
            Some(cure) => format!("{}{}", cure.replace("{service}", first), named(&subjects)),
            None => finding.cure.clone(),
        };
        let about: Vec<String> = subjects.iter().map(|(name, _)| (*name).clone()).collect();
        let about = if finding.what() == finding.message {
            // The message names them itself.
            Finding {
                message: what,
                ..finding
            }
        } else {
            finding.about(about, &what)
        };
        Some(Finding { line, cure, ..about })
    }
}

/// The blocks that a cure speaks of: " (VirtualService `reviews`, line 8)".
fn named(subjects: &[(&String, &Places)]) -> String {
    let mut blocks: Vec<String> = Vec::new();
    for (name, line) in subjects.iter().filter_map(|(_, places)| places.block.as_ref()) {
        let block = format!("{name}, line {line}");
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    let more = blocks.len().saturating_sub(SHOWN);
    blocks.truncate(SHOWN);
    if more > 0 {
        blocks.push(format!("{more} more"));
    }
    if blocks.is_empty() {
        String::new()
    } else {
        format!(" ({})", blocks.join("; "))
    }
}
