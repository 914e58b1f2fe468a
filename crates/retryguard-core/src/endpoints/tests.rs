//! Scripts of one machine: each rule, and each bound at its limit.

use super::*;
use crate::{
    chance::{Highest, Lowest},
    outcome::{Failure, Hints},
};

const FAULT: Outcome = Outcome::Failure(Failure::new(FailureKind::Fault));

fn rules() -> rules::Settings {
    rules::Settings::default()
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// A machine with so many endpoints, numbered from zero.
fn with(count: u64) -> Endpoints {
    let mut endpoints = Endpoints::new(Some(Settings::default()));
    for number in 0..count {
        assert_eq!(endpoints.add(), Some(Id(number)));
    }
    endpoints
}

/// One attempt to exactly this endpoint: all others count as tried.
fn one(endpoints: &mut Endpoints, to: u64, outcome: &Outcome, now: Instant) {
    let others: Vec<Id> = (0..endpoints.next).filter(|id| *id != to).map(Id).collect();
    let selection = Selection {
        tried: &others,
        repeatable: true,
    };
    let sent = endpoints.choose(selection, now, &mut Lowest).unwrap();
    assert_eq!(sent.endpoint(), Id(to));
    endpoints.on_end(sent, outcome, &rules(), now);
}

fn successes(endpoints: &mut Endpoints, to: impl IntoIterator<Item = u64>, count: usize, now: Instant) {
    for endpoint in to {
        (0..count).for_each(|_| one(endpoints, endpoint, &Outcome::Success, now));
    }
}

fn fails_until_out(endpoints: &mut Endpoints, to: u64, now: Instant) -> usize {
    for failures in 1..=100 {
        one(endpoints, to, &FAULT, now);
        if endpoints.state(to, now) != State::In {
            return failures;
        }
    }
    100
}

impl Endpoints {
    fn state(&self, id: u64, now: Instant) -> State {
        let mut all = self.status(now);
        all.find(|status| status.endpoint == Id(id)).unwrap().state
    }
}

/// The first attempt of a call that can be repeated.
fn first(endpoints: &mut Endpoints, now: Instant) -> Sent {
    let selection = Selection {
        repeatable: true,
        ..Selection::default()
    };
    endpoints.choose(selection, now, &mut Lowest).unwrap()
}

#[test]
fn without_an_endpoint_there_is_no_choice() {
    let mut endpoints = with(0);
    assert!(
        endpoints
            .choose(Selection::default(), at(0), &mut Lowest)
            .is_none()
    );
    assert!(endpoints.is_empty());
}

#[test]
fn a_single_endpoint_is_used_whatever_it_answers() {
    let mut endpoints = with(1);
    assert_eq!(fails_until_out(&mut endpoints, 0, at(0)), 100);
    let tried = [Id(0)];
    let selection = Selection {
        tried: &tried,
        repeatable: false,
    };
    let sent = endpoints.choose(selection, at(0), &mut Highest).unwrap();
    assert_eq!(sent.endpoint(), Id(0), "nothing else is left");
    endpoints.on_abandon(sent);
}

#[test]
fn the_less_busy_of_two_is_taken() {
    let mut endpoints = with(3);
    // The lowest draws compare 0 with 1, the highest 2 with 1.
    let low = endpoints
        .choose(Selection::default(), at(0), &mut Lowest)
        .unwrap();
    assert_eq!(low.endpoint(), Id(0));
    let next = endpoints
        .choose(Selection::default(), at(0), &mut Lowest)
        .unwrap();
    assert_eq!(next.endpoint(), Id(1));
    let high = endpoints
        .choose(Selection::default(), at(0), &mut Highest)
        .unwrap();
    assert_eq!(high.endpoint(), Id(2));
    endpoints.on_abandon(low);
    let again = endpoints
        .choose(Selection::default(), at(0), &mut Lowest)
        .unwrap();
    assert_eq!(
        again.endpoint(),
        Id(0),
        "an abandoned attempt is no longer under way"
    );
    for sent in [next, high, again] {
        endpoints.on_abandon(sent);
    }
    assert!(endpoints.status(at(0)).all(|status| status.under_way == 0));
}

#[test]
fn a_retry_goes_to_an_endpoint_that_was_not_tried_as_long_as_there_is_one() {
    let mut endpoints = with(3);
    let mut tried = Vec::new();
    for _ in 0..3 {
        let selection = Selection {
            tried: &tried,
            repeatable: true,
        };
        let sent = endpoints.choose(selection, at(0), &mut Highest).unwrap();
        assert!(!tried.contains(&sent.endpoint()));
        tried.push(sent.endpoint());
        endpoints.on_end(sent, &FAULT, &rules(), at(0));
    }
    let selection = Selection {
        tried: &tried,
        repeatable: true,
    };
    assert!(
        endpoints.choose(selection, at(0), &mut Lowest).is_some(),
        "all were tried"
    );
}

#[test]
fn five_failures_in_a_row_while_the_others_succeed() {
    let mut endpoints = with(3);
    successes(&mut endpoints, [1, 2], 32, at(0));
    assert_eq!(fails_until_out(&mut endpoints, 0, at(0)), 5);
    let change = endpoints.changes().pop().unwrap();
    assert_eq!(
        (change.endpoint, change.out_for, change.reason),
        (Id(0), Some(Duration::from_secs(3)), Reason::InARow)
    );
    assert_eq!(endpoints.state(0, at(2999)), State::Out { until: at(3000) });
    assert_eq!(endpoints.state(0, at(3000)), State::Trial);
}

#[test]
fn a_row_that_chance_alone_makes_is_no_reason() {
    let mut endpoints = with(3);
    // A quarter of all attempts of the peers fails: nine in a row are needed, not five.
    for turn in 0..64 {
        let outcome = if turn % 4 == 0 { FAULT } else { Outcome::Success };
        one(&mut endpoints, 1, &outcome, at(0));
        one(&mut endpoints, 2, &outcome, at(0));
    }
    let needed = fails_until_out(&mut endpoints, 0, at(0));
    assert!((8..=10).contains(&needed), "{needed}");
}

#[test]
fn a_share_of_failures_far_above_that_of_the_peers() {
    let mut endpoints = with(3);
    successes(&mut endpoints, [1, 2], 32, at(0));
    // Every second attempt fails, so never two in a row.
    for turn in 1..=9 {
        let outcome = if turn % 2 == 0 { FAULT } else { Outcome::Success };
        one(&mut endpoints, 0, &outcome, at(0));
    }
    assert_eq!(endpoints.state(0, at(0)), State::In, "nine attempts are too few");
    one(&mut endpoints, 0, &FAULT, at(0));
    assert!(matches!(endpoints.state(0, at(0)), State::Out { .. }));
    assert_eq!(endpoints.changes()[0].reason, Reason::FailureShare);
}

#[test]
fn an_endpoint_that_fails_seldom_stays() {
    let mut endpoints = with(3);
    successes(&mut endpoints, [1, 2], 100, at(0));
    for turn in 0..200 {
        let outcome = if turn % 8 == 7 { FAULT } else { Outcome::Success };
        one(&mut endpoints, 0, &outcome, at(0));
    }
    assert_eq!(endpoints.state(0, at(0)), State::In);
}

#[test]
fn where_all_fail_all_stay() {
    let mut endpoints = with(4);
    for _ in 0..200 {
        for endpoint in 0..4 {
            one(&mut endpoints, endpoint, &FAULT, at(0));
        }
    }
    assert_eq!(endpoints.left_out(), 0);
    assert!(!endpoints.has_changes());
}

#[test]
fn not_more_than_the_bound_are_out_at_once() {
    for (count, most) in [(2, 1), (3, 1), (4, 2), (5, 2), (10, 5)] {
        let mut endpoints = with(count);
        successes(&mut endpoints, 0..count, 32, at(0));
        for broken in 0..count - 1 {
            for _ in 0..20 {
                if endpoints.state(broken, at(0)) == State::In {
                    one(&mut endpoints, broken, &FAULT, at(0));
                }
                one(&mut endpoints, count - 1, &Outcome::Success, at(0));
            }
        }
        assert_eq!(endpoints.left_out(), most, "of {count}");
        let rest = endpoints.state(count - 1, at(0));
        assert_eq!(rest, State::In, "the good one is used");
    }
}

#[test]
fn if_the_rest_fails_as_well_all_come_back() {
    let mut endpoints = with(3);
    successes(&mut endpoints, [1, 2], 32, at(0));
    fails_until_out(&mut endpoints, 0, at(0));
    endpoints.changes();
    for _ in 0..22 {
        one(&mut endpoints, 1, &FAULT, at(100));
    }
    assert_eq!(endpoints.left_out(), 1, "one of the rest still serves");
    for _ in 0..23 {
        one(&mut endpoints, 2, &FAULT, at(100));
    }
    assert_eq!(endpoints.left_out(), 0);
    assert_eq!(endpoints.changes()[0].reason, Reason::OthersFail);
}

/// Left out at zero, with its time over at 3 s.
fn with_one_out() -> Endpoints {
    let mut endpoints = with(3);
    successes(&mut endpoints, [1, 2], 32, at(0));
    fails_until_out(&mut endpoints, 0, at(0));
    endpoints.changes();
    endpoints
}

#[test]
fn single_attempts_try_it_and_two_successes_bring_it_back() {
    let mut endpoints = with_one_out();
    let sent = first(&mut endpoints, at(2999));
    assert_ne!(sent.endpoint(), Id(0), "too early");
    endpoints.on_end(sent, &Outcome::Success, &rules(), at(2999));
    let trial = first(&mut endpoints, at(3000));
    assert_eq!(trial.endpoint(), Id(0));
    let beside = first(&mut endpoints, at(3000));
    assert_ne!(beside.endpoint(), Id(0), "one at a time");
    endpoints.on_end(beside, &Outcome::Success, &rules(), at(3001));
    endpoints.on_end(trial, &Outcome::Success, &rules(), at(3001));
    assert_eq!(endpoints.state(0, at(3001)), State::Trial);
    let trial = first(&mut endpoints, at(3002));
    assert_eq!(trial.endpoint(), Id(0));
    endpoints.on_end(trial, &Outcome::Success, &rules(), at(3003));
    assert_eq!(endpoints.state(0, at(3003)), State::In);
    assert_eq!(endpoints.changes()[0].reason, Reason::TrialsSucceeded);
}

#[test]
fn each_failed_trial_doubles_the_time_up_to_the_limit() {
    let mut endpoints = with_one_out();
    let mut now = at(3000);
    for seconds in [6, 12, 24, 30, 30] {
        let trial = first(&mut endpoints, now);
        assert_eq!(trial.endpoint(), Id(0));
        endpoints.on_end(trial, &FAULT, &rules(), now);
        let change = endpoints.changes().pop().unwrap();
        assert_eq!(change.out_for, Some(Duration::from_secs(seconds)));
        assert_eq!(change.reason, Reason::TrialFailed);
        now = now.after(Duration::from_secs(seconds));
    }
}

#[test]
fn an_endpoint_that_was_well_for_long_begins_with_the_short_time_again() {
    for (well, seconds) in [(29_999, 6), (30_000, 3)] {
        let mut endpoints = with_one_out();
        for _ in 0..TRIALS {
            let trial = first(&mut endpoints, at(3000));
            endpoints.on_end(trial, &Outcome::Success, &rules(), at(3000));
        }
        endpoints.changes();
        fails_until_out(&mut endpoints, 0, at(3000 + well));
        let change = endpoints.changes().pop().unwrap();
        assert_eq!(change.out_for, Some(Duration::from_secs(seconds)));
    }
}

#[test]
fn calls_that_cannot_be_repeated_are_used_for_trials_only_if_no_others_come() {
    let mut endpoints = with_one_out();
    for (now, to) in [(3000, false), (5999, false), (6000, true)] {
        let sent = endpoints
            .choose(Selection::default(), at(now), &mut Lowest)
            .unwrap();
        assert_eq!(sent.endpoint() == Id(0), to, "{now}");
        endpoints.on_abandon(sent);
    }
    let sent = endpoints
        .choose(Selection::default(), at(6000), &mut Lowest)
        .unwrap();
    assert_eq!(sent.endpoint(), Id(0), "an abandoned trial is tried again");
    endpoints.on_abandon(sent);
    let tried = [Id(1)];
    let retry = Selection {
        tried: &tried,
        repeatable: true,
    };
    let sent = endpoints.choose(retry, at(6000), &mut Lowest).unwrap();
    assert_eq!(sent.endpoint(), Id(2), "a retry is not a trial");
    endpoints.on_abandon(sent);
}

/// A late result must neither end a trial nor bring an endpoint back.
#[test]
fn results_of_attempts_from_before_it_was_left_out_do_not_count() {
    let mut endpoints = with(3);
    successes(&mut endpoints, [1, 2], 32, at(0));
    let others = [Id(1), Id(2)];
    let selection = Selection {
        tried: &others,
        repeatable: true,
    };
    let late: Vec<Sent> = (0..4)
        .map(|_| endpoints.choose(selection, at(0), &mut Lowest).unwrap())
        .collect();
    fails_until_out(&mut endpoints, 0, at(0));
    for sent in late {
        endpoints.on_end(sent, &Outcome::Success, &rules(), at(10));
    }
    assert_eq!(endpoints.state(0, at(10)), State::Out { until: at(3000) });
    assert!(endpoints.status(at(10)).all(|status| status.under_way == 0));
}

#[test]
fn what_speaks_of_the_request_or_of_one_caller_does_not_count() {
    let own = Hints {
        caller_only: true,
        ..Hints::NONE
    };
    let harmless = [
        Failure::new(FailureKind::Request),
        Failure::new(FailureKind::Quota),
        Failure::new(FailureKind::Cancelled),
        Failure::new(FailureKind::Overload).with_hints(own),
        // A timeout after no time at all.
        Failure::new(FailureKind::Timeout),
    ];
    for failure in harmless {
        let mut endpoints = with(3);
        successes(&mut endpoints, [1, 2], 32, at(0));
        for _ in 0..50 {
            one(&mut endpoints, 0, &Outcome::Failure(failure), at(0));
        }
        assert_eq!(endpoints.state(0, at(0)), State::In, "{}", failure.kind);
    }
}

#[test]
fn silence_counts_if_it_lasted_much_longer_than_answers_do() {
    for (given, counts) in [(199, false), (201, true)] {
        let mut endpoints = with(3);
        let mut now = 0;
        for turn in 0..64 {
            let others = [Id(0), Id(1 + turn % 2)];
            let selection = Selection {
                tried: &others,
                repeatable: true,
            };
            let sent = endpoints.choose(selection, at(now), &mut Lowest).unwrap();
            now += 50;
            endpoints.on_end(sent, &Outcome::Success, &rules(), at(now));
        }
        // Fewer than the timeouts in a row after which a silent target is noticed in any case.
        for _ in 0..7 {
            let others = [Id(1), Id(2)];
            let selection = Selection {
                tried: &others,
                repeatable: true,
            };
            let sent = endpoints.choose(selection, at(now), &mut Lowest).unwrap();
            if sent.endpoint() != Id(0) {
                endpoints.on_abandon(sent);
                break;
            }
            now += given;
            endpoints.on_given_up(sent, &rules(), at(now));
        }
        assert_eq!(endpoints.state(0, at(now)) != State::In, counts, "{given} ms");
    }
}

#[test]
fn endpoints_come_and_go_while_attempts_are_under_way() {
    let mut endpoints = with_one_out();
    let sent = first(&mut endpoints, at(0));
    let gone = sent.endpoint();
    endpoints.remove(gone);
    endpoints.on_end(sent, &FAULT, &rules(), at(1));
    assert_eq!(endpoints.len(), 2);
    assert_eq!(endpoints.left_out(), 1, "one of two may be out");
    let new = endpoints.add().unwrap();
    assert_eq!(new, Id(3), "no number is given twice");
    endpoints.remove(new);
    endpoints.remove(new);
    let rest = first(&mut endpoints, at(1));
    let last = rest.endpoint();
    endpoints.remove(last);
    endpoints.on_given_up(rest, &rules(), at(100));
    assert_eq!(endpoints.left_out(), 0, "the last one is in");
    assert_eq!(endpoints.changes()[0].reason, Reason::Bound);
    endpoints.remove(Id(0));
    assert!(
        endpoints
            .choose(Selection::default(), at(1), &mut Lowest)
            .is_none()
    );
}

#[test]
fn removing_endpoints_brings_back_the_one_whose_time_is_over_first() {
    let mut endpoints = with(4);
    successes(&mut endpoints, 0..4, 32, at(0));
    fails_until_out(&mut endpoints, 0, at(0));
    fails_until_out(&mut endpoints, 1, at(100));
    assert_eq!(endpoints.left_out(), 2);
    endpoints.remove(Id(2));
    assert_eq!(endpoints.state(0, at(100)), State::In);
    assert!(matches!(endpoints.state(1, at(100)), State::Out { .. }));
}

#[test]
fn there_is_room_for_so_many_and_not_for_one_more() {
    let mut endpoints = with(Endpoints::MOST as u64);
    assert_eq!(endpoints.add(), None);
    endpoints.remove(Id(7));
    assert!(endpoints.add().is_some());
    assert_eq!(endpoints.add(), None);
}

#[test]
fn a_policy_without_the_section_brings_all_back_and_leaves_none_out() {
    let mut endpoints = with_one_out();
    endpoints.replace(None);
    assert_eq!(endpoints.left_out(), 0);
    assert_eq!(endpoints.changes()[0].reason, Reason::Replaced);
    assert_eq!(fails_until_out(&mut endpoints, 0, at(0)), 100);
    let none = Settings {
        most_out: Ratio::ZERO,
        ..Settings::default()
    };
    let mut endpoints = with_one_out();
    endpoints.replace(Some(none));
    assert_eq!(endpoints.left_out(), 0, "the new bound holds at once");
}

#[test]
fn changes_that_are_not_taken_are_bounded() {
    let mut endpoints = with_one_out();
    let mut now = at(3000);
    for _ in 0..2 * Endpoints::MOST_CHANGES {
        let trial = first(&mut endpoints, now);
        endpoints.on_end(trial, &FAULT, &rules(), now);
        now = now.after(Duration::from_secs(30));
    }
    assert_eq!(endpoints.changes().len(), Endpoints::MOST_CHANGES);
}
