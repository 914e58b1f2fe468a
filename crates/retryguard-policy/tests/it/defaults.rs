//! The safe defaults.

use std::time::Duration;

use retryguard_core::{
    Criticality, Ratio,
    backoff::Jitter,
    breaker::{Trip, WhenDown},
    budget::{self, Reserve},
    bulkhead::Limit,
    guard::Mode,
};
use retryguard_policy::{Policy, Trust};

#[test]
fn an_empty_file_is_the_safe_policy() {
    let safe = Policy::default();
    for text in ["", "# nothing\n", "{}", "defaults:\nservices:\n"] {
        assert_eq!(Policy::parse(text).unwrap().digest(), safe.digest(), "{text:?}");
    }
    let service = safe.service("any");
    let target = &service.target;
    assert_eq!(target.call.retries, 10, "for retries that are known to help");
    assert_eq!(target.call.backoff.jitter, Jitter::Full);
    assert_eq!(
        target.budget,
        Some(budget::Settings::Ratio {
            ratio: Ratio::percent(20),
            window: Duration::from_secs(10),
            reserve: Reserve {
                per_second: Ratio::percent(10),
                most: 1
            },
        })
    );
    let guard = target.guard.expect("the guard is on");
    assert!(matches!(guard.mode, Mode::Response(rules) if rules.limited_retries == 2));
    let breaker = target.breaker.expect("the breaker is on");
    assert_eq!(breaker.trip, Trip::Silence(10));
    assert!(matches!(breaker.when_down, WhenDown::Wait { most: 1000 }));
    let bulkhead = target.bulkhead.expect("the bulkhead is on");
    assert!(matches!(bulkhead.limit, Limit::Adaptive(_)));
    assert_eq!(
        target.endpoints,
        Some(retryguard_core::endpoints::Settings::default())
    );
    assert!(!target.call.retry_retried);
    assert!(target.throttle.is_none() && target.hedge.is_none());
    assert_eq!(service.criticality, Criticality::Critical);
    assert_eq!(service.replay_limit, 64 * 1024);
    assert_eq!(safe.remote_period(), Duration::from_secs(60));
    assert!(!safe.gateway_retries());
}

/// Files that were written before the guard measured keep their meaning.
#[test]
fn keys_of_a_mode_choose_it() {
    let target = |keys: &str| {
        let text = format!("services: {{a: {{ {keys} }}}}");
        Policy::parse(&text).unwrap().service("a").target.clone()
    };
    let old = target("guard: {offAbove: 30%}, breaker: {ratio: 60%}, bulkhead: {limit: 7}, maxRetries: 3");
    assert!(matches!(old.guard.unwrap().mode, Mode::Hysteresis(_)));
    assert!(matches!(old.breaker.unwrap().trip, Trip::Rate { .. }));
    assert_eq!(old.breaker.unwrap().when_down, WhenDown::Fail);
    assert_eq!(old.bulkhead.unwrap().limit, Limit::Fixed(7));
    assert_eq!(old.call.retries, 3);
    assert_eq!(
        target("guard: {offAbove: 30%}").call.retries,
        2,
        "nothing measures"
    );
    let bare = target("guard: off");
    assert_eq!(bare.call.retries, 2);
    assert!(bare.bulkhead.is_none() && matches!(bare.breaker.unwrap().trip, Trip::Rate { .. }));
    assert_eq!(target("maxRetries: 3").call.retries, 3, "a hard limit");
    assert!(target("bulkhead: off").bulkhead.is_none());
    let slow = |keys: &str| match target(keys).breaker.unwrap().trip {
        Trip::Rate { slow, .. } => slow.map(|slow| (slow.above, slow.ratio)),
        other => panic!("{keys}: {other:?}"),
    };
    assert_eq!(
        slow("breaker: {slowCall: 2s}"),
        Some((Duration::from_secs(2), Ratio::percent(80)))
    );
    assert_eq!(
        slow("breaker: {slowCall: 300ms, slowCallRatio: 50%}"),
        Some((Duration::from_millis(300), Ratio::percent(50)))
    );
    assert_eq!(slow("breaker: {slowCall: off}"), None);
    assert_eq!(slow("breaker: {ratio: 50%}"), None);
    let failing = target("breaker: {whenDown: fail, failures: 20}").breaker.unwrap();
    assert_eq!(
        (failing.trip, failing.when_down),
        (Trip::Silence(20), WhenDown::Fail)
    );
    for (keys, message) in [
        ("guard: {price: 20%, coolDown: 5s}", "price"),
        ("guard: {mode: response, samples: 5}", "samples"),
        ("breaker: {trip: rate, whenDown: wait}", "whenDown"),
        ("breaker: {whenDown: fail, waiting: 5}", "waiting"),
        ("bulkhead: {form: fixed, late: 50%}", "late"),
        ("bulkhead: {form: adaptive, limit: 5}", "limit"),
    ] {
        let mistakes = Policy::parse(&format!("defaults: {{ {keys} }}"))
            .unwrap_err()
            .to_string();
        assert!(
            mistakes.contains(message) && mistakes.contains("means nothing"),
            "{keys}: {mistakes}"
        );
    }
}

