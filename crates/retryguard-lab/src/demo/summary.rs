//! The table of both runs, and what to do next.

use super::frame::{Arm, Frame};

/// Prints the table to the standard output.
pub(super) fn print(frame: &Frame) {
    print!("{}", text(frame));
}

fn text(frame: &Frame) -> String {
    let [before, after] = frame.arms.as_slice() else {
        return String::new();
    };
    let mut out = format!("\n{:36}  {:>22}  {:>12}\n", "", before.title, after.title);
    let mut row = |name: &str, value: &dyn Fn(&Arm) -> String| {
        out += &format!("{name:36}  {:>22}  {:>12}\n", value(before), value(after));
    };
    row("orders placed", &|arm| arm.orders.sent.to_string());
    row("orders paid", &|arm| arm.orders.paid.to_string());
    row("paid before the fault", &|arm| share(arm.paid_before));
    row("paid while payments were broken", &|arm| share(arm.paid_during));
    row("paid after payments were mended", &|arm| share(arm.paid_after));
    row("paid in the last three seconds", &|arm| share(arm.paid_last));
    row("attempts that arrived at payments", &|arm| {
        arm.arrived.to_string()
    });
    row("attempts per order (amplification)", &|arm| {
        arm.amplification
            .map_or_else(String::new, |value| format!("{value:.2}"))
    });
    row("customers charged twice", &|arm| {
        arm.duplicates.map_or_else(String::new, |value| value.to_string())
    });
    if frame.arms.iter().any(|arm| arm.kept == Some(false)) {
        out += "\nThis machine could not keep the offered load; the numbers above say little.\n";
    }
    out + NEXT
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{:.0} %", value * 100.0))
}

const NEXT: &str = "
Next:
  cargo run --release -- lint policies/*.yaml
      what a policy of yours would do in a storm
  cargo run --release -- simulate scenarios/table1-aws.yaml
      the same load under six retry policies, with the bill
  c.yaml and g.yaml in crates/retryguard-lab/policies/
      the two policies that you have just seen
  docs/lab.md
      the services, the faults and the load behind this
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_a_terminal_of_eighty_columns() {
        let arm = |title: &str| Arm {
            title: title.to_owned(),
            arrived: 1_000_000,
            amplification: Some(12.345),
            paid_after: Some(1.0),
            kept: Some(false),
            ..Arm::default()
        };
        let frame = Frame {
            arms: vec![arm("retries and timeouts"), arm("RetryGuard")],
            ..Frame::default()
        };
        let text = text(&frame);
        assert!(
            text.contains("could not keep"),
            "a run that says little says so: {text}"
        );
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
