//! Mistakes: all at once, each with its place and what to do.

use retryguard_policy::{Diagnostics, LARGEST_FILE, Policy};

fn refused(text: &str) -> Diagnostics {
    match Policy::parse(text) {
        Err(mistakes) => mistakes,
        Ok(_) => panic!("{text:?} was taken"),
    }
}

/// The one mistake of a text, with its place.
#[track_caller]
fn one(text: &str) -> String {
    let mistakes = refused(text);
    assert_eq!(mistakes.as_slice().len(), 1, "{mistakes}");
    mistakes.to_string()
}

#[test]
fn every_mistake_is_told_at_once() {
    let text = "defaults:\n  maxRetrys: 3\n  initialDelay: 100\n  jitter: ful\nservices:\n  a:\n    budget:\n      \
                percent: 20\n    breaker: {trip: sometimes}\ngatewayRetries: yes\n";
    let mistakes = refused(text);
    let places: Vec<_> = mistakes
        .as_slice()
        .iter()
        .map(|it| (it.at.line, it.at.column))
        .collect();
    assert_eq!(places, [(2, 3), (3, 17), (4, 11), (8, 16), (9, 21), (10, 17)]);
    let text = mistakes.to_string();
    assert!(
        text.contains("unknown key `maxRetrys` in a service; did you mean `maxRetries`?"),
        "{text}"
    );
    assert!(text.contains("did you mean `full`?"), "{text}");
    assert!(text.contains("such as 20% or 0.2"), "{text}");
}

#[test]
fn an_unknown_key_names_the_nearest_or_all() {
    assert!(one("gatewayretries: true").contains("did you mean `gatewayRetries`?"));
    assert!(one("gateway_retries: true").contains("did you mean `gatewayRetries`?"));
    assert!(one("zzz: 1").contains("known here: defaults, services, gatewayRetries, remotePeriod"));
    assert!(one("defaults: {breaker: {minCalls: 3}}").contains("did you mean `minimumCalls`?"));
}

/// The commonest first file has the keys of a service at the top. It was given the four keys that stand there.
#[test]
fn a_key_at_the_wrong_level_names_its_place() {
    assert!(
        one("maxRetries: 3").contains("write it under `defaults`, or under a service's name in `services`")
    );
    assert!(one("calls: {a: [b]}").contains("a key of a service"));
    assert!(
        one("payments: {maxRetries: 3}")
            .contains("if it is the name of a service, write it under `services`")
    );
    assert!(
        one("services: {a: {defaults: {}}}").contains("it stands at the top of the file, beside `services`")
    );
}

#[test]
fn a_key_stands_once() {
    let text = one("defaults:\n  maxRetries: 1\n  maxRetries: 2\n");
    assert_eq!(
        text,
        "line 3, column 3: `maxRetries` stands here for the second time; keep one of them; the other is on line 2"
    );
    assert!(one("services:\n  a: {}\n  a: {}\n").contains("line 3, column 3"));
}

#[test]
fn values_out_of_range_name_the_range() {
    let cases = [
        ("defaults: {maxRetries: 21}", "from 0 to 20"),
        ("defaults: {maxRetries: -1}", "from 0 to 20"),
        ("defaults: {maxRetries: 1.5}", "from 0 to 20"),
        ("defaults: {maxRetries: \"3\"}", "from 0 to 20"),
        ("defaults: {multiplier: 0.5}", "from 1 to 100"),
        ("defaults: {jitterFactor: 1.5}", "from 0 to 1"),
        ("defaults: {maxDelay: 25h}", "from 0 to 24h"),
        ("defaults: {deadline: 0s}", "or off"),
        ("defaults: {budget: {percent: 2000%}}", "from 0% to 1000%"),
        ("defaults: {breaker: {ratio: 0}}", "from 1% to 100%"),
        ("defaults: {server: {inFlight: 0}}", "from 1 to 1000000"),
        ("defaults: {server: {inFlight: off}}", "or adaptive"),
        ("defaults: {bulkhead: {limit: 0}}", "from 1 to 1000000"),
        ("defaults: {hedge: {most: 4}}", "from 1 to 3"),
        ("defaults: {endpoints: {mostOut: 91%}}", "from 0% to 90%"),
        ("defaults: {replayLimit: 2000MiB}", "up to 1024MiB"),
        ("remotePeriod: 0s", "from 1s to 24h"),
    ];
    for (text, range) in cases {
        let mistake = one(text);
        assert!(mistake.contains(range), "{text}: {mistake}");
    }
}

