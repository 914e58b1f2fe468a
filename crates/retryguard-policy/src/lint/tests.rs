use super::*;

fn report(text: &str) -> Report {
    lint(text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"))
}

fn codes(text: &str) -> Vec<&'static str> {
    report(text).findings.iter().map(|finding| finding.code).collect()
}

fn finding(text: &str, code: &str) -> Finding {
    let found = report(text).findings;
    let wanted = found.iter().find(|finding| finding.code == code);
    wanted.unwrap_or_else(|| panic!("{code} in {found:#?}")).clone()
}

/// The reference page shows both, so both must be true.
#[test]
fn every_example_has_its_finding_and_every_mend_has_not() {
    for code in CODES {
        assert!(
            codes(code.example).contains(&code.id),
            "{}: {:?}",
            code.id,
            codes(code.example)
        );
        assert!(
            !codes(code.corrected).contains(&code.id),
            "{}: {:?}",
            code.id,
            report(code.corrected)
        );
    }
}

#[test]
fn codes_are_numbered_without_a_gap() {
    for (index, code) in CODES.iter().enumerate() {
        assert_eq!(code.id, format!("RG{:03}", index + 1));
    }
}

/// The safe defaults may be worth a note, and nothing more.
#[test]
fn the_defaults_are_clean() {
    for text in ["", "services: {a: {}, b: {}}", "defaults: {attemptTimeout: 1s}"] {
        let report = report(text);
        assert!(
            report
                .findings
                .iter()
                .all(|finding| finding.severity == Severity::Note),
            "{report:#?}"
        );
        assert_eq!(report.amplification, Some(3));
        assert!(!report.has_errors());
    }
}

#[test]
fn three_layers_of_three_attempts_are_27() {
    let text =
        "services:\n  front: {calls: [orders]}\n  orders:\n    calls: [store]\n  store:\n    maxRetries: 2\n";
    assert_eq!(report(text).amplification, Some(27));
    let worst = finding(text, "RG001");
    assert_eq!((worst.severity, worst.line), (Severity::Error, 6));
    assert!(
        worst
            .message
            .contains("27 attempts at `store` (front 3 × orders 3 × store 3)"),
        "{}",
        worst.message
    );
    assert!(worst.message.contains("1.73 times"), "{}", worst.message);
    assert_eq!(codes(text).iter().filter(|code| **code == "RG002").count(), 2);
}

#[test]
fn the_worst_path_is_taken_and_hedges_count() {
    let diamond = "services:\n  a: {maxRetries: 0, calls: [b, c]}\n  b: {maxRetries: 1, calls: [d]}\n  \
                   c: {maxRetries: 3, calls: [d]}\n  d: {maxRetries: 1}\n";
    assert_eq!(report(diamond).amplification, Some(8));
    assert_eq!(
        report("services: {a: {maxRetries: 2, hedge: {most: 2}}}").amplification,
        Some(5)
    );
    assert_eq!(
        report("services: {a: {}}\ngatewayRetries: true").amplification,
        Some(9)
    );
    assert_eq!(
        report("defaults: {maxRetries: 0}\nservices: {a: {calls: [b]}}").amplification,
        Some(1)
    );
}

#[test]
fn a_circle_is_named_and_the_rest_is_still_counted() {
    let text = "services:\n  a: {calls: [b]}\n  b: {calls: [c, b2]}\n  c: {calls: [a]}\n  b2: {}\n  x: {maxRetries: 4}\n";
    let circle = finding(text, "RG003");
    assert_eq!(circle.severity, Severity::Error);
    for name in ["a", "b", "c"] {
        assert!(circle.message.contains(name), "{}", circle.message);
    }
    assert!(!circle.message.contains("b2"));
    assert!(finding(text, "RG001").message.contains("5 attempts at `x`"));
    assert_eq!(report(text).amplification, None);
    let itself = "services: {a: {maxRetries: 3, calls: [a]}}";
    assert!(codes(itself).contains(&"RG003"));
    assert_eq!(report(itself).amplification, None);
    let two = "services: {a: {calls: [b]}, b: {calls: [a]}, c: {calls: [d]}, d: {calls: [c]}}";
    assert_eq!(codes(two).iter().filter(|code| **code == "RG003").count(), 2);
}

/// A search by recursion would exhaust the stack here.
#[test]
fn a_chain_as_long_as_a_file_allows_is_counted() {
    use std::fmt::Write;
    let mut text = String::from("services:\n");
    for index in 0..10_000 {
        writeln!(text, "  s{index}: {{calls: [s{}]}}", index + 1).unwrap();
    }
    assert_eq!(report(&text).amplification, Some(u64::MAX));
}

#[test]
fn what_is_inherited_from_one_line_is_one_finding() {
    let text = "defaults:\n  budget: off\nservices: {a: {}, b: {}, c: {}, d: {maxRetries: 0}}\n";
    let found = finding(text, "RG015");
    assert_eq!(found.line, 2);
    assert!(
        found.message.starts_with("`defaults`, `a`, `b` and 1 more: "),
        "{}",
        found.message
    );
}

