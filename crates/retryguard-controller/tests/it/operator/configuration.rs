use std::path::Path;

use retryguard_controller::config::Config;
use retryguard_core::guard::Signal;

fn mistakes(text: &str) -> String {
    Config::parse(text, Path::new(".")).unwrap_err().to_string()
}

/// The worked example of the reference page, as it stands there.
#[test]
fn the_example_of_the_page_is_a_configuration() {
    let page = include_str!("../../../../../docs/controller.md");
    let example = page
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("policy.yaml"),
        "services: {reviews: {guard: {offAbove: 30%}}}",
    )
    .unwrap();
    let config = Config::parse(example, folder.path()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let reviews = config
        .targets
        .iter()
        .find(|target| target.name.as_str() == "reviews")
        .unwrap();
    assert_eq!(reviews.source(), "prometheus");
    assert_eq!(reviews.actuators(), ["envoy-rtds"]);
    assert_eq!(reviews.guards[0].signal, Signal::Rejections);
}

#[test]
fn every_mistake_is_told_at_once_with_its_line_and_cure() {
    let told = mistakes(
        "sources:
  prometeus: {url: http://127.0.0.1:9090}
actuators:
  policy-server: {folder: ., listen: everywhere}
limits: {hold: soon, changesPerMinute: 0}
leaderElection: {redis: {}}
targets:
  reviews: {prometheus: {}, guard: {offAbove: 1}}
",
    );
    for part in [
        "line 2, column 3: unknown key `prometeus`",
        "did you mean `prometheus`?",
        "line 4",
        "`listen` is `everywhere`",
        "line 5",
        "`hold` is `soon`",
        "`changesPerMinute` is `0`",
        "a lock needs one address",
        "`prometheus` is not configured",
        "does not say which metrics are its",
        "`offAbove` is `1`",
    ] {
        assert!(told.contains(part), "{part} is not in:\n{told}");
    }
}

#[test]
fn nothing_at_all_says_what_is_missing() {
    let told = mistakes("");
    for key in ["`sources:`", "`actuators:`", "`targets:`"] {
        assert!(told.contains(key), "{told}");
    }
}

/// An address with a password would end up in logs: it is refused, and not repeated.
#[test]
fn a_password_in_an_address_is_refused_unseen() {
    let told = mistakes(
        "sources: {prometheus: {url: 'http://me:s3cret@127.0.0.1:9090'}}\nactuators: {policy-server: {folder: .}}\ntargets: {a: {prometheus: {envoy: {}}}}",
    );
    assert!(told.contains("tokenFile") && !told.contains("s3cret"), "{told}");
}

#[test]
fn guards_come_from_the_policy_or_stand_in_a_list() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("p.yaml"),
        "services: {a: {guard: {offAbove: 33%}}}",
    )
    .unwrap();
    let text = "policy: p.yaml
sources: {scrape: {addresses: ['http://127.0.0.1:1/']}}
actuators: {policy-server: {folder: .}}
targets:
  one: {service: a, scrape: {envoy: {}}}
  two:
    scrape: {envoy: {}}
    guard: [{signal: retries-per-call}, {signal: delay, offAbove: 2s}]
";
    let config = Config::parse(text, folder.path()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let signals = |target: usize| -> Vec<&str> {
        let guards = config.targets[target].guards.iter();
        guards.map(|guard| guard.signal.as_str()).collect()
    };
    assert_eq!(signals(0), ["rejections", "retries-per-call"]);
    assert_eq!(signals(1), ["retries-per-call", "delay"]);
    assert!(config.targets[1].scrape.as_ref().unwrap().delay);
    let retryguard_core::guard::Mode::Hysteresis(rules) = config.targets[0].guards[0].mode else {
        panic!("the default mode");
    };
    assert_eq!(rules.off_above, retryguard_core::Ratio::percent(33));
    let wrong = mistakes(&text.replace("policy: p.yaml\n", "policy: none.yaml\n"));
    assert!(wrong.contains("none.yaml"), "{wrong}");
}

/// With a hold time shorter than the time between two rounds, retries would go on and off in turns.
#[test]
fn a_decision_must_outlast_the_time_between_two_rounds() {
    let file = |every: &str, hold: &str| {
        format!(
            "sources: {{scrape: {{addresses: ['http://127.0.0.1:1/'], every: {every}}}}}\nlimits: {{hold: {hold}}}\n\
             actuators: {{policy-server: {{folder: .}}}}\ntargets: {{a: {{scrape: {{envoy: {{}}}}}}}}"
        )
    };
    // A quarter of it is for the restoration itself.
    let told = mistakes(&file("3s", "4s"));
    assert!(
        told.contains("read every 3 s") && told.contains("no data for 3 s") && told.contains("hold: 9s"),
        "{told}"
    );
    for (every, hold) in [("3s", "5s"), ("3s", "9s"), ("30s", "60s")] {
        assert!(
            Config::parse(&file(every, hold), Path::new(".")).is_ok(),
            "{every}, {hold}"
        );
    }
}

