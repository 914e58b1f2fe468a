//! One JSON object for each file, one on a line: the same shape for one file and for many, also where a file cannot
//! be read.

use retryguard_policy::Finding;
use serde_json::{Value, json};

use super::{Checked, Judged};

/// One object for each file, one on a line.
#[must_use]
pub fn objects(checked: &[Checked]) -> String {
    checked
        .iter()
        .map(|checked| format!("{}\n", object(checked)))
        .collect()
}

fn object(Checked { file, judged }: &Checked) -> Value {
    let mut object = json!({
        "file": file,
        "digest": null,
        "amplification": null,
        "findings": [],
        "allowed": [],
        "mistakes": [],
    });
    match judged {
        Judged::Report(report) => {
            object["digest"] = json!(report.digest);
            object["amplification"] = json!(report.amplification);
            object["findings"] = report.findings.iter().map(finding).collect();
            object["allowed"] = report
                .allowed
                .iter()
                .map(|allowed| {
                    let mut value = finding(&allowed.finding);
                    value["reason"] = json!(allowed.reason);
                    value
                })
                .collect();
        }
        Judged::Mistakes(mistakes) => {
            let mistakes = mistakes.as_slice().iter().map(|mistake| {
                json!({
                    "line": mistake.at.line,
                    "column": mistake.at.column,
                    "message": mistake.message,
                    "help": mistake.help,
                })
            });
            object["mistakes"] = mistakes.collect();
        }
        Judged::Unreadable(error) => {
            object["mistakes"] = json!([{
                "line": null,
                "column": null,
                "message": format!("cannot be read: {error}"),
                "help": "check the path and that it is text",
            }]);
        }
    }
    object
}

fn finding(finding: &Finding) -> Value {
    json!({
        "code": finding.code,
        "severity": finding.severity.as_str(),
        "line": finding.line,
        "message": finding.message,
        "cure": finding.cure,
    })
}