/// A thousand mild findings must not hide a bad one.
#[test]
fn the_worst_findings_are_kept() {
    use std::fmt::Write;
    let mut text = String::from("services:\n");
    for index in 0..1100 {
        writeln!(text, "  s{index}: {{maxDelay: 30s}}").unwrap();
    }
    writeln!(text, "  z: {{budget: off}}").unwrap();
    let report = report(&text);
    assert_eq!(report.findings.len(), 1000);
    assert!(report.has_errors());
}

#[test]
fn findings_stand_on_the_line_that_causes_them() {
    let text = "defaults:\n  attemptTimeout: 1s\nservices:\n  a:\n    maxRetries: 4\n    breaker:\n      trip: count\n      \
                failures: 5\n    retryOn:\n      - 503\n      - 404\n    idempotency:\n      methods: [GET, POST]\n";
    assert_eq!(finding(text, "RG012").line, 8);
    assert_eq!(finding(text, "RG014").line, 11);
    assert_eq!(finding(text, "RG014").severity, Severity::Warning);
    assert_eq!(finding(text, "RG011").line, 13);
}

#[test]
fn what_another_attempt_cannot_mend_is_found_in_every_protocol() {
    let severity = |signal: &str| finding(&format!("defaults: {{retryOn: [{signal}]}}"), "RG014").severity;
    for signal in ["404", "501", "507", "INVALID_ARGUMENT", "CANCELLED"] {
        assert_eq!(severity(signal), Severity::Warning, "{signal}");
    }
    for signal in ["4xx", "request", "quota"] {
        assert_eq!(severity(signal), Severity::Error, "{signal}");
    }
    for signal in ["408", "429", "503", "5xx", "ABORTED", "timeout"] {
        let text = format!("defaults: {{retryOn: [{signal}]}}");
        assert!(!codes(&text).contains(&"RG014"), "{signal}");
    }
}

#[test]
fn retries_are_fitted_into_the_deadline() {
    let text =
        "defaults: {maxRetries: 3, attemptTimeout: 1s, deadline: 2500ms, initialDelay: 100ms, jitter: none}";
    let found = finding(text, "RG007");
    assert!(
        found.message.contains("of 3 retries only 2 fit"),
        "{}",
        found.message
    );
}

/// What `retryRetried` costs is said in attempts.
#[test]
fn a_failure_that_is_retried_again_has_its_price() {
    let text = "services:\n  a: {retryRetried: true, calls: [b]}\n  b: {maxRetries: 3}\n";
    let found = finding(text, "RG017");
    assert!(
        found.message.contains("12 attempts at `b` instead of 4"),
        "{}",
        found.message
    );
    assert_eq!(found.severity, Severity::Error);
}

/// A cure that the policy follows already sends its reader in a circle.
#[test]
fn the_cure_of_an_amplification_names_what_is_left_to_do() {
    let layers = "services:\n  front: {calls: [orders]}\n  orders: {calls: [store]}\n  store: {}\n";
    let found = finding(layers, "RG001");
    assert_eq!(
        found.cure,
        "retry at one layer only: `maxRetries: 0` on `front`, `orders`"
    );
    assert!(
        found
            .message
            .contains("; 3 where every layer runs RetryGuard and the failure is not a timeout"),
        "{}",
        found.message
    );
    let one = finding("services: {a: {maxRetries: 5}}", "RG001");
    assert_eq!(one.cure, "write `maxRetries: 2` or less on `a`");
    let hedged = finding("services: {a: {hedge: {most: 3}}}", "RG001");
    assert_eq!(hedged.cure, "write `hedge: off` on `a`");
    assert!(
        !hedged.message.contains("RetryGuard"),
        "hedges are not stopped by the mark: {}",
        hedged.message
    );
    let gateway = finding("gatewayRetries: true", "RG001");
    assert!(gateway.cure.contains("gatewayRetries: false"), "{}", gateway.cure);
}

#[test]
fn a_misspelt_call_is_a_warning_with_the_name_that_was_meant() {
    let text = "services:\n  orders: {maxRetries: 0, calls: [paymnets]}\n  payments: {}\n";
    let found = finding(text, "RG020");
    assert_eq!(found.severity, Severity::Warning);
    assert!(
        found.message.ends_with("did you mean `payments`?"),
        "{}",
        found.message
    );
    for text in [
        "services: {orders: {calls: [ledger]}, payments: {}}",
        "services: {ab: {calls: [ac]}}",
        "services: {orders: {calls: [shard-2]}, shard-1: {}}",
    ] {
        let found = finding(text, "RG020");
        assert_eq!(found.severity, Severity::Note, "{text}: {}", found.message);
        assert!(!found.message.contains("did you mean"), "{}", found.message);
    }
    // Names of two letters differ by one letter easily: a hint, and no warning.
    let short = finding("services: {shop: {calls: [bd]}, db: {}}", "RG020");
    assert_eq!(short.severity, Severity::Note);
    assert!(short.message.ends_with("did you mean `db`?"), "{}", short.message);
}

#[test]
fn a_scenario_is_told_from_a_policy() {
    for text in [
        "name: x\nduration: 1m\nservices: {a: {}}\nclients: {c: {}}\n",
        "fleets: [{name: a}]\n",
    ] {
        let told = lint(text).unwrap_err().to_string();
        assert!(
            told.starts_with("line 1, column 1: this is a scenario and not a policy"),
            "{told}"
        );
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}
