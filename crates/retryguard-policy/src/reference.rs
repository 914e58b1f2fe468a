//! The generated pages: the JSON schema, the reference of keys and the reference of lint codes.
//!
//! Each is made from the declarations that the reader and the linter themselves use. The copies in `docs/` are
//! compared by a test, which writes them anew where `RETRYGUARD_REGENERATE=1` is set.

use std::fmt::Write;

use serde_json::json;

use crate::{
    lint::CODES,
    written::{Document, Outline, Written},
};

/// The JSON schema of a policy file, for editors. It knows keys, types and ranges; what needs two keys at once
/// only [`Policy::parse`](crate::Policy::parse) knows.
#[must_use]
pub fn schema() -> String {
    let mut schema = Document::form(&()).schema;
    // `defaults` and each of `services` have the same keys: said once, and referred to.
    let service = schema["properties"]["defaults"].take();
    let reference = json!({"$ref": "#/$defs/service"});
    schema["properties"]["defaults"] = reference.clone();
    schema["properties"]["services"]["additionalProperties"] = reference;
    schema["$defs"] = json!({"service": service});
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("RetryGuard policy");
    format!("{schema:#}\n")
}

/// Every key with what it means, what may be written, its default and the reason for that, in Markdown.
#[must_use]
pub fn key_reference() -> String {
    let mut page = String::new();
    if let Some(outline) = Document::form(&()).section {
        section(&mut page, "The file", &outline, "");
    }
    page
}

fn section(page: &mut String, title: &str, outline: &Outline, path: &str) {
    // Writing to a string cannot fail.
    let _ = write!(page, "### {title}\n\n{}\n\n", outline.about);
    page.push_str("| key | value | default | why this default |\n| --- | --- | --- | --- |\n");
    for key in &outline.keys {
        let default = match key.default {
            "" => "–".to_owned(),
            default => format!("`{default}`"),
        };
        let _ = writeln!(
            page,
            "| `{}` | {} *{}* | {default} | {} |",
            key.name,
            cell(&key.about),
            cell(&key.form.words),
            cell(key.why)
        );
    }
    page.push('\n');
    for key in &outline.keys {
        if let Some(inner) = &key.form.section {
            // Inside a service the path begins at the service, because `defaults` and `services` share it.
            let below = match path {
                "" => String::new(),
                _ => format!("{path}."),
            };
            let (title, path) = match key.name {
                "defaults" => ("A service, and `defaults`".to_owned(), "service".to_owned()),
                name => (
                    format!("`{}{name}`", below.trim_start_matches("service.")),
                    format!("{below}{name}"),
                ),
            };
            section(page, &title, inner, &path);
        }
    }
}

fn cell(text: &str) -> String {
    let mut cell = text.replace('|', "\\|");
    if !cell.ends_with(['.', '?']) {
        cell.push('.');
    }
    cell
}

/// Every lint code with why it matters, what to do, and a policy that has it, in Markdown.
#[must_use]
pub fn lint_reference() -> String {
    let mut page = String::from(
        "# Lint codes\n\n\
         `retryguard lint FILE…` judges what a policy says. It exits with 0 when there is no finding of severity error, \
         with 1 when there is one (or a warning, with `--deny warnings`), and with 2 when a file cannot be read as a \
         policy. `--format json` prints one object for each file, one on a line; `sarif` and `github` are for pipelines.\n\n\
         A comment allows a finding and says why: `guard: off # retryguard: allow RG016: one call a day`. It stands behind \
         the key or on the line above it; `allow-file` is for the whole file. A comment without a reason allows nothing \
         (RG024), and one that is no longer needed is found (RG025).\n\n\
         The *amplification* is the number of attempts that can arrive at a service for one call at the edge: the product \
         of the attempts (retries and hedges included) of every service along the worst path of `calls`, and of the \
         gateway where `gatewayRetries` is on. It is what the rules of each single call allow. Budgets, the guard, the \
         breaker and the mark of a failure that was already retried hold it far lower, where every layer obeys them.\n\n\
         This page is generated; the policies in it are tested.\n\n\
         | code | finding | severity |\n| --- | --- | --- |\n",
    );
    for code in CODES {
        let _ = writeln!(
            page,
            "| [{0}](#{1}) | {2} | {3} |",
            code.id,
            code.id.to_lowercase(),
            code.title,
            code.severity
        );
    }
    for code in CODES {
        let _ = write!(
            page,
            "\n## {}\n\n**{}** ({}). {}\n\n*What to do:* {}.\n\n```yaml\n{}```\n\nbecomes\n\n```yaml\n{}```\n",
            code.id, code.title, code.severity, code.why, code.cure, code.example, code.corrected
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    #[test]
    fn the_schema_knows_the_keys_of_every_service() {
        let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
        let reference = &schema["properties"]["services"]["additionalProperties"]["$ref"];
        assert_eq!(reference, "#/$defs/service");
        assert_eq!(schema["properties"]["defaults"]["$ref"], *reference);
        let service = &schema["$defs"]["service"];
        assert_eq!(service["additionalProperties"], false);
        assert_eq!(service["properties"]["maxRetries"]["maximum"], 20);
        assert_eq!(service["properties"]["jitter"]["enum"][0], "full");
    }

    /// The default of every key, written out, changes nothing: so the page states the defaults that hold.
    #[test]
    fn every_stated_default_is_the_one_in_force() {
        let digest = |text: &str| {
            let policy = Policy::parse(text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"));
            policy.digest().to_owned()
        };
        let outline = Document::form(&()).section.unwrap();
        let mut texts = Vec::new();
        with_and_without(&outline, "", &mut texts);
        assert!(texts.len() > 80, "{}", texts.len());
        for (with, without) in texts {
            assert_eq!(digest(&with), digest(&without), "{with} against {without}");
        }
    }

    /// For each key a policy that writes its default, and one that has only what stands around it.
    fn with_and_without(outline: &Outline, path: &str, texts: &mut Vec<(String, String)>) {
        let close = "}".repeat(path.matches('{').count());
        for key in &outline.keys {
            let form = form_of(key.name, &key.about);
            if !key.default.is_empty() {
                let with = format!("{path}{form}{}: {}{close}", key.name, key.default);
                texts.push((with, format!("{path}{}{close}", form.trim_end_matches(", "))));
            }
            if let Some(inner) = &key.form.section {
                with_and_without(inner, &format!("{path}{}: {{", key.name), texts);
            }
        }
    }

    /// The form that a key belongs to, where its documentation names one that is not the default.
    fn form_of(key: &str, about: &str) -> &'static str {
        const FORMS: [(&str, &str); 8] = [
            ("(`adaptive`)", "form: adaptive, "),
            ("(`rate` with `slowCall`)", "trip: rate, slowCall: 1s, "),
            ("(`rate`", "trip: rate, "),
            ("(`hysteresis`", "mode: hysteresis, "),
            ("(`quota`)", "form: quota, "),
            ("(`gradient`)", "form: gradient, "),
            ("(`count`,", "trip: count, "),
            ("threshold of `algorithm1`", "mode: algorithm1, "),
        ];
        let form = FORMS
            .iter()
            .find(|(mark, _)| about.contains(mark) && !["form", "trip"].contains(&key));
        form.map_or("", |(_, form)| form)
    }
}