/// Every change was given up at the moment at which it stopped waiting for Envoys, and a stop could restore nothing.
#[test]
fn a_change_must_not_wait_longer_for_clients_than_it_may_take() {
    let file = |confirm: &str, timeout: &str| {
        format!(
            "sources: {{scrape: {{addresses: ['http://127.0.0.1:1/']}}}}\nlimits: {{timeout: {timeout}}}\n\
             actuators: {{envoy-rtds: {{listen: '127.0.0.1:1', {confirm}}}}}\ntargets: {{a: {{scrape: {{envoy: {{}}}}}}}}"
        )
    };
    let told = mistakes(&file("", "2s"));
    assert!(
        told.contains("waits 2 s") && told.contains("confirmWithin"),
        "{told}"
    );
    assert!(Config::parse(&file("confirmWithin: 1s", "2s"), Path::new(".")).is_ok());
    assert!(Config::parse(&file("", "3s"), Path::new(".")).is_ok());
}

/// A name with characters that do not show, or that turn others around, looks like another one.
#[test]
fn a_target_has_a_name_that_shows() {
    for name in [
        "\u{202e}reviews",
        "rev\u{200b}iews",
        "\u{feff}reviews",
        "rev\u{7}iews",
    ] {
        let text = format!(
            "sources: {{scrape: {{addresses: ['http://127.0.0.1:1/']}}}}\nactuators: {{policy-server: {{folder: .}}}}\n\
             targets: {{{}: {{scrape: {{envoy: {{}}}}}}}}",
            serde_json::to_string(name).unwrap()
        );
        assert!(mistakes(&text).contains("not a name for a target"), "{name:?}");
    }
}

/// The controller measured the gain of retries against 15 %, whatever the policy said.
#[test]
fn the_price_of_a_retry_comes_from_the_policy() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("p.yaml"),
        "services: {a: {guard: {price: 40%}}}",
    )
    .unwrap();
    let text = "policy: p.yaml
sources: {scrape: {addresses: ['http://127.0.0.1:1/']}}
actuators: {policy-server: {folder: .}}
targets:
  one: {service: a, scrape: {envoy: {}}}
  two: {scrape: {envoy: {}}, guard: {price: 5%}}
  three: {scrape: {envoy: {}}}
";
    let config = Config::parse(text, folder.path()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let prices: Vec<_> = config.targets.iter().map(|target| target.price).collect();
    assert_eq!(prices, [40, 5, 15].map(retryguard_core::Ratio::percent));
}

#[test]
fn the_most_targets_and_one_more() {
    let head = "sources: {scrape: {addresses: ['http://127.0.0.1:1/']}}\nactuators: {policy-server: {folder: .}}\ntargets:\n";
    let with = |count: usize| {
        let lines = (0..count).map(|number| format!("  t{number}: {{scrape: {{envoy: {{}}}}}}\n"));
        head.to_owned() + &lines.collect::<String>()
    };
    let most = retryguard_controller::config::MOST_TARGETS;
    assert_eq!(
        Config::parse(&with(most), Path::new(".")).unwrap().targets.len(),
        most
    );
    assert!(mistakes(&with(most + 1)).contains("split them over several"));
}

