//! The policies on the page: known names, policy files, and files of other systems.

use retryguard_policy::{Policy, lint};
use retryguard_sim::client_policy::{ClientPolicy, named};
use retryguard_translate::{Imported, PolicyFile};
use serde_json::{Value, json};

/// The most policies of a comparison.
pub(crate) const MOST: usize = 4;

/// A policy under comparison, and how a scenario writes it; or what is wrong with it.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) client_policy: Result<ClientPolicy, Value>,
    /// What an entry of a scenario's list says below its name; a known policy needs nothing.
    body: String,
}

impl Entry {
    /// The entry of a scenario's list; nothing for a policy with mistakes.
    pub(crate) fn written(&self) -> String {
        match &self.client_policy {
            Err(_) => String::new(),
            Ok(_) => format!("  - name: {}\n{}", json!(self.name), self.body),
        }
    }
}

/// Reads the entries of a request: `{"use": NAME}` or `{"name": NAME, "text": TEXT}`.
pub(crate) fn read(value: &Value) -> Vec<Entry> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut entries: Vec<Entry> = items.iter().take(MOST).map(entry).collect();
    // Columns need names of their own.
    for index in 1..entries.len() {
        let taken = entries[..index]
            .iter()
            .any(|other| other.name == entries[index].name);
        if taken {
            let name = format!("{} ({})", entries[index].name, index + 1);
            if let Ok(client_policy) = &mut entries[index].client_policy {
                client_policy.name.clone_from(&name);
            }
            entries[index].name = name;
        }
    }
    entries
}

fn entry(item: &Value) -> Entry {
    if let Some(known) = item["use"].as_str() {
        return Entry {
            name: known.to_owned(),
            client_policy: named(known)
                .ok_or_else(|| json!([mistake(1, format!("there is no policy `{known}`"), "")])),
            body: format!("    use: {known}\n"),
        };
    }
    let name: String = item["name"].as_str().unwrap_or("mine").chars().take(40).collect();
    let text = item["text"].as_str().unwrap_or_default();
    let (policy, imported) = match as_policy(text) {
        Ok(found) => found,
        Err(mistakes) => {
            return Entry {
                name,
                client_policy: Err(mistakes),
                body: String::new(),
            };
        }
    };
    let lines: String = policy.lines().map(|line| format!("        {line}\n")).collect();
    let client_policy = client_policy(&name, &policy, imported.as_ref());
    Entry {
        body: format!("    policy:\n{lines}"),
        client_policy,
        name,
    }
}

/// The text of a policy, imported where it is of another system; or what is wrong with it.
fn as_policy(text: &str) -> Result<(String, Option<Imported>), Value> {
    match PolicyFile::of(text.to_owned(), None) {
        Ok(file) => Ok((file.text, file.imported)),
        Err(refused) => Err(json!([mistake(refused.line.unwrap_or(1), refused.message, "")])),
    }
}

fn client_policy(name: &str, policy: &str, imported: Option<&Imported>) -> Result<ClientPolicy, Value> {
    let client_policy = match imported {
        None => Policy::parse(policy).map(|policy| ClientPolicy::of_policy(name, policy)),
        Some(imported) => ClientPolicy::of_imported(name, imported),
    };
    client_policy.map_err(|mistakes| {
        let all = mistakes.as_slice().iter();
        all.map(|it| mistake(it.at.line, it.message.clone(), &it.help))
            .collect::<Value>()
    })
}

fn mistake(line: u32, message: String, help: &str) -> Value {
    json!({"severity": "mistake", "line": line, "message": message, "help": help})
}

/// What the linter says of a text, for the editor: mistakes, findings, and what an import does not carry over.
#[must_use]
pub fn diagnostics(text: &str) -> Value {
    let (policy, imported) = match as_policy(text) {
        Ok(found) => found,
        Err(mistakes) => return mistakes,
    };
    let judged = imported
        .as_ref()
        .map_or_else(|| lint(&policy), |imported| imported.judged(text));
    let mut all: Vec<Value> = match judged {
        Err(mistakes) => {
            let all = mistakes.as_slice().iter();
            all.map(|it| mistake(it.at.line, it.message.clone(), &it.help))
                .collect()
        }
        Ok(report) => report
            .findings
            .iter()
            .map(|finding| {
                json!({
                    "severity": finding.severity.as_str(),
                    "code": finding.code,
                    "line": finding.line,
                    "message": finding.message,
                    "help": finding.cure,
                })
            })
            .collect(),
    };
    for note in imported.iter().flat_map(|imported| &imported.notes) {
        all.push(
            json!({"severity": note.kind.as_str(), "line": note.line, "message": note.message, "help": ""}),
        );
    }
    all.into()
}
