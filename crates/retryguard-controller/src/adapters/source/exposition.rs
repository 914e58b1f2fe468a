//! The text format of metrics, strictly: a page that breaks its rules is refused.

/// One line: a name, its labels, a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Line<'a> {
    /// The metric's name.
    pub name: &'a str,
    /// Its labels, without their quotes and escapes.
    pub labels: Vec<(&'a str, std::borrow::Cow<'a, str>)>,
    /// The value.
    pub value: f64,
    /// Everything before the value: one series' name for itself.
    pub series: &'a str,
}

/// The most labels of one series.
const MOST_LABELS: usize = 64;

/// Why a page cannot be read, and on which line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The line, from 1.
    pub line: usize,
    /// Which rule is broken.
    pub reason: &'static str,
}

/// Every line of a page whose name `wanted` says yes to. Others are not looked into: a proxy's page has
/// thousands of them.
///
/// # Errors
/// At the first line that breaks the rules of the format.
pub fn lines<'a>(
    page: &'a str,
    wanted: impl Fn(&str) -> bool,
    mut take: impl FnMut(Line<'a>),
) -> Result<(), Broken> {
    for (index, text) in page.lines().enumerate() {
        let text = text.trim_matches([' ', '\t', '\r']);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let broken = |reason| Broken {
            line: index + 1,
            reason,
        };
        let end = text
            .find(['{', ' ', '\t'])
            .ok_or_else(|| broken("a line without a value"))?;
        let name = &text[..end];
        if !is_name(name) {
            return Err(broken("a line that does not begin with a metric's name"));
        }
        if wanted(name) {
            take(line(text, end).map_err(broken)?);
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
    !name.is_empty() && name.bytes().all(good) && !name.as_bytes()[0].is_ascii_digit()
}

fn line(text: &str, end: usize) -> Result<Line<'_>, &'static str> {
    let mut labels = Vec::new();
    let mut rest = &text[end..];
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once('=').ok_or("a label without a value")?;
            let after = after
                .trim_start()
                .strip_prefix('"')
                .ok_or("a label's value without quotes")?;
            let (value, after) = quoted(after)?;
            if labels.len() == MOST_LABELS {
                return Err("more labels than a series has");
            }
            labels.push((label.trim(), value));
            rest = after;
        }
    }
    let series = &text[..text.len() - rest.len()];
    let value = rest.split_whitespace().next().ok_or("a line without a value")?;
    let value = value.parse().map_err(|_| "a value that is not a number")?;
    Ok(Line {
        name: &text[..end],
        labels,
        value,
        series,
    })
}

/// The text up to the closing quote, and what follows it.
fn quoted(text: &str) -> Result<(std::borrow::Cow<'_, str>, &str), &'static str> {
    let mut plain = String::new();
    let mut begin = 0;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' if plain.is_empty() && begin == 0 => return Ok((text[..at].into(), &text[at + 1..])),
            b'"' => {
                plain.push_str(&text[begin..at]);
                return Ok((plain.into(), &text[at + 1..]));
            }
            b'\\' => {
                plain.push_str(&text[begin..at]);
                plain.push(match bytes.get(at + 1) {
                    Some(b'n') => '\n',
                    Some(b'"') => '"',
                    Some(b'\\') => '\\',
                    _ => return Err("an escape that does not exist"),
                });
                at += 2;
                begin = at;
            }
            _ => at += 1,
        }
    }
    Err("a label's value without an end")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Read = (String, Vec<(String, String)>, f64);

    fn all(page: &str) -> Result<Vec<Read>, Broken> {
        let mut found = Vec::new();
        lines(
            page,
            |_| true,
            |line| {
                let labels = line
                    .labels
                    .iter()
                    .map(|(label, value)| ((*label).to_owned(), value.to_string()))
                    .collect();
                found.push((line.name.to_owned(), labels, line.value));
            },
        )?;
        Ok(found)
    }

    #[test]
    fn the_forms_that_pages_have() {
        let page = "# HELP a b\n# TYPE a counter\na 1\na{} 2\na{x=\"1\",y=\"q\\\"\\\\\\n\",} 3 1700000000000\n\nb_bucket{le=\"+Inf\"} +Inf # {id=\"7\"} 1\nc NaN\r\n";
        let found = all(page).unwrap();
        assert_eq!(found.len(), 5);
        assert_eq!(found[2].1[1], ("y".to_owned(), "q\"\\\n".to_owned()));
        assert_eq!(found[2].2, 3.0);
        assert_eq!(found[3].2, f64::INFINITY);
        assert!(found[4].2.is_nan());
    }

    #[test]
    fn a_page_that_is_something_else_is_refused_with_its_line() {
        for (page, line) in [
            ("<html>", 1),
            ("a 1\nb{x=1} 2", 2),
            ("a{x=\"1} 2", 1),
            ("a{x=\"\\q\"} 2", 1),
            ("a one", 1),
            ("a{x", 1),
            ("9a 1", 1),
        ] {
            assert_eq!(all(page).unwrap_err().line, line, "{page}");
        }
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(page in "\\PC{0,200}") {
            let _ = all(&page);
        }

        #[test]
        fn no_text_like_a_page_brings_it_down(page in "([a-z_]{1,4}(\\{[a-z]{0,2}=?\"?[^\n]{0,5}\"?,?\\}?)? ?[0-9a-zA-Z+.-]{0,6}\n){0,6}") {
            let _ = all(&page);
        }

        /// Whatever a label's value is, it comes back as it was written.
        #[test]
        fn values_survive(value in "\\PC{0,20}") {
            let written = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let found = all(&format!("a{{x=\"{written}\"}} 1")).unwrap();
            prop_assert_eq!(&found[0].1[0].1, &value);
        }
    }
}
