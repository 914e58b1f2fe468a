use super::*;

fn tally(counts: &[(Role, f64)]) -> Tally {
    let mut tally = Tally {
        counts_rejections: true,
        ..Tally::default()
    };
    for (role, count) in counts {
        tally.add(*role, None, *count);
    }
    tally
}

/// Six attempts a call, all rejected: half of nothing would be hidden if retries diluted the share.
#[test]
fn the_share_of_rejected_attempts_is_kept_for_calls() {
    let counts = [
        (Role::Attempts, 600.0),
        (Role::Retries, 500.0),
        (Role::Rejected, 300.0),
    ];
    let found = tally(&counts).counts(1.0, Ratio::percent(95)).unwrap();
    assert_eq!(
        (found.calls, found.rejected, found.retries),
        (100, Some(50), Some(500))
    );
}

#[test]
fn retries_are_attempts_beyond_calls() {
    let counts = [(Role::Attempts, 150.0), (Role::Calls, 100.0)];
    let found = tally(&counts).counts(1.0, Ratio::percent(95)).unwrap();
    assert_eq!((found.calls, found.retries), (100, Some(50)));
    let fewer = [(Role::Attempts, 90.0), (Role::Calls, 100.0)];
    let found = tally(&fewer).counts(1.0, Ratio::percent(95)).unwrap();
    assert_eq!((found.calls, found.retries), (90, Some(0)));
}

/// A page with more rejections than attempts was taken for a total overload and switched retries off. Such
/// counts are refused; a few more than there can be are the skew of counters that are read while they rise.
#[test]
fn more_rejections_than_attempts_are_not_a_total_overload() {
    let counts = |rejected| {
        let counts = [(Role::Attempts, 100.0), (Role::Rejected, rejected)];
        tally(&counts).counts(1.0, Ratio::percent(95)).unwrap()
    };
    assert!(!counts(150.0).plausible());
    assert!(!counts(104.0).plausible());
    assert_eq!(counts(102.0).rejected, Some(100));
    assert!(counts(102.0).plausible());
    let none = [(Role::Attempts, 0.0), (Role::Rejected, 7.0)];
    assert!(!tally(&none).counts(1.0, Ratio::percent(95)).unwrap().plausible());
}

#[test]
fn what_a_source_does_not_count_is_absent() {
    let found = Tally::default();
    assert_eq!(found.counts(1.0, Ratio::percent(95)), None);
    let mut found = Tally::default();
    found.add(Role::Attempts, None, 5.0);
    let found = found.counts(1.0, Ratio::percent(95)).unwrap();
    let absent = Counts {
        calls: 5,
        ..Counts::default()
    };
    assert_eq!(found, absent);
    let counts = [
        (Role::Attempts, 15.0),
        (Role::Retries, 5.0),
        (Role::RetriesSucceeded, 3.0),
    ];
    let found = tally(&counts).counts(1.0, Ratio::percent(95)).unwrap();
    assert_eq!(found.retries_succeeded, Some(3));
}

/// A slow upstream: more responses end in an interval than attempts begin in it.
#[test]
fn a_share_of_responses_is_taken_of_responses() {
    let counts = [
        (Role::Attempts, 50.0),
        (Role::Answered, 100.0),
        (Role::Rejected, 80.0),
    ];
    let found = tally(&counts).counts(1.0, Ratio::percent(95)).unwrap();
    assert_eq!((found.calls, found.rejected), (50, Some(40)));
}

#[test]
fn lies_leave_the_target_out() {
    for lie in [f64::NAN, f64::INFINITY, -1.0] {
        let counts = [(Role::Attempts, 10.0), (Role::Rejected, lie)];
        assert_eq!(tally(&counts).counts(1.0, Ratio::percent(95)), None);
    }
    assert_eq!(
        tally(&[(Role::Rejected, 1.0)]).counts(1.0, Ratio::percent(95)),
        None
    );
}

#[test]
fn a_quantile_lies_within_its_bucket() {
    let mut tally = tally(&[(Role::Attempts, 100.0)]);
    for (bound, count) in [("+Inf", 100.0), ("100", 50.0), ("200", 100.0)] {
        tally.add(Role::Bucket(Unit::Milliseconds), Some(bound), count);
    }
    let found = tally.counts(1.0, Ratio::percent(75)).unwrap();
    assert_eq!(found.delay, Some(Duration::from_millis(150)));
}

/// The overflow counter is what a held-back retry leaves. A ready question that read it, or a flag, would
/// make the guard its own evidence.
#[test]
fn no_ready_question_reads_held_back_retries() {
    let codes = vec!["503".to_owned()];
    let istio = Preset::Istio {
        service: "a".to_owned(),
        namespace: "b".to_owned(),
        caller: None,
        codes: codes.clone(),
    };
    let envoy = Preset::Envoy {
        cluster: "a".to_owned(),
        codes,
    };
    for preset in [istio, envoy] {
        for term in terms(&preset, true) {
            assert!(!term.metric.contains("overflow"), "{term:?}");
            assert!(
                term.fixed.iter().all(|(label, _)| *label != "response_flags"),
                "{term:?}"
            );
        }
    }
}
