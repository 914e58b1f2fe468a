//! The public contest of backoffs.

use retryguard_sim::{
    contest::{REPORTED, contestants, rounds},
    statistics::Estimate,
    streams::Seed,
};

/// Writes and times agree with the reported means to their confidence. The report is a mean of a hundred runs as
/// well, so its own error stands beside ours; of thirty numbers one or two may lie outside 95 %, and none far.
#[test]
fn the_contest_comes_out_as_reported() {
    let contestants = contestants();
    let mut outside = 0;
    for &(clients, name, writes, millis) in REPORTED {
        let (_, backoff) = contestants.iter().find(|(known, _)| *known == name).unwrap();
        let found = rounds(clients, backoff.as_ref(), Seed(1), 100);
        for (found, reported) in [(found.0, writes), (found.1, millis)] {
            let apart = apart(found, reported);
            assert!(apart < 1.6, "{clients} {name}: {found:?} for {reported}");
            outside += u32::from(apart > 1.0);
        }
    }
    assert!(outside <= 3, "{outside} of 30 lie outside their confidence");
}

/// The distance in half widths of the 95 % interval of a difference.
fn apart(found: Estimate, reported: f64) -> f64 {
    (found.mean - reported).abs() / (found.half_width.expect("a hundred runs") * 2.0_f64.sqrt())
}