/// A change is begun only where it ends within the term: with less than that a leader would never act.
#[test]
fn a_term_that_leaves_no_time_for_a_change_is_a_mistake() {
    let with = |election: &str| {
        format!(
            "sources: {{scrape: {{addresses: ['http://127.0.0.1:1/']}}}}\nactuators: {{policy-server: {{folder: .}}}}\n\
             leaderElection:\n  {election}\ntargets: {{a: {{scrape: {{envoy: {{}}}}}}}}\n"
        )
    };
    let told = mistakes(&with("redis: {url: 'redis://127.0.0.1/', term: 7500ms}"));
    assert!(
        told.contains("line 4")
            && told.contains("would be the leader and not act")
            && told.contains("`term: 8s`"),
        "{told}"
    );
    assert!(mistakes(&with("kubernetes: {term: 8s}")).contains("`term: 9s`"));
    for enough in [
        "redis: {url: 'redis://127.0.0.1/', term: 8s}",
        "kubernetes: {term: 9s}",
    ] {
        Config::parse(&with(enough), Path::new(".")).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn two_blocks_cannot_listen_on_one_port() {
    let config = |status: &str, policies: &str| {
        format!(
            "sources: {{scrape: {{addresses: ['http://127.0.0.1:9901/stats/prometheus']}}}}
actuators: {{policy-server: {{folder: ., listen: '{policies}'}}}}
targets: {{reviews: {{scrape: {{envoy: {{}}}}}}}}
status: {{listen: '{status}'}}
"
        )
    };
    for (status, policies) in [
        ("127.0.0.1:9000", "127.0.0.1:9000"),
        ("0.0.0.0:9000", "127.0.0.1:9000"),
        ("127.0.0.1:9000", "[::]:9000"),
    ] {
        let told = mistakes(&config(status, policies));
        assert!(told.contains("line 4"), "{told}");
        assert!(told.contains("another block listens on"), "{told}");
    }
    for (status, policies) in [
        ("127.0.0.1:9000", "127.0.0.1:9001"),
        ("127.0.0.1:9000", "127.0.0.2:9000"),
        ("127.0.0.1:0", "127.0.0.1:0"),
    ] {
        Config::parse(&config(status, policies), Path::new(".")).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    let default = config("127.0.0.1:1", "127.0.0.1:9464").replace("status: {listen: '127.0.0.1:1'}\n", "");
    assert!(mistakes(&default).contains("another block listens on 127.0.0.1:9464"));
}

/// `--check` said "no mistake" where the start then failed on a file.
#[test]
fn a_check_names_every_file_that_cannot_be_used_and_every_open_port() {
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.path().join("cert.pem"), pair.cert.pem()).unwrap();
    std::fs::write(folder.path().join("other.pem"), other.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    std::fs::create_dir(folder.path().join("policies")).unwrap();
    let text = "
sources: {scrape: {addresses: ['http://127.0.0.1:9901/stats/prometheus'], tokenFile: missing-1, caFile: cert.pem}}
actuators:
  policy-server: {folder: missing-2, tls: {certificate: missing-3, key: cert.pem}}
  envoy-rtds: {listen: '0.0.0.0:18000', tls: {certificate: cert.pem, key: other.pem}}
leaderElection: {postgres: {urlFile: missing-4}}
status: {tokenFile: empty}
targets: {reviews: {scrape: {envoy: {}}, envoy-rtds: {}}}
";
    let config = Config::parse(text, folder.path()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let told: Vec<String> = retryguard_controller::start::unusable_files(&config)
        .iter()
        .map(ToString::to_string)
        .collect();
    for part in [
        "missing-1",
        "missing-2",
        "missing-3",
        "missing-4",
        "empty",
        "other.pem",
    ] {
        assert_eq!(
            told.iter().filter(|told| told.contains(part)).count(),
            1,
            "{part}: {told:#?}"
        );
    }
    let warnings = retryguard_controller::start::warnings(&config);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("envoy-rtds listens on 0.0.0.0:18000"),
        "{warnings:?}"
    );
}

/// Each left a target that looks guarded and never is: nothing was decided, nothing was switched, and nothing was said.
#[test]
fn a_target_that_could_never_be_switched_is_a_mistake() {
    let told = |target: &str| {
        mistakes(&format!(
            "sources: {{scrape: {{addresses: ['http://127.0.0.1:9901/metrics']}}}}
actuators:
  envoy-rtds: {{}}
  haproxy: {{sockets: [/run/haproxy.sock], map: /etc/haproxy/retryguard.map}}
targets:
  reviews: {{{target}}}
"
        ))
    };
    for (target, wanted) in [
        (
            "scrape: {envoy: {}}, envoy-rtds: {}, guard: []",
            "a list of guards without a guard",
        ),
        (
            "scrape: {envoy: {}}, envoy-rtds: {clusters: []}",
            "`clusters` is an empty list",
        ),
        (
            "scrape: {envoy: {}}, haproxy: {backends: []}",
            "`backends` is an empty list",
        ),
        (
            "scrape: {envoy: {codes: []}}, envoy-rtds: {}",
            "`codes` is an empty list",
        ),
        (
            "scrape: {envoy: {}}, envoy-rtds: {}, guard: {signal: rejections, offAbove: 100%}",
            "`offAbove` is never exceeded",
        ),
        (
            "scrape: {envoy: {}}, envoy-rtds: {}, guard: {mode: algorithm1, threshold: 250%}",
            "`threshold` is never exceeded",
        ),
    ] {
        let told = told(target);
        assert!(told.contains(wanted), "{target}:\n{told}");
        assert!(told.contains("line 6"), "{target}:\n{told}");
    }
}

/// A block with a mistake was also said to be missing.
#[test]
fn what_has_a_mistake_is_not_missing_as_well() {
    let told = mistakes(
        "sources: {scrape: {addresses: ['http://me:s3cret@127.0.0.1:1/metrics']}}
actuators: {envoy-rtds: {listen: '127.0.0.1:99999'}}
targets: {reviews: {scrape: {envoy: {}}}}
",
    );
    assert!(told.contains("`…` is not an address"), "{told}");
    assert!(
        !told.contains("pages to scrape") && !told.contains("no actuator"),
        "{told}"
    );
    let told = mistakes("sources: {}\nactuators: {}\ntargets: {}");
    for missing in ["no source", "no actuator", "no target"] {
        assert!(told.contains(missing), "{told}");
    }
}
