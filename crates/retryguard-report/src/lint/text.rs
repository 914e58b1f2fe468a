//! Findings as lines for people.

use std::fmt::Write as _;

use retryguard_policy::{Report, Severity};

use super::{Checked, Judged};

/// What could not be read as a policy, a line for each mistake.
#[must_use]
pub fn mistakes(checked: &[Checked]) -> String {
    let mut out = String::new();
    for Checked { file, judged } in checked {
        match judged {
            Judged::Report(_) => {}
            Judged::Unreadable(error) => {
                let _ = writeln!(
                    out,
                    "{file}: cannot be read: {error}; check the path and that it is text"
                );
            }
            Judged::Mistakes(mistakes) => {
                let _ = writeln!(out, "{}", mistakes.in_file(file));
            }
        }
    }
    out
}

/// A line for each finding and one for its cure, then a line for the file.
#[must_use]
pub fn findings(checked: &[Checked]) -> String {
    let mut out = String::new();
    for Checked { file, judged } in checked {
        let Judged::Report(report) = judged else {
            continue;
        };
        for finding in &report.findings {
            let _ = writeln!(
                out,
                "{file}:{}: {} {}: {}\n    {}",
                finding.line, finding.severity, finding.code, finding.message, finding.cure
            );
        }
        let amplification = report
            .amplification
            .map_or_else(|| "without a bound".to_owned(), |times| times.to_string());
        let allowed = match report.allowed.len() {
            0 => String::new(),
            count => format!(", {count} allowed in the file"),
        };
        let _ = writeln!(
            out,
            "{file}: amplification {amplification}, {}{allowed}, digest {}",
            counted(report),
            report.digest
        );
    }
    out
}

/// Such as `1 error, 2 warnings, no notes`.
fn counted(report: &Report) -> String {
    let count = |severity: Severity| {
        let count = report
            .findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count();
        match count {
            0 => format!("no {severity}s"),
            1 => format!("1 {severity}"),
            _ => format!("{count} {severity}s"),
        }
    };
    [Severity::Error, Severity::Warning, Severity::Note]
        .map(count)
        .join(", ")
}
