use super::*;
use std::time::Duration;

fn failure(outcome: Outcome) -> Failure {
    *outcome.failure().expect("a failure")
}

fn http(status: u16) -> Failure {
    failure(Classifier::default().http(status, Hints::NONE))
}

fn grpc(code: u8) -> Failure {
    failure(Classifier::default().grpc(code, Hints::NONE))
}

fn with(lists: &Lists<'_>) -> Classifier {
    Classifier::new(Table::new(lists))
}

#[test]
fn below_400_is_success() {
    for status in 100..400 {
        assert!(Classifier::default().http(status, Hints::NONE).is_success());
    }
}

#[test]
fn client_errors_are_never_retried_but_for_load_and_time() {
    for status in (400..500).filter(|status| ![408, 429].contains(status)) {
        let failure = http(status);
        assert_eq!(failure.kind, FailureKind::Request, "{status}");
        assert!(
            !failure.retryable && !failure.rejection && !failure.unhealthy,
            "{status}"
        );
    }
    assert_eq!(http(408).kind, FailureKind::Timeout);
    assert_eq!(http(429).kind, FailureKind::Overload);
}

#[test]
fn server_errors_are_retried_but_for_what_cannot_change() {
    for status in [501, 505, 506, 507, 508, 510, 511] {
        assert!(!http(status).retryable, "{status}");
    }
    for status in [500, 502, 503, 504, 509, 520, 599] {
        assert!(http(status).retryable, "{status}");
    }
}

/// Random faults are what retries are for: a guard that counted them would switch retries off just when
/// they help.
#[test]
fn a_500_speaks_of_the_request_and_a_503_of_load() {
    assert!(!http(500).rejection && http(500).unhealthy);
    for status in [429, 502, 503, 504] {
        assert!(http(status).rejection, "{status}");
    }
    assert!(!grpc(13).rejection);
    assert!(grpc(8).rejection && grpc(14).rejection && grpc(4).rejection);
}

#[test]
fn grpc_codes_have_their_kinds() {
    let expected = [
        (1, FailureKind::Cancelled, false),
        (2, FailureKind::Fault, true),
        (3, FailureKind::Request, false),
        (4, FailureKind::Timeout, true),
        (5, FailureKind::Request, false),
        (7, FailureKind::Request, false),
        (8, FailureKind::Overload, true),
        (10, FailureKind::Fault, true),
        (12, FailureKind::Request, false),
        (13, FailureKind::Fault, true),
        (14, FailureKind::Overload, true),
        (15, FailureKind::Fault, true),
        (16, FailureKind::Request, false),
        (200, FailureKind::Fault, true),
    ];
    for (code, kind, retryable) in expected {
        assert_eq!(
            (grpc(code).kind, grpc(code).retryable),
            (kind, retryable),
            "{code}"
        );
    }
    assert!(!grpc(10).unhealthy, "a lost race comes from a healthy target");
    assert!(Classifier::default().grpc(0, Hints::NONE).is_success());
}

#[test]
fn only_a_failed_connection_was_certainly_never_sent() {
    let classifier = Classifier::default();
    let never_sent = |error| failure(classifier.network(error)).hints.never_sent;
    assert!(never_sent(NetworkError::Connect));
    for error in [
        NetworkError::Reset,
        NetworkError::Timeout,
        NetworkError::Cancelled,
        NetworkError::Other,
    ] {
        assert!(!never_sent(error));
    }
    assert!(!failure(classifier.network(NetworkError::Cancelled)).retryable);
    assert!(failure(classifier.network(NetworkError::Other)).retryable);
}

#[test]
fn hints_travel_and_the_overload_mark_speaks_of_load() {
    let hints = Hints {
        retry_after: Some(Duration::from_secs(3)),
        do_not_retry: true,
        ..Hints::NONE
    };
    let read = failure(Classifier::default().http(500, hints));
    assert_eq!(read.hints, hints);
    assert!(read.rejection);
}

/// One user's 429 with `Retry-After: 30` closed the target for all users, and twenty of them opened its breaker.
#[test]
fn the_limit_of_one_caller_is_not_the_state_of_the_target() {
    let wait = Hints {
        retry_after: Some(Duration::from_secs(30)),
        ..Hints::NONE
    };
    let classifier = Classifier::default();
    for read in [classifier.http(429, wait), classifier.grpc(8, wait)] {
        let read = failure(read);
        assert!(read.hints.caller_only && !read.unhealthy);
        assert!(read.rejection && read.retryable, "it is load all the same");
    }
    let mark = Hints {
        do_not_retry: true,
        ..wait
    };
    for read in [
        classifier.http(429, mark),
        classifier.grpc(8, mark),
        classifier.http(503, wait),
        classifier.grpc(14, wait),
    ] {
        let read = failure(read);
        assert!(!read.hints.caller_only && read.unhealthy);
    }
}

#[test]
fn a_policy_can_say_that_429_is_a_quota() {
    let classifier = with(&Lists {
        quota: &[Signal::Status(429), Signal::Code(8)],
        ..Lists::default()
    });
    for read in [classifier.http(429, Hints::NONE), classifier.grpc(8, Hints::NONE)] {
        let read = failure(read);
        assert_eq!(read.kind, FailureKind::Quota);
        assert!(!read.retryable && !read.rejection && !read.unhealthy);
    }
}

#[test]
fn lists_change_one_reading_each() {
    let classifier = with(&Lists {
        retry_on: &[Signal::Status(409), Signal::Class(5)],
        never_retry_on: &[Signal::Status(503)],
        rejections: &[Signal::Status(500)],
        not_rejections: &[Signal::Kind(5)],
        ..Lists::default()
    });
    let http = |status| failure(classifier.http(status, Hints::NONE));
    assert!(http(409).retryable && !http(409).unhealthy && !http(409).rejection);
    assert!(http(501).retryable);
    assert!(!http(503).retryable && http(503).rejection);
    assert!(http(500).rejection);
    assert!(!failure(classifier.network(NetworkError::Timeout)).rejection);
    assert!(!classifier.timeout().rejection);
    assert!(!failure(classifier.grpc(4, Hints::NONE)).rejection);
}

#[test]
fn every_word_names_a_signal_and_reads_back() {
    for word in Signal::words() {
        let signal = Signal::from_word(word).expect(word);
        assert_eq!(signal.to_string(), word);
    }
    for word in ["OK", "399", "600", "70000", "unavailable", "", "-1", "6xx"] {
        assert_eq!(Signal::from_word(word), None, "{word}");
    }
}

#[test]
fn no_status_or_code_is_out_of_reach() {
    let classifier = Classifier::default();
    for status in 0..=u16::MAX {
        let _ = classifier.http(status, Hints::NONE);
    }
    for code in 0..=u8::MAX {
        let _ = classifier.grpc(code, Hints::NONE);
    }
    assert!(!http(0).retryable && !http(600).retryable);
}
