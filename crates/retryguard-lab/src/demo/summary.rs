//! The table of all runs, what acted, what saved the orders, and what to do next.

use super::{
    frame::{Arm, Frame},
    timeline,
};

/// The columns of the usual terminal.
const COLUMNS: usize = 80;

/// The columns of the three runs, after 27 for the names of the rows.
const WIDTHS: [usize; 3] = [22, 19, 12];

/// Prints the table to the standard output.
pub(super) fn print(frame: &Frame) {
    print!("{}", text(frame));
}

fn text(frame: &Frame) -> String {
    if frame.arms.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n");
    let mut row = |name: &str, value: &dyn Fn(&Arm) -> String| {
        out += &format!("{name:27}");
        for (arm, width) in frame.arms.iter().zip(WIDTHS) {
            out += &format!("{:>width$}", cut(&value(arm), width - 1));
        }
        out.push('\n');
    };
    row("", &|arm| arm.title.clone());
    row("orders placed", &|arm| arm.orders.sent.to_string());
    row("orders paid", &|arm| arm.orders.paid.to_string());
    row("paid before the fault", &|arm| share(arm.paid_before));
    row("paid during the fault", &|arm| share(arm.paid_during));
    row("paid after the fault", &|arm| share(arm.paid_after));
    row("paid again after", &|arm| match arm.recovered {
        Some(seconds) => format!("{seconds:.1} s"),
        None => "never".to_owned(),
    });
    row("attempts at payments", &|arm| arm.arrived.to_string());
    row("attempts per order", &|arm| {
        arm.amplification
            .map_or_else(String::new, |value| format!("{value:.2}"))
    });
    row("customers charged twice", &|arm| {
        arm.duplicates.map_or_else(String::new, |value| value.to_string())
    });
    if let Some(last) = frame.arms.last().filter(|arm| !arm.acted.is_empty()) {
        out += &format!("\nWhat acted under {}:\n", last.title);
        for line in timeline::lines(frame, last, COLUMNS, last.acted.len()) {
            out += &line;
            out.push('\n');
        }
    }
    if let Some(sentence) = &frame.verdict {
        out += &format!("\n{}\n", wrapped(sentence));
    }
    if frame.arms.iter().any(|arm| arm.kept == Some(false)) {
        out += "\nThis machine could not keep the offered load; the numbers above say little.\n";
    }
    out + NEXT
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{:.0} %", value * 100.0))
}

/// The beginning of a cell.
fn cut(title: &str, most: usize) -> String {
    if title.chars().count() <= most {
        return title.to_owned();
    }
    title.chars().take(most - 1).chain(['…']).collect()
}

/// Lines of at most 80 columns.
fn wrapped(sentence: &str) -> String {
    let mut lines = vec![String::new()];
    for word in sentence.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

const NEXT: &str = "
Next:
  retryguard demo --policy FILE --fault NAME
      the same with a policy of yours, and with another fault
  retryguard play
      a page on which policies meet storms: load, faults and clients to turn
  retryguard lint FILE
      what of a policy (or of an Istio, Envoy, gRPC or AWS file) makes a storm
  docs/lab.md
      the services, the faults, the load and the policies behind this
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{
        acted::{Acted, Part},
        verdict,
    };

    #[test]
    fn the_table_fits_a_terminal_of_eighty_columns() {
        let arm = |title: &str| Arm {
            title: title.to_owned(),
            arrived: 1_000_000,
            amplification: Some(12.345),
            paid_after: Some(1.0),
            kept: Some(false),
            acted: Part::ALL
                .iter()
                .map(|part| Acted {
                    part: *part,
                    name: part.name(),
                    count: 1234,
                    spans: vec![(3.0, 9.0)],
                })
                .collect(),
            ..Arm::default()
        };
        let mut frame = Frame {
            arms: vec![
                arm("retries and timeouts"),
                arm("a-policy-with-a-long-name.yaml"),
                arm("RetryGuard"),
            ],
            length: 17.0,
            fault_from: 4.0,
            fault_until: 8.0,
            over: true,
            ..Frame::default()
        };
        frame.arms[2].orders.paid = 900;
        frame.verdict = verdict::sentence(&frame);
        let text = text(&frame);
        assert!(
            text.contains("could not keep"),
            "a run that says little says so: {text}"
        );
        assert!(text.contains("What saved 900 orders"), "{text}");
        assert!(text.contains("waiting for recovery"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
    }
}
