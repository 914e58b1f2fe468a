//! The demo without a terminal: a line a second.

use tokio::sync::watch;

use super::frame::{Arm, Frame, Phase};
use crate::Name;

/// Prints until all runs are over.
pub(super) async fn show(url: &str, mut frames: watch::Receiver<Frame>) {
    println!("page: {url}");
    let mut printed = (0, 0);
    loop {
        {
            let frame = frames.borrow_and_update();
            for (index, arm) in frame.arms.iter().enumerate() {
                if index + 1 > printed.0 {
                    println!("{}\n{HEAD}", heading(&frame, arm));
                    printed = (index + 1, 0);
                }
                if index + 1 == printed.0 && arm.points.len() >= printed.1 + 4 {
                    printed.1 = arm.points.len();
                    println!("{}", line(arm));
                }
            }
            if frame.is_over() {
                return;
            }
        }
        if frames.changed().await.is_err() {
            return;
        }
    }
}

pub(super) fn heading(frame: &Frame, arm: &Arm) -> String {
    format!(
        "\n== {} (policy {}, seed {}): {:.0} orders a second, payments can do {:.0}\n   {} from second {:.0} to {:.0}",
        arm.title,
        arm.digest.chars().take(12).collect::<String>(),
        frame.seed,
        frame.offered,
        frame.capacity,
        frame.fault,
        frame.fault_from,
        frame.fault_until,
    )
}

/// The columns of [`line`].
const HEAD: &str =
    "  time  state    orders/s  paid/s  attempts/s  amplif.  waiting  breaker    guard      a retry adds";

fn line(arm: &Arm) -> String {
    let Some(point) = arm.points.last() else {
        return String::new();
    };
    let edge = arm.edges.iter().find(|edge| edge.to == Name::Payments.as_str());
    // A part that is not there has no state.
    let state = |state: Option<&'static str>| state.unwrap_or("none");
    let gain = edge.and_then(|edge| edge.gain);
    let line = format!(
        "{:4.1} s  {:7}  {:8.0}  {:6.0}  {:10.0}  {:7.1}  {:7}  {:9}  {:9}  {}",
        point.at,
        words(arm.phase),
        point.calls,
        point.paid,
        point.attempts,
        point.amplification,
        point.waiting,
        state(edge.and_then(|edge| edge.breaker)),
        state(edge.and_then(|edge| edge.guard)),
        gain.map_or_else(String::new, |(value, error)| format!("{value:.2} ± {error:.2}")),
    );
    line.trim_end().to_owned()
}

/// A phase in a word.
pub(super) const fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Calm => "calm",
        Phase::Broken => "BROKEN",
        Phase::After => "after",
        Phase::Done => "over",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{EdgeFrame, frame::Point};

    /// The first run has neither breaker nor guard, and a line must not claim that they are at rest.
    #[test]
    fn a_part_that_is_not_there_has_no_state() {
        let edge = |breaker, guard, gain| EdgeFrame {
            from: "orders",
            to: "payments",
            calls: 0.0,
            attempts: 0.0,
            failing: 0.0,
            breaker,
            guard,
            gain,
        };
        let mut arm = Arm {
            points: vec![Point::default()],
            edges: vec![edge(None, None, None)],
            ..Arm::default()
        };
        assert!(line(&arm).ends_with("none       none"), "{}", line(&arm));
        arm.edges = vec![edge(Some("open"), Some("limited"), Some((0.784, 0.061)))];
        assert!(
            line(&arm).ends_with("open       limited    0.78 ± 0.06"),
            "{}",
            line(&arm)
        );
        for text in [&line(&arm), HEAD] {
            assert!(text.chars().count() <= 100, "{text}");
        }
        let place = |text: &str, word: &str| text.find(word).expect("a column");
        assert_eq!(place(&line(&arm), "limited"), place(HEAD, "guard"));
    }
}
