//! Explanations of lint codes, keys of the policy file, and the words of the field, as text for a terminal.

mod terms;

use retryguard_core::Refusal;

use crate::{key_reference, lint_codes, reading::nearest};

/// There is nothing of this name to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The nearest name of something that can be explained.
    pub nearest: Option<String>,
}

/// Explains a lint code (`RG009`), a section or key of the policy file (`budget`, `budget.percent`), a term (`amplification`), or
/// the reason of a refusal (`breaker-open`), in lines of at most 100 columns.
///
/// # Errors
/// Where nothing of this name is known.
pub fn explain(what: &str) -> Result<String, Unknown> {
    let keys = Keys::read(&key_reference());
    text(&keys, what).ok_or_else(|| {
        let known = known(&keys);
        Unknown {
            nearest: nearest(what, known.iter().map(String::as_str)).map(str::to_owned),
        }
    })
}

/// A word may be the reason of a refusal beside a term or a key: `budget`, `deadline`, `guard` and `retry-after` are.
fn text(keys: &Keys, what: &str) -> Option<String> {
    let first = code(what)
        .or_else(|| terms::text(what))
        .or_else(|| keys.text(what));
    match (first, refusal(what)) {
        (Some(first), Some(refusal)) => Some(format!("{first}\n{refusal}")),
        (first, refusal) => first.or(refusal),
    }
}

/// Everything that can be explained.
#[must_use]
pub fn explained() -> String {
    list(&Keys::read(&key_reference()))
}

fn code(what: &str) -> Option<String> {
    let code = lint_codes()
        .iter()
        .find(|code| code.id.eq_ignore_ascii_case(what))?;
    let example = |text: &str| -> String { text.lines().map(|line| format!("    {line}\n")).collect() };
    Some(format!(
        "{}\n\n{}\n\n{}\n\nA policy that has it:\n\n{}\nThe same without it:\n\n{}",
        wrapped(&format!("{}: {} ({})", code.id, code.title, code.severity)),
        wrapped(code.why),
        wrapped(&format!("What to do: {}.", code.cure)),
        example(code.example),
        example(code.corrected)
    ))
}

/// A reason for which a call failed or was refused, as metrics, traces and errors name it.
fn refusal(what: &str) -> Option<String> {
    let wanted = what.to_lowercase().replace([' ', '_'], "-");
    let refusal = Refusal::ALL
        .into_iter()
        .find(|refusal| refusal.as_str() == wanted)?;
    let text = format!(
        "{refusal}, as the `reason` in metrics and errors: why there was no (other) attempt. What to do: {}.",
        refusal.next_step()
    );
    Some(wrapped(&text) + "\n")
}

/// The reference of the policy file, taken apart.
struct Keys {
    sections: Vec<Section>,
}

struct Section {
    /// Such as `budget` or `budget.minRetryRate`; empty for the keys of a service and of the file.
    name: String,
    about: String,
    /// Key, meaning, default, why.
    rows: Vec<[String; 4]>,
}

impl Keys {
    fn read(page: &str) -> Self {
        let mut sections: Vec<Section> = Vec::new();
        for line in page.lines() {
            if let Some(title) = line.strip_prefix("### ") {
                let name = title.strip_prefix('`').and_then(|title| title.strip_suffix('`'));
                sections.push(Section {
                    name: name.unwrap_or_default().to_owned(),
                    about: String::new(),
                    rows: Vec::new(),
                });
            } else if let Some(section) = sections.last_mut() {
                if let Some(row) = line.strip_prefix("| `") {
                    let cells: Vec<&str> = row.trim_end_matches('|').split(" | ").map(str::trim).collect();
                    if let [key, meaning, default, why] = cells.as_slice() {
                        let plain = |cell: &str| cell.replace("\\|", "|").replace('*', "");
                        section.rows.push([
                            key.trim_matches('`').to_owned(),
                            // The page has what a key takes in italics behind its meaning.
                            plain(&meaning.replace(". *", ". Takes ")),
                            plain(default),
                            plain(why),
                        ]);
                    }
                } else if !line.starts_with('|') && !line.is_empty() && section.rows.is_empty() {
                    section.about = line.to_owned();
                }
            }
        }
        Self { sections }
    }

