use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

#[test]
fn what_a_client_writes_a_server_reads() {
    let mut map = HeaderMap::new();
    let left = Some(Duration::from_millis(1500));
    let call_left = Some(Duration::from_secs(9));
    let mut read = |call_left| {
        let level = Criticality::SheddablePlus;
        write_attempt(&mut map, true, 3, AttemptKind::Retry, level, left, call_left);
        Received::read(&map)
    };
    let expected = Received {
        criticality: Criticality::SheddablePlus,
        attempt: 3,
        left,
        call_left,
    };
    assert_eq!(read(call_left), expected);
    assert!(expected.again());
    // A request that is passed on may still carry the tag of the one before.
    let call_left = left;
    assert_eq!(
        read(call_left),
        Received {
            call_left,
            ..expected
        }
    );
    assert!(!map.contains_key(CALL_DEADLINE));
}

#[test]
fn tags_and_grpc_are_seen() {
    let of = |name: &'static str, value: &'static str| {
        let seen = Seen::of(&headers(&[(name, value)]));
        (seen.tags, seen.grpc)
    };
    assert_eq!(of("retryguard-attempt", "2"), (true, false));
    assert_eq!(of("grpc-timeout", "1S"), (true, false));
    assert_eq!(of("content-type", "application/grpc+proto"), (false, true));
    assert_eq!(of("content-type", "text/html"), (false, false));
    assert_eq!(of("retry-after", "application/grpc"), (false, false));
}

#[test]
fn what_a_server_takes_for_granted_is_not_written() {
    let write = |tagged, number, kind, level| {
        let mut map = HeaderMap::new();
        write_attempt(&mut map, tagged, number, kind, level, None, None);
        (map.len(), Received::read(&map))
    };
    let first = AttemptKind::First;
    let usual = Criticality::default();
    assert_eq!(write(false, 1, first, usual), (0, Received::default()));
    assert_eq!(write(true, 1, first, usual), (3, Received::default()));
    assert_eq!(write(false, 2, AttemptKind::Retry, usual).1.attempt, 2);
    let (written, read) = write(false, 1, first, Criticality::Sheddable);
    assert_eq!((written, read.criticality), (1, Criticality::Sheddable));
}

#[test]
fn words_are_those_of_the_types() {
    for kind in [AttemptKind::First, AttemptKind::Retry, AttemptKind::Hedge] {
        assert_eq!(kind_value(kind), kind.as_str());
    }
    for level in Criticality::ALL {
        assert_eq!(criticality_value(level), level.as_str());
    }
    for number in [1, 2, 3, 4, 5, 255] {
        assert_eq!(attempt_number(number), number.to_string().as_str());
    }
}

#[test]
fn a_kept_number_is_the_right_one() {
    for left in [0, 1, 4, 8, 9_999, 10_000, 4, 10_000] {
        assert_eq!(millis(Duration::from_millis(left)), left.to_string().as_str());
    }
}

#[test]
fn hostile_tags_are_as_if_they_were_not_there() {
    let map = headers(&[
        ("retryguard-attempt", "-5"),
        ("retryguard-criticality", "godlike"),
        ("retryguard-deadline-ms", "99999999999999999999999999"),
        ("grpc-timeout", "123456789S"),
    ]);
    let expected = Received {
        criticality: Criticality::Critical,
        attempt: 1,
        left: None,
        call_left: None,
    };
    assert_eq!(Received::read(&map), expected);
    assert_eq!(Received::left(&map), None);
}

#[test]
fn the_earlier_of_two_deadlines_counts() {
    let map = headers(&[("retryguard-deadline-ms", "900"), ("grpc-timeout", "1S")]);
    assert_eq!(Received::left(&map), Some(Duration::from_millis(900)));
}

#[test]
fn a_grpc_timeout_is_read_as_it_was_written() {
    let day = Duration::from_secs(86_400);
    for left in [Duration::ZERO, Duration::from_millis(1500), day, day * 300] {
        let written = grpc_timeout_of(left);
        assert_eq!(grpc_timeout(written.to_str().unwrap()), Some(left));
    }
    let written = grpc_timeout_of(Duration::MAX);
    assert_eq!(written, "99999999S");
}

#[test]
fn retry_after_in_every_form() {
    let of = |pairs: &[(&'static str, &'static str)]| read_hints(&headers(pairs)).retry_after;
    assert_eq!(of(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
    assert_eq!(
        of(&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")]),
        Some(Duration::ZERO)
    );
    assert_eq!(of(&[("retry-after", "soon")]), None);
    assert_eq!(
        of(&[("retryguard-retry-after-ms", "1234"), ("retry-after", "2")]),
        Some(Duration::from_millis(1234))
    );
    assert_eq!(
        of(&[("grpc-retry-pushback-ms", "50")]),
        Some(Duration::from_millis(50))
    );
    // 10^20 seconds do not fit into 64 bits; they were read as no wait at all.
    for name in [
        "retry-after",
        "retryguard-retry-after-ms",
        "grpc-retry-pushback-ms",
    ] {
        let wait = of(&[(name, "100000000000000000000")]);
        assert!(wait > Some(Duration::from_secs(86_400 * 365)), "{name}: {wait:?}");
    }
    for word in ["-1", "abc", "", "1.5"] {
        let hints = read_hints(&headers(&[("grpc-retry-pushback-ms", word)]));
        assert!(hints.do_not_retry && hints.caller_only, "{word}");
        assert_eq!(hints.retry_after, None, "{word}");
    }
    let marked = [
        ("grpc-retry-pushback-ms", "-1"),
        ("retryguard-do-not-retry", "overloaded"),
    ];
    assert!(
        !read_hints(&headers(&marked)).caller_only,
        "the mark speaks for the server"
    );
    assert_eq!(
        read_hints(&headers(&[("retryguard-retried", "300")])).retried_below,
        u8::MAX
    );
}
