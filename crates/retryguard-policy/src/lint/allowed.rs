//! Findings that the file itself allows, each with a reason: `# retryguard: allow RG016: one call a day`.
//!
//! A comment behind a key speaks of that line, one on a line of its own of the next key, and `allow-file` of the
//! whole file. The comments are those that the YAML parser sees, so that a `#` inside quotes is none.

use granit_parser::{Event, Parser, Placement};

use super::{Allowed, Finding, Severity, code, findings::Findings};
use crate::yaml::shortened;

/// The most such comments of a file; further ones are ignored.
const MOST: usize = 1000;

/// One comment that allows findings.
#[derive(Debug)]
struct Comment {
    line: u32,
    /// The line it speaks of; `None` for the whole file.
    about: Option<u32>,
    codes: Vec<&'static str>,
    reason: String,
    used: bool,
}

/// The comments of a file.
#[derive(Debug, Default)]
pub(super) struct Comments(Vec<Comment>);

impl Comments {
    /// Reads them; what cannot be used becomes a finding.
    pub(super) fn read(text: &str, findings: &mut Findings) -> Self {
        let mut comments = Vec::new();
        for event in Parser::new_from_str(text) {
            let Ok((event, span)) = event else { break };
            let Event::Comment(words, placement) = event else {
                continue;
            };
            let line = u32::try_from(span.start.line()).unwrap_or(u32::MAX).max(1);
            let Some(comment) = comment(&words, placement, line, text, findings) else {
                continue;
            };
            comments.push(comment);
            if comments.len() == MOST {
                break;
            }
        }
        Self(comments)
    }

    /// Takes the allowed findings out; a comment that allows nothing becomes a finding.
    pub(super) fn apply(mut self, findings: Vec<Finding>) -> (Vec<Finding>, Vec<Allowed>) {
        let mut kept = Vec::new();
        let mut allowed = Vec::new();
        for finding in findings {
            let fits = |comment: &&mut Comment| {
                comment.codes.contains(&finding.code) && comment.about.is_none_or(|line| line == finding.line)
            };
            match self.0.iter_mut().find(fits) {
                None => kept.push(finding),
                Some(comment) => {
                    comment.used = true;
                    allowed.push(Allowed {
                        reason: comment.reason.clone(),
                        finding,
                    });
                }
            }
        }
        let idle = self.0.iter().filter(|comment| !comment.used);
        kept.extend(idle.map(|comment| Finding {
            code: code::IDLE_ALLOW.id,
            severity: Severity::Note,
            line: comment.line,
            about: Vec::new(),
            message: format!(
                "nothing is found that `allow {}` would allow",
                comment.codes.join(" ")
            ),
            cure: code::IDLE_ALLOW.cure.to_owned(),
        }));
        kept.sort_by_key(|finding| (finding.line, std::cmp::Reverse(finding.severity), finding.code));
        (kept, allowed)
    }
}

fn comment(
    words: &str,
    placement: Placement,
    line: u32,
    text: &str,
    findings: &mut Findings,
) -> Option<Comment> {
    let words = words.trim().strip_prefix("retryguard:")?.trim();
    let mut refuse = |why: String| {
        findings.add(&code::BAD_ALLOW, Severity::Error, line, why);
        None
    };
    let (whole, rest) = match words.split_once(char::is_whitespace) {
        Some(("allow", rest)) => (false, rest),
        Some(("allow-file", rest)) => (true, rest),
        _ => {
            return refuse(format!(
                "`{}` is neither `allow` nor `allow-file`",
                shortened(words)
            ));
        }
    };
    let (listed, reason) = rest.split_once(':').unwrap_or((rest, ""));
    let mut codes = Vec::new();
    for word in listed.split([' ', ',']).filter(|word| !word.is_empty()) {
        match code::CODES.iter().find(|code| code.id == word) {
            Some(code) => codes.push(code.id),
            None => return refuse(format!("there is no code `{}`", shortened(word))),
        }
    }
    let reason = reason.trim();
    if codes.is_empty() {
        return refuse("no code is named".to_owned());
    }
    if reason.is_empty() {
        return refuse(format!("no reason is given for allowing {}", codes.join(", ")));
    }
    let about = match (whole, placement) {
        (true, _) => None,
        (false, Placement::Right) => Some(line),
        (false, _) => Some(next_key(text, line)),
    };
    Some(Comment {
        line,
        about,
        codes,
        reason: reason.to_owned(),
        used: false,
    })
}

/// The next line that is neither blank nor a comment.
fn next_key(text: &str, line: u32) -> u32 {
    let below = text.lines().skip(line as usize).position(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    let below = below.and_then(|below| u32::try_from(below).ok()).unwrap_or(0);
    line.saturating_add(1).saturating_add(below)
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, lint};

    fn codes(text: &str) -> Vec<&'static str> {
        let report = lint(text).unwrap();
        report.findings.iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_comment_allows_its_line_the_next_line_or_the_file() {
        for text in [
            "defaults:\n  guard: off # retryguard: allow RG016: one call a day\n  attemptTimeout: 1s\n",
            "defaults:\n  # retryguard: allow RG016, RG005: one call a day\n\n  # and more\n  guard: off\n  \
             attemptTimeout: 1s\n",
            "# retryguard: allow-file RG016: one call a day\ndefaults:\n  guard: off\n  attemptTimeout: 1s\n",
        ] {
            let report = lint(text).unwrap();
            assert_eq!(report.findings, [], "{text}");
            assert_eq!(report.allowed.len(), 1, "{text}");
            assert_eq!(report.allowed[0].reason, "one call a day");
            assert_eq!(report.allowed[0].finding.code, "RG016");
        }
    }

    #[test]
    fn another_line_another_code_and_quotes_allow_nothing() {
        let elsewhere = "defaults:\n  attemptTimeout: 1s # retryguard: allow RG016: x\n  guard: off\n";
        assert_eq!(codes(elsewhere), ["RG025", "RG016"]);
        let other = "defaults:\n  attemptTimeout: 1s\n  guard: off # retryguard: allow RG001: x\n";
        assert_eq!(codes(other), ["RG016", "RG025"]);
        let quoted = "defaults:\n  attemptTimeout: 1s\n  guard: off\nservices:\n  \
                      '#retryguard:allow-file': {}\n";
        assert!(codes(quoted).contains(&"RG016"));
    }

    #[test]
    fn an_error_that_is_allowed_does_not_stop_a_deployment() {
        let text =
            "defaults: {budget: off, attemptTimeout: 1s} # retryguard: allow RG015: bounded by the queue\n";
        assert!(!lint(text).unwrap().has_errors());
    }

    #[test]
    fn without_a_reason_or_a_known_code_nothing_is_allowed() {
        for comment in [
            "allow RG016",
            "allow RG016:  ",
            "allow RG999: x",
            "allow: x",
            "alow RG016: x",
        ] {
            let text = format!("defaults:\n  attemptTimeout: 1s\n  guard: off # retryguard: {comment}\n");
            let report = lint(&text).unwrap();
            let found: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
            assert_eq!(found, ["RG024", "RG016"], "{comment}");
            assert_eq!(report.findings[0].severity, Severity::Error);
        }
    }
}
