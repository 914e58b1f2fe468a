//! Plain English: words that personify or make a riddle of a sentence do not enter the tree.

use anyhow::bail;

/// Words that a sentence about software hardly ever needs. Split so that this file does not find itself.
const WORDS: &[&str] = &[
    concat!("who", "ever"),
    concat!("whoso", "ever"),
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("every", "body"),
    concat!("any", "body"),
    concat!("those", " who "),
    concat!(" one", " who "),
    concat!(" he", " who "),
    concat!("whose", " word "),
    concat!("in", " earnest"),
    concat!("nou", "ght"),
    concat!("every", "one "),
    concat!("any", "one "),
    concat!("some", "one "),
    concat!("calls", " whom"),
    concat!("for", " want of"),
    concat!("in", " vain"),
    concat!("told", " apart"),
    concat!("pol", "itely"),
    concat!("another's", " word"),
    concat!("operator's", " word"),
    concat!("says nothing", " of "),
    concat!("knows nothing", " of "),
];

/// A phrase in two parts on one line.
const PHRASES: &[(&str, &str)] = &[(concat!(" is no", " "), concat!(" of ", "ours"))];

const KINDS: &[&str] = &[".rs", ".md", ".py", ".toml", ".yaml"];

/// Fails on the first word or phrase of every line that has one.
///
/// # Errors
/// With every hit.
pub fn check() -> anyhow::Result<()> {
    let mut hits = Vec::new();
    for (path, text) in crate::pages::tracked(|path| KINDS.iter().any(|kind| path.ends_with(kind)))? {
        hits.extend(text.lines().enumerate().filter_map(|(index, line)| {
            let word = found(line)?;
            Some(format!("{path}:{}: `{word}`", index + 1))
        }));
    }
    if !hits.is_empty() {
        bail!(
            "wording (say what acts: a client, a caller, another process):\n  {}",
            hits.join("\n  ")
        );
    }
    eprintln!("== wording: plain");
    Ok(())
}

/// The first hit of a line. What stands in backticks, is a whole string or is a Markdown quotation is quoted.
fn found(line: &str) -> Option<String> {
    if line.trim_start().starts_with("> ") {
        return None;
    }
    let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut lower = plain.to_lowercase();
    for word in WORDS {
        lower = lower.replace(&format!("\"{word}\""), " ");
    }
    // Also as a part of a name.
    let word = WORDS.iter().find(|word| lower.contains(*word)).copied();
    let phrase = || {
        PHRASES
            .iter()
            .find(|(start, end)| lower.find(start).is_some_and(|at| lower[at..].contains(end)))
            .map(|(start, end)| format!("{} … {}", start.trim(), end.trim()))
    };
    word.map(str::to_owned).or_else(phrase).or_else(|| riddle(line))
}

/// Something quoted that "is no" thing, where plain English says that it is not one.
fn riddle(line: &str) -> Option<String> {
    let start = concat!("` is no", " ");
    let rest = &line[line.find(start)? + start.len()..];
    let usual = ["longer", "more"].iter().any(|word| rest.starts_with(word));
    (!usual).then(|| format!("{} …", start.trim_start_matches('`').trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_outside_quotations_only() {
        let word = WORDS[2];
        assert_eq!(found(&format!("where {word} waits")).as_deref(), Some(word));
        assert_eq!(
            found(&format!("Where {} waits", word.to_uppercase())).as_deref(),
            Some(word)
        );
        assert!(found(&format!("the key `{word}` in a file")).is_none());
        assert!(found(&format!("> {word} waits")).is_none());
        assert!(found(&format!("key == \"{word}\"")).is_none());
        assert!(found(&format!("\"{word} waits\"")).is_some());
        assert_eq!(found(&format!("fn {word}_waits()")).as_deref(), Some(word));
        assert!(found(&format!("alert: Service{}Leads", word.to_uppercase())).is_some());
        assert!(found("no client waits").is_none());
        assert!(found(concat!("`{text}` is no", " address")).is_some());
        assert!(found(concat!("`key` is no", " longer read")).is_none());
    }

    #[test]
    fn a_phrase_is_found() {
        let (start, end) = PHRASES[0];
        assert!(found(&format!("it{start}business{end}")).is_some());
        assert!(found(&format!("it{start}business")).is_none());
    }
}
