//! What the runs came to, in one sentence.

use super::{
    acted::Acted,
    frame::{Arm, Frame},
};

/// So many described seconds in a row must be well.
const SUSTAINED: usize = 10;

/// At least this share of the orders placed in them is paid.
const WELL: f64 = 0.95;

/// How long after the end of the fault orders were paid again: the beginning of the first ten described seconds in which at
/// least 95 % of the orders that were placed were paid. In described seconds.
///
/// `seconds` holds the orders placed and paid, `fault_end` the second in which the fault ended.
pub(super) fn recovered(seconds: &[(u64, u64)], fault_end: usize) -> Option<f64> {
    let last = (seconds.len() + 1).saturating_sub(SUSTAINED);
    (fault_end..last)
        .find(|at| {
            let (placed, paid) = seconds[*at..at + SUSTAINED]
                .iter()
                .fold((0, 0), |(placed, paid), second| {
                    (placed + second.0, paid + second.1)
                });
            paid as f64 >= WELL * placed as f64
        })
        .map(|at| (at - fault_end) as f64)
}

/// What saved the orders, or that nothing did. Nothing before all runs are over.
pub(super) fn sentence(frame: &Frame) -> Option<String> {
    if !frame.over {
        return None;
    }
    let (first, best) = (frame.arms.first()?, best(frame)?);
    if best.orders.paid <= first.orders.paid + first.orders.sent / 50 {
        let others: Vec<String> = frame.arms[1..]
            .iter()
            .map(|arm| format!("{} {}", arm.title, arm.orders.paid))
            .collect();
        return Some(format!(
            "Nothing had to be saved: {} paid {} of {} orders, {}.",
            first.title,
            first.orders.paid,
            first.orders.sent,
            others.join(", ")
        ));
    }
    let saved = format!(
        "What saved {} orders under {}: {}.",
        best.orders.paid - first.orders.paid,
        best.title,
        clauses(&best.acted)
    );
    Some(format!(
        "{saved} At most {} requests waited at payments ({} under {}), and orders were paid again {} ({} under {}).",
        best.most_waiting,
        first.most_waiting,
        first.title,
        again(best),
        again(first),
        first.title,
    ))
}

/// The run that paid the most orders; of equals the later one.
fn best(frame: &Frame) -> Option<&Arm> {
    frame.arms.iter().max_by_key(|arm| arm.orders.paid)
}

/// When orders were paid again, in words.
fn again(arm: &Arm) -> String {
    match arm.recovered {
        Some(seconds) if seconds < 0.05 => "at once after the fault".to_owned(),
        Some(seconds) => format!("{seconds:.1} s after the fault"),
        None => "not before the end".to_owned(),
    }
}

/// The two parts that acted most often.
fn clauses(acted: &[Acted]) -> String {
    let mut acted: Vec<&Acted> = acted.iter().collect();
    acted.sort_by_key(|acted| std::cmp::Reverse(acted.count));
    let clauses: Vec<String> = acted
        .iter()
        .take(2)
        .map(|acted| acted.part.clause(acted.count))
        .collect();
    if clauses.is_empty() {
        return "no part had to act".to_owned();
    }
    clauses.join(", and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{demo::acted::Part, load::Live};

    #[test]
    fn recovery_begins_with_the_first_good_second() {
        let seconds = |bad: std::ops::Range<usize>| -> Vec<(u64, u64)> {
            (0..40)
                .map(|second| (4, if bad.contains(&second) { 0 } else { 4 }))
                .collect()
        };
        assert_eq!(recovered(&seconds(10..20), 20), Some(0.0));
        assert_eq!(recovered(&seconds(10..25), 20), Some(5.0));
        assert_eq!(recovered(&seconds(10..40), 20), None);
        assert_eq!(
            recovered(&seconds(10..35), 20),
            None,
            "five seconds are too few to tell"
        );
    }

    #[test]
    fn the_sentence_names_what_acted_most_or_that_nothing_was_lost() {
        let arm = |title: &str, paid, acted| Arm {
            title: title.to_owned(),
            orders: Live {
                sent: 100,
                paid,
                ..Live::default()
            },
            acted,
            ..Arm::default()
        };
        let acted = |part: Part, count| Acted {
            part,
            name: part.name(),
            count,
            spans: vec![(0.0, 1.0)],
        };
        let parts = vec![
            acted(Part::Shedding, 3),
            acted(Part::Gate, 7),
            acted(Part::Budget, 5),
        ];
        let mut frame = Frame {
            arms: vec![arm("retries", 40, vec![]), arm("RetryGuard", 90, parts)],
            ..Frame::default()
        };
        assert_eq!(sentence(&frame), None, "the runs are not over");
        frame.over = true;
        let text = sentence(&frame).unwrap();
        assert!(
            text.starts_with("What saved 50 orders under RetryGuard: clients left out 7 attempts"),
            "{text}"
        );
        assert!(
            text.contains("5 retries") && !text.contains("3 requests"),
            "{text}"
        );
        assert!(text.contains("not before the end under retries"), "{text}");
        frame.arms[1].orders.paid = 41;
        assert_eq!(
            sentence(&frame).unwrap(),
            "Nothing had to be saved: retries paid 40 of 100 orders, RetryGuard 41."
        );
    }
}