#[test]
fn a_pause_of_a_body_is_bounded_by_what_bounds_its_head() {
    let of = |keys: &str| {
        let text = format!("services: {{a: {{ {keys} }}}}");
        Policy::parse(&text).unwrap().service("a").body_timeout
    };
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(of(""), seconds(10));
    assert_eq!(of("deadline: 3s"), seconds(3));
    assert_eq!(of("deadline: 3s, attemptTimeout: 1s"), seconds(1));
    assert_eq!(of("deadline: 3s, bodyTimeout: 30s"), seconds(30));
    assert_eq!(of("deadline: off"), None);
    assert_eq!(of("bodyTimeout: off"), None);
}

#[test]
fn a_server_is_modest_and_answers_probes() {
    let safe = Policy::default().service("any");
    assert_eq!(safe.server_trust, Trust::Modest);
    assert!(safe.server_holds_bodies && safe.tags);
    assert_eq!(
        safe.server_full_timeout, safe.target.call.deadline,
        "no caller waits longer"
    );
    assert!(safe.server_exempt.iter().any(|path| path == "/healthz"));
    let wrong = [
        "server: {exempt: [healthz]}",
        "server: {exempt: ['/a?b']}",
        "server: {trust: all}",
        "server: {fullTimeout: 0ms}",
        "server: {fullTimeout: 25h}",
    ];
    for keys in wrong {
        assert!(
            Policy::parse(&format!("defaults: {{ {keys} }}")).is_err(),
            "{keys}"
        );
    }
}

/// A payment made twice is worse than one that failed.
#[test]
fn only_idempotent_methods_are_sent_twice() {
    let idempotency = Policy::default().service("any").idempotency.clone();
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"] {
        assert!(idempotency.covers(method), "{method}");
    }
    for method in ["POST", "PATCH", "get", ""] {
        assert!(!idempotency.covers(method), "{method}");
    }
    assert_eq!(idempotency.key_header, "idempotency-key");
    assert!(!idempotency.add_keys);
}

#[test]
fn the_digest_knows_meaning_and_not_layout() {
    let digest = |text: &str| Policy::parse(text).unwrap().digest().to_owned();
    let plain = digest("defaults:\n  maxRetries: 1\n  deadline: 2s\nservices: {a: {}, b: {}}\n");
    let other = "# a comment\nservices:\n  b:\n  a:\ndefaults: {deadline: 2000ms, maxRetries: 1}\n";
    assert_eq!(plain, digest(other));
    assert_eq!(plain.len(), 32);
    assert!(plain.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let changes = [
        "defaults: {maxRetries: 1, deadline: 2s}",
        "defaults: {maxRetries: 0, deadline: 2s}\nservices: {a: {}, b: {}}",
        "defaults: {maxRetries: 1, deadline: 2s}\nservices: {a: {}, b: {}}\ngatewayRetries: true",
        "defaults: {maxRetries: 1, deadline: 2s}\nservices: {a: {}, b: {quota: [429]}}",
        "defaults: {maxRetries: 1, deadline: 2s}\nservices: {a: {}, b: {calls: [a]}}",
        "defaults: {maxRetries: 1, deadline: 2s}\nservices: {a: {}, b: {tags: false}}",
        "defaults: {maxRetries: 1, deadline: 2s}\nservices: {a: {}, b: {bodyTimeout: 1s}}",
        "defaults: {maxRetries: 1, deadline: 2s}\nservices: {a: {}, b: {bodyTimeout: off}}",
        "defaults: {maxRetries: 1, deadline: 2s}\nservices: {a: {}, b: {server: {trust: edge}}}",
        "defaults: {maxRetries: 1, deadline: 2s}\nservices: {a: {}, b: {server: {trust: internal}}}",
        "defaults: {maxRetries: 1, deadline: 2s}\nservices: {a: {}, b: {server: {holdBodies: false}}}",
        "defaults: {maxRetries: 1, deadline: 2s}\nservices: {a: {}, b: {server: {exempt: []}}}",
    ];
    let mut seen = vec![plain];
    for text in changes {
        let digest = digest(text);
        assert!(!seen.contains(&digest), "{text}");
        seen.push(digest);
    }
}
