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
                    println!("{}", heading(&frame, arm));
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
        "\n== {} (policy {}, seed {}): {:.0} orders a second, payments can do {:.0}; {} from second {:.0} to {:.0}",
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

fn line(arm: &Arm) -> String {
    let Some(point) = arm.points.last() else {
        return String::new();
    };
    let edge = arm.edges.iter().find(|edge| edge.to == Name::Payments.as_str());
    let state = |name: &str, state: Option<&'static str>| {
        state.map_or_else(|| format!("no {name}"), |state| format!("{name} {state}"))
    };
    format!(
        "{:5.1} s  {:9}  orders {:4.0}/s  paid {:4.0}/s  attempts at payments {:4.0}/s  amplification {:4.1}  waiting {:3}  {}  {}{}",
        point.at,
        words(arm.phase),
        point.calls,
        point.paid,
        point.attempts,
        point.amplification,
        point.waiting,
        state("breaker", edge.and_then(|edge| edge.breaker)),
        state("guard", edge.and_then(|edge| edge.guard)),
        edge.and_then(|edge| edge.gain).map_or_else(String::new, gain),
    )
}

/// What a retry adds, in words.
pub(super) fn gain((value, error): (f64, f64)) -> String {
    format!("  a retry adds {value:.2} ± {error:.2}")
}

/// A phase in a word.
pub(super) const fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Calm => "calm",
        Phase::Broken => "BROKEN",
        Phase::After => "mended",
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
        assert!(line(&arm).ends_with("no breaker  no guard"), "{}", line(&arm));
        arm.edges = vec![edge(Some("open"), Some("limited"), Some((0.784, 0.061)))];
        assert!(
            line(&arm).ends_with("breaker open  guard limited  a retry adds 0.78 ± 0.06"),
            "{}",
            line(&arm)
        );
    }
}
