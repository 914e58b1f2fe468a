//! SARIF 2.1.0 (OASIS, 2020): what code scanning of GitHub, GitLab and Azure reads.

use retryguard_policy::{Finding, Severity, lint_codes};
use serde_json::{Value, json};

use super::{Checked, Judged};

/// The rule of a file that is not a policy.
const NOT_A_POLICY: &str = "policy-file";

const PAGE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/lint.md");

/// One log for all files.
#[must_use]
pub fn log(checked: &[Checked]) -> Value {
    let mut rules: Vec<Value> = lint_codes()
        .iter()
        .map(|code| {
            json!({
                "id": code.id,
                "shortDescription": {"text": code.title},
                "fullDescription": {"text": code.why},
                "help": {"text": format!("{}.", code.cure)},
                "helpUri": format!("{PAGE}#{}", code.id.to_lowercase()),
            })
        })
        .collect();
    rules.push(json!({
        "id": NOT_A_POLICY,
        "shortDescription": {"text": "a file that cannot be read as a policy"},
        "helpUri": concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/policy.md"),
    }));
    let results: Vec<Value> = checked.iter().flat_map(results).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "retryguard",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            }},
            "results": results,
        }],
    })
}

fn results(Checked { file, judged }: &Checked) -> Vec<Value> {
    match judged {
        Judged::Report(report) => {
            let open = report.findings.iter().map(|finding| result(file, finding));
            let allowed = report.allowed.iter().map(|allowed| {
                let mut value = result(file, &allowed.finding);
                value["suppressions"] = json!([{"kind": "inSource", "justification": allowed.reason}]);
                value
            });
            open.chain(allowed).collect()
        }
        Judged::Mistakes(mistakes) => mistakes
            .as_slice()
            .iter()
            .map(|mistake| {
                let region = json!({"startLine": mistake.at.line, "startColumn": mistake.at.column});
                json!({
                    "ruleId": NOT_A_POLICY,
                    "level": "error",
                    "message": {"text": format!("{}; {}", mistake.message, mistake.help)},
                    "locations": [location(file, region)],
                })
            })
            .collect(),
        Judged::Unreadable(error) => vec![json!({
            "ruleId": NOT_A_POLICY,
            "level": "error",
            "message": {"text": format!("cannot be read: {error}")},
            "locations": [location(file, json!({"startLine": 1}))],
        })],
    }
}

fn result(file: &str, finding: &Finding) -> Value {
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    json!({
        "ruleId": finding.code,
        "level": level,
        "message": {"text": format!("{}. What to do: {}.", finding.message, finding.cure)},
        "locations": [location(file, json!({"startLine": finding.line}))],
    })
}

fn location(file: &str, region: Value) -> Value {
    json!({"physicalLocation": {"artifactLocation": {"uri": uri(file)}, "region": region}})
}

/// A path as a relative URI: whatever is not a plain character of a path is percent-encoded.
fn uri(file: &str) -> String {
    file.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_letters_beyond_ascii_are_encoded() {
        assert_eq!(uri("policies/my file ä.yaml"), "policies/my%20file%20%C3%A4.yaml");
    }
}
