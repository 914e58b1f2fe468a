//! Workflow commands of GitHub Actions: findings become annotations of the changed lines.

use std::fmt::Write as _;

use retryguard_policy::Severity;

use super::{Checked, Judged};

/// A workflow command for each finding and each mistake.
#[must_use]
pub fn annotations(checked: &[Checked]) -> String {
    let mut out = String::new();
    for Checked { file, judged } in checked {
        let file = property(file);
        match judged {
            Judged::Report(report) => {
                for finding in &report.findings {
                    let level = match finding.severity {
                        Severity::Error => "error",
                        Severity::Warning => "warning",
                        Severity::Note => "notice",
                    };
                    let text = data(&format!("{}. What to do: {}.", finding.message, finding.cure));
                    let _ = writeln!(
                        out,
                        "::{level} file={file},line={},title={}::{text}",
                        finding.line, finding.code
                    );
                }
            }
            Judged::Mistakes(mistakes) => {
                for mistake in mistakes.as_slice() {
                    let text = data(&format!("{}; {}", mistake.message, mistake.help));
                    let _ = writeln!(
                        out,
                        "::error file={file},line={},col={}::{text}",
                        mistake.at.line, mistake.at.column
                    );
                }
            }
            Judged::Unreadable(error) => {
                let _ = writeln!(
                    out,
                    "::error file={file}::cannot be read: {}",
                    data(&error.to_string())
                );
            }
        }
    }
    out
}

/// The text of a command: percent signs and line ends are escaped.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a command: what separates properties is escaped, too.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_separates_is_escaped() {
        assert_eq!(property("a,b:c%\n"), "a%2Cb%3Ac%25%0A");
        assert_eq!(data("20 %: a, b"), "20 %25: a, b");
    }
}
