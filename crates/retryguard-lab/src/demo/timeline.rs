//! The time line of what acted, as lines of text.

use super::frame::{Arm, Frame};

/// The columns of a row's name and of its count.
const NAME: usize = 22;
const COUNT: usize = 7;

/// A row for each of the first `most` parts that acted, in so many columns: a full block while it acted, shade during the
/// fault.
pub(super) fn lines(frame: &Frame, arm: &Arm, columns: usize, most: usize) -> Vec<String> {
    let width = columns.saturating_sub(NAME + COUNT + 2).max(1);
    let cell = frame.length.max(1e-9) / width as f64;
    arm.acted
        .iter()
        .take(most)
        .map(|acted| {
            let bar: String = (0..width)
                .map(|index| {
                    let (from, until) = (index as f64 * cell, (index + 1) as f64 * cell);
                    let meets = |a: f64, b: f64| a < until && b > from;
                    if acted.spans.iter().any(|(a, b)| meets(*a, *b)) {
                        '█'
                    } else if meets(frame.fault_from, frame.fault_until) {
                        '░'
                    } else {
                        '·'
                    }
                })
                .collect();
            format!(" {:NAME$}{bar}{:>COUNT$}", acted.name, acted.count)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::acted::{Acted, Part};

    #[test]
    fn a_row_shows_when_it_acted_and_when_the_fault_was() {
        let frame = Frame {
            length: 10.0,
            fault_from: 4.0,
            fault_until: 8.0,
            ..Frame::default()
        };
        let arm = Arm {
            acted: vec![Acted {
                part: Part::Budget,
                name: "retry budget",
                count: 12,
                spans: vec![(5.0, 6.0)],
            }],
            ..Arm::default()
        };
        let shown = lines(&frame, &arm, NAME + COUNT + 12, 4);
        assert_eq!(shown, [" retry budget          ····░█░░··     12"]);
        assert!(
            lines(&frame, &arm, 0, 4)[0].contains('█'),
            "a narrow terminal is no reason to stop"
        );
    }
}
