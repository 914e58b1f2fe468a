//! The public contest of backoffs.

use retryguard_sim::{
    contest::{REPORTED, contestants, rounds},
    streams::Seed,
};

/// Writes agree with the reported means to their confidence. Times do too, but for one: the reported
/// decorrelated backoff clips each draw at the cap, ours draws below it, and with a hundred clients the cap
/// is where most draws are.
#[test]
fn the_contest_comes_out_as_reported() {
    let contestants = contestants();
    for &(clients, name, writes, millis) in REPORTED {
        let (_, backoff) = contestants.iter().find(|(known, _)| *known == name).unwrap();
        let (found_writes, found_millis) = rounds(clients, backoff.as_ref(), Seed(1), 100);
        // The report is a mean of a hundred runs as well, so its own error stands beside ours.
        let apart = |found: f64, half: f64, reported: f64| (found - reported).abs() / (half * 2.0_f64.sqrt());
        let writes_apart = apart(found_writes.mean, found_writes.half_width.unwrap(), writes);
        assert!(
            writes_apart < 1.6,
            "{clients} {name}: {found_writes:?} for {writes}"
        );
        let millis_apart = apart(found_millis.mean, found_millis.half_width.unwrap(), millis);
        let clipped = name == "decorrelated" && clients == 100;
        assert!(
            millis_apart < if clipped { 3.0 } else { 2.0 },
            "{clients} {name}: {found_millis:?} for {millis}"
        );
    }
}