    fn text(&self, what: &str) -> Option<String> {
        let what = what.trim_matches('`');
        let mut out = String::new();
        if let Some(section) = self.sections.iter().find(|section| section.name == what) {
            out += &format!("{}\n", wrapped(&format!("{what}: {}", section.about)));
            for [key, meaning, default, _] in &section.rows {
                let default = match default.as_str() {
                    "–" => String::new(),
                    default => format!(" ({default})"),
                };
                out += &format!("\n  {what}.{key}{default}\n    {}\n", indented(meaning));
            }
            out += &format!("\nWhy a default is what it is: `retryguard explain {what}.KEY`.\n");
        }
        let (place, key) = what.rsplit_once('.').unwrap_or(("", what));
        for section in self.sections.iter().filter(|section| section.name == place) {
            for [_, meaning, default, why] in section.rows.iter().filter(|row| row[0] == key) {
                if !out.is_empty() {
                    out.push('\n');
                }
                out += &format!(
                    "{}\n{}\n",
                    wrapped(&format!("{what}: {meaning}")),
                    wrapped(&format!("Default: {default}: {why}"))
                );
            }
        }
        (!out.is_empty()).then_some(out)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for section in &self.sections {
            for row in &section.rows {
                names.push(if section.name.is_empty() {
                    row[0].clone()
                } else {
                    format!("{}.{}", section.name, row[0])
                });
            }
        }
        names
    }
}

fn known(keys: &Keys) -> Vec<String> {
    let codes = lint_codes().iter().map(|code| code.id.to_owned());
    codes
        .chain(terms::NAMES.iter().map(|(name, _)| (*name).to_owned()))
        .chain(Refusal::ALL.iter().map(|refusal| refusal.as_str().to_owned()))
        .chain(keys.names())
        .collect()
}

fn list(keys: &Keys) -> String {
    let codes: Vec<String> = lint_codes()
        .iter()
        .map(|code| format!("  {}  {}\n", code.id, code.title))
        .collect();
    let terms: Vec<&str> = terms::NAMES.iter().map(|(name, _)| *name).collect();
    let refusals = Refusal::ALL.map(Refusal::as_str);
    format!(
        "Lint codes:\n{}\nTerms:\n  {}\n\nReasons why there was no (other) attempt, in metrics and errors:\n  {}\n\n\
         Keys of the policy file:\n  {}\n",
        codes.concat(),
        indented(&terms.join(", ")),
        indented(&refusals.join(", ")),
        indented(&keys.names().join(", "))
    )
}

/// Lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    folded(text, 100, "\n")
}

fn indented(text: &str) -> String {
    folded(text, 94, "\n    ")
}

fn folded(text: &str, width: usize, end: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push_str(end);
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_term_and_key_is_explained_within_a_hundred_columns() {
        let keys = Keys::read(&key_reference());
        let names = known(&keys);
        assert!(names.len() > 100, "{}", names.len());
        for name in names {
            let text = text(&keys, &name).unwrap_or_else(|| panic!("{name}"));
            assert!(text.len() > 30, "{name}: {text}");
            for line in text.lines().filter(|line| !line.starts_with("    ")) {
                assert!(line.chars().count() <= 100, "{name}: {line}");
            }
        }
    }

    /// Metrics and errors name a reason, and `explain` did not know it.
    #[test]
    fn a_reason_of_a_refusal_is_explained_beside_the_key_of_its_name() {
        let open = explain("breaker_open").unwrap();
        assert!(open.contains("look at the target;"), "{open}");
        let budget = explain("budget").unwrap();
        assert!(
            budget.contains("budget.percent") && budget.contains("as the `reason`"),
            "{budget}"
        );
        assert!(explained().contains("bulkhead-timeout"));
    }

    #[test]
    fn a_section_lists_its_keys_and_a_key_its_reason() {
        let keys = Keys::read(&key_reference());
        let budget = keys.text("budget").unwrap();
        assert!(
            budget.contains("budget.percent") && budget.contains("20%"),
            "{budget}"
        );
        let percent = keys.text("budget.percent").unwrap();
        assert!(percent.contains("Default: `20%`"), "{percent}");
        assert!(keys.text("maxRetries").unwrap().contains("Default: `10`"));
    }
}
