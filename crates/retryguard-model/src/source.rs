//! Places in a source text, and how an error shows them.

use std::fmt::Write as _;

/// A range of bytes in a source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    pub(crate) fn to(self, other: Span) -> Span {
        Span {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// The line and the column of the first byte, both counted from one.
    pub fn line_and_column(self, text: &str) -> (usize, usize) {
        let mut start = self.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &text[..start];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        (line, column)
    }
}

/// The line that `span` starts on, with the place underlined.
pub(crate) fn excerpt(text: &str, span: Span) -> String {
    let (line, column) = span.line_and_column(text);
    let shown: String = text
        .lines()
        .nth(line - 1)
        .unwrap_or("")
        .replace('\t', " ")
        .chars()
        .take(200)
        .collect();
    let length = text
        .get(span.start..span.end)
        .map_or(1, |s| s.lines().next().unwrap_or("").chars().count())
        .clamp(1, 200);
    let gutter = line.to_string().len();
    let mut out = String::new();
    let _ = writeln!(out, "{line} | {shown}");
    let _ = write!(
        out,
        "{:gutter$} | {:indent$}{}",
        "",
        "",
        "^".repeat(length.min(shown.chars().count().saturating_sub(column - 1).max(1))),
        indent = column - 1
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one() {
        let text = "ctmc\nmodule µ é\n";
        assert_eq!(Span { start: 0, end: 4 }.line_and_column(text), (1, 1));
        assert_eq!(Span { start: 5, end: 6 }.line_and_column(text), (2, 1));
        // The columns count characters: µ is two bytes long.
        assert_eq!(Span { start: 15, end: 17 }.line_and_column(text), (2, 10));
        assert_eq!(
            Span {
                start: 999,
                end: 1000
            }
            .line_and_column(text),
            (3, 1)
        );
    }
}
