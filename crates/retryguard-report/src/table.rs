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
