//! Rows of cells as text.

use std::fmt::Write as _;

/// Rows with their cells one under the other: the first to the left, the others to the right.
#[must_use]
pub fn aligned(rows: &[Vec<String>]) -> String {
    let widest = |place: usize| {
        rows.iter()
            .filter_map(|row| row.get(place))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows.iter().map(Vec::len).max().unwrap_or(0))
        .map(widest)
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (place, cell) in row.iter().enumerate() {
            let gap = " ".repeat(widths[place] - cell.chars().count());
            if place == 0 {
                let _ = write!(line, "{cell}{gap}");
            } else {
                let _ = write!(line, "  {gap}{cell}");
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// What a terminal shows beside each other.
pub(crate) const WIDTH: usize = 100;

/// The same, in lines of at most `width` columns: what does not fit beside the first column stands in tables below.
#[must_use]
pub fn within(rows: &[Vec<String>], width: usize) -> String {
    let places = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, place: usize| row.get(place).cloned().unwrap_or_default();
    let widest = |place: usize| {
        rows.iter()
            .map(|row| cell(row, place).chars().count())
            .max()
            .unwrap_or(0)
    };
    let first = widest(0);
    let mut tables: Vec<Vec<usize>> = vec![Vec::new()];
    let mut used = first;
    for place in 1..places {
        let wide = widest(place) + 2;
        let begun = tables.last().is_some_and(|table| !table.is_empty());
        if begun && used + wide > width {
            tables.push(Vec::new());
            used = first;
        }
        used += wide;
        if let Some(table) = tables.last_mut() {
            table.push(place);
        }
    }
    let parts: Vec<String> = tables
        .iter()
        .map(|table| {
            let part: Vec<Vec<String>> = rows
                .iter()
                .map(|row| {
                    std::iter::once(0)
                        .chain(table.iter().copied())
                        .map(|place| cell(row, place))
                        .collect()
                })
                .collect();
            aligned(&part)
        })
        .collect();
    parts.join("\n")
}

/// Rows as a table of Markdown.
#[must_use]
pub fn pipes(rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        let _ = writeln!(out, "| {} |", row.join(" | "));
        if index == 0 {
            let _ = writeln!(out, "|---{}|", "|---:".repeat(row.len() - 1));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_is_cut_between_columns_and_loses_nothing() {
        let row = |name: &str| -> Vec<String> {
            std::iter::once(name.to_owned())
                .chain((0..30).map(|place| format!("{name}-{place}")))
                .collect()
        };
        let rows = [row("head"), row("one")];
        let text = within(&rows, 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        for cell in rows.iter().flatten() {
            assert!(text.split_whitespace().any(|word| word == cell), "{cell}");
        }
        assert_eq!(within(&[vec!["a".into(), "b".into()]], 60), "a  b\n");
    }
}