#[test]
fn keys_that_contradict_each_other_are_told() {
    let cases = [
        (
            "defaults: {initialDelay: 5s, maxDelay: 1s}",
            "`initialDelay` is above `maxDelay`",
        ),
        (
            "defaults: {jitter: full, jitterFactor: 0.5}",
            "two words for one thing",
        ),
        (
            "defaults: {growth: constant, multiplier: 2}",
            "`multiplier` means nothing",
        ),
        (
            "defaults: {leastAttempt: 1m}",
            "no attempt could ever be worth it",
        ),
        (
            "defaults: {attemptTimeout: 1s, leastAttempt: 2s}",
            "above `attemptTimeout`",
        ),
        (
            "defaults: {retryOn: [503], neverRetryOn: [503]}",
            "`503` stands in both",
        ),
        ("defaults: {retryOn: [429], quota: [429]}", "`429` stands in both"),
        (
            "defaults: {budget: {form: adaptive, minPercent: 50%, maxPercent: 10%}}",
            "`minPercent` is above",
        ),
        (
            "defaults: {budget: {form: quota, percent: 20%}}",
            "means nothing with `form: quota`",
        ),
        (
            "defaults: {budget: {capacity: 10}}",
            "means nothing with `form: ratio`",
        ),
        (
            "defaults: {budget: {form: quota, capacity: 3, retryCost: 5}}",
            "could ever be paid",
        ),
        (
            "defaults: {breaker: {openFor: 1m, openForAtMost: 1s}}",
            "`openFor` is above",
        ),
        (
            "defaults: {breaker: {trip: rate, failures: 5}}",
            "means nothing with `trip: rate`",
        ),
        (
            "defaults: {breaker: {trip: count, slowCall: 1s}}",
            "`slowCall` means nothing with `trip: count`",
        ),
        (
            "defaults: {breaker: {trip: silence, slowCallRatio: 50%}}",
            "`slowCallRatio` means nothing with `trip: silence`",
        ),
        (
            "defaults: {breaker: {slowCallRatio: 50%}}",
            "`slowCallRatio` means nothing with `slowCall: off`",
        ),
        (
            "defaults: {breaker: {trip: consecutive, window: 1s}}",
            "means nothing with `trip: consecutive`",
        ),
        (
            "defaults: {guard: {offAbove: 10%, onBelow: 20%}}",
            "`onBelow` is above `offAbove`",
        ),
        (
            "defaults: {guard: {signal: delay}}",
            "`signal: delay` needs `offAbove`",
        ),
        (
            "defaults: {guard: {signal: delay, offAbove: 20%}}",
            "compared with a duration",
        ),
        ("defaults: {guard: {offAbove: 1s}}", "only `signal: delay`"),
        ("gatewayRetries: yes", "`gatewayRetries` is `yes`; write true"),
        ("gatewayRetries: no", "`gatewayRetries` is `no`; write false"),
        ("defaults: {guard: {samples: 17}}", "write at most 16"),
        (
            "defaults: {guard: {mode: algorithm1, rampSteps: 3}}",
            "means nothing with `mode: algorithm1`",
        ),
        (
            "defaults: {bulkhead: {wait: 1s, waiting: 0}}",
            "no call may use the `wait`",
        ),
        (
            "defaults: {bulkhead: {waiting: 5}}",
            "no call can wait for no time",
        ),
        (
            "defaults: {bulkhead: {form: gradient, least: 5, most: 2}}",
            "`least` is above `most`",
        ),
        (
            "defaults: {bulkhead: {form: gradient, initial: 2000}}",
            "write a number from 1 to 1000",
        ),
        ("defaults: {hedge: {after: 1s, atLeast: 1s}}", "means nothing"),
        (
            "defaults: {endpoints: {outFor: 1m, outForAtMost: 30s}}",
            "`outFor` is above `outForAtMost`",
        ),
        (
            "defaults: {server: {inFlight: 5, working: 6}}",
            "`working` is above `inFlight`",
        ),
        ("defaults: {retryOn: [503, 503]}", "listed twice"),
        ("defaults: {retryOn: [UNAVAILBLE]}", "did you mean `UNAVAILABLE`?"),
        ("defaults: {idempotency: {methods: [get]}}", "in capitals"),
    ];
    for (text, expected) in cases {
        let mistake = one(text);
        assert!(mistake.contains(expected), "{text}: {mistake}");
    }
}

#[test]
fn a_mistake_in_the_defaults_is_told_once() {
    one("defaults: {initialDelay: 5s, maxDelay: 1s}\nservices: {a: {}, b: {}}");
}

#[test]
fn what_is_no_policy_at_all_says_so() {
    assert!(one("just text").contains("write a block of keys"));
    assert!(one("[1, 2]").contains("is a list"));
    assert!(one("a: [").contains("not YAML"));
    assert!(one("defaults: {}\n---\ndefaults: {}\n").contains("second document"));
    assert!(
        refused("defaults: &x {}\nservices: {a: *x}")
            .to_string()
            .contains("write the value out")
    );
    assert!(one("gatewayRetries: !!bool true").contains("YAML tag"));
    assert!(one("defaults:\n\tmaxRetries: 1\n").starts_with("line 2"));
}

/// The payload parses; the manifest around it does not, and says which of the two it is.
#[test]
fn a_config_map_is_recognised() {
    let text = one("apiVersion: v1\nkind: ConfigMap\ndata:\n  policy.yaml: |\n    defaults: {}\n");
    assert!(
        text.contains("Kubernetes ConfigMap") && text.contains("under its `data`"),
        "{text}"
    );
}

#[test]
fn size_and_depth_are_bounded() {
    assert!(one(&"#".repeat(LARGEST_FILE + 1)).contains("bytes"));
    assert!(Policy::parse(&"#".repeat(LARGEST_FILE)).is_ok());
    let deep = format!("defaults: {}{}", "[".repeat(100), "]".repeat(100));
    assert!(one(&deep).contains("nested deeper than 16 levels"));
    let many: String = (0..5000).map(|index| format!("k{index}: 1\n")).collect();
    assert_eq!(refused(&many).as_slice().len(), Diagnostics::MOST);
}
