use std::fmt::Write as _;

use super::*;
use crate::scenario::Scenario;

/// Requests at a service of some workers whose work takes 80 to 120 ms, first come, first served, with places for some that
/// wait. A small simulation of its own, with random numbers of its own: it shares nothing with the simulator.
fn requests(workers: usize, places: usize, stages: &[(f64, f64)]) -> String {
    let mut state = 7_u64;
    let mut chance = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut free = vec![0.0_f64; workers];
    let mut starts: std::collections::VecDeque<f64> = std::collections::VecDeque::new();
    let (mut now, mut begin) = (0.0, 0.0);
    let mut out = "time,duration,status\n".to_owned();
    for (length, rate) in stages {
        while now < begin + length {
            now -= (1.0 - chance()).ln() / rate;
            while starts.front().is_some_and(|start| *start <= now) {
                starts.pop_front();
            }
            if starts.len() >= places {
                let _ = writeln!(out, "{now},0.001,503");
                continue;
            }
            let next = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            let start = next.max(now);
            let ends = start + 0.08 + 0.04 * chance();
            *next = ends;
            if start > now {
                starts.push_back(start);
            }
            let _ = writeln!(out, "{now},{},200", ends - now);
        }
        begin += length;
    }
    out
}

fn known() -> Known {
    Known {
        service: "payments".to_owned(),
        deadline: Some(Duration::from_secs(10)),
        workers: None,
        replicas: 1,
        source: "a test".to_owned(),
    }
}

/// The share of calls that succeed without retries at some times the observed load.
fn predicted(scenario: &str, times: f64) -> f64 {
    let text = scenario.replace("times: 1\n", &format!("times: {times}\n"));
    let scenario = Scenario::parse(&text, "payments", &mut |_| Err(String::new())).unwrap();
    let plan = Plan {
        seed: Seed(3),
        replications: 1,
        threads: 1,
    };
    let policies: Vec<_> = named("none").into_iter().collect();
    compare(&scenario.world, &policies, &[], &plan, &|_| {})[0].mean("successRate")
}

#[test]
fn a_saturated_service_is_recognised_and_predicted_at_other_loads() {
    let seen = requests(6, 40, &[(60.0, 20.0), (60.0, 45.0), (60.0, 75.0)]);
    let observed = read_csv(&seen, Duration::from_secs(5)).unwrap();
    let result = calibrate(&observed, &known()).unwrap();
    assert!(result.scenario.contains("workers: 6\n"), "{}", result.scenario);
    assert!(result.scenario.contains("queue: "), "{}", result.scenario);
    let table = result.table();
    assert!(
        table.ends_with("close enough to compare policies in it.\n"),
        "{table}"
    );
    // The same stages, half as much again: a load that was not fitted on.
    for times in [0.5, 1.5, 2.0] {
        let stages: Vec<(f64, f64)> = [(60.0, 20.0), (60.0, 45.0), (60.0, 75.0)]
            .map(|(length, rate)| (length, rate * times))
            .to_vec();
        let truth = 1.0
            - read_csv(&requests(6, 40, &stages), Duration::from_secs(5))
                .unwrap()
                .failing();
        let predicted = predicted(&result.scenario, times);
        assert!(
            (truth - predicted).abs() < 0.05,
            "at {times} times the load {truth:.3} succeeded and {predicted:.3} were predicted:\n{}",
            result.scenario
        );
    }
}

/// A fifth was rejected all the time, and a note said that no request was.
#[test]
fn a_service_that_was_never_calm_is_called_so() {
    let seen = requests(6, 40, &[(120.0, 75.0)]);
    let observed = read_csv(&seen, Duration::from_secs(10)).unwrap();
    let result = calibrate(&observed, &known()).unwrap();
    assert!(
        result
            .notes
            .iter()
            .any(|note| note.contains("failed in the calmest windows")),
        "{:?}",
        result.notes
    );
}

#[test]
fn without_saturation_the_workers_are_searched_for() {
    let seen = requests(6, 1000, &[(120.0, 30.0), (120.0, 52.0)]);
    let observed = read_csv(&seen, Duration::from_secs(10)).unwrap();
    let result = calibrate(&observed, &known()).unwrap();
    assert!(
        ["workers: 5\n", "workers: 6\n", "workers: 7\n"]
            .iter()
            .any(|workers| result.scenario.contains(workers)),
        "{}",
        result.scenario
    );
    assert!(
        result.notes.iter().any(|note| note.contains("--workers")),
        "{:?}",
        result.notes
    );
    // At nine tenths of the capacity a few bursts decide the tail, and another draw of arrivals has others.
    for fitted in result
        .fit
        .iter()
        .filter(|fitted| ["requests a second", "successful", "p50"].contains(&fitted.name))
    {
        let ratio = fitted.simulated / fitted.observed;
        assert!((0.7..1.4).contains(&ratio), "{fitted:?}");
    }
}

/// Prometheus has a handful of bounds. The mean says what they leave open.
#[test]
fn coarse_bounds_find_the_time_of_the_work() {
    let bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, f64::INFINITY];
    let below = [0.0, 0.0, 0.0, 0.0, 500.0, 1000.0, 1000.0, 1000.0];
    let observed = Observed {
        windows: vec![Window {
            requests: 1000.0,
            failures: 0.0,
            buckets: bounds.into_iter().zip(below).collect(),
            seconds: 100.0,
        }],
        every: Duration::from_secs(10),
    };
    let work = observed.work().unwrap();
    assert!((work.mean() - 0.1).abs() < 1e-9, "{work:?}");
    assert!(work.p95() < 0.16, "{work:?}");
}

#[test]
fn mistakes_say_where_and_what_to_do() {
    let every = Duration::from_secs(1);
    for (text, line, part) in [
        ("", 1, "time,duration,status"),
        ("time,status\n1,200\n", 1, "duration_ms"),
        ("duration,status\n1,200\n", 1, "`time`"),
        ("time,duration,status\n1,2,200\n1,x,200\n", 3, "not a number"),
        ("time,duration,status\n1,-2,200\n", 2, "below zero"),
        ("time,duration,status\n1,2,fine\n", 2, "HTTP status"),
        ("time,duration\n1,NaN\n", 2, "not a number"),
    ] {
        let error = read_csv(text, every).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.to_string().contains(part), "{text:?}: {error}");
    }
    let few = read_csv("time,duration\n1,0.1\n2,0.1\n", every).unwrap();
    let error = calibrate(&few, &known()).unwrap_err();
    assert!(error.to_string().contains("at least 200"), "{error}");
}

#[test]
fn a_trace_is_read_and_its_limits_are_told() {
    let world = |rate: &str| {
        format!("duration: 1m\nservices: {{a: {{workers: 1}}}}\nclients: {{c: {{calls: a, rate: {rate}}}}}\n")
    };
    let parse = |rate: &str| Scenario::parse(&world(rate), "test", &mut |_| Err(String::new()));
    assert!(parse("{every: 10s, values: [1, 2, 3], times: 2}").is_ok());
    let many = |count: usize| format!("{{every: 1s, values: [{}]}}", vec!["1"; count].join(", "));
    assert!(parse(&many(2_000)).is_ok());
    for (rate, part) in [
        (many(2_001), "1 to 2000"),
        ("{every: 10s, values: []}".to_owned(), "1 to 2000"),
        ("{every: 0s, values: [1]}".to_owned(), "not a time"),
        ("{values: [1]}".to_owned(), "every"),
        ("{every: 1s, values: [1, x]}".to_owned(), "values"),
    ] {
        let mistakes = parse(&rate).unwrap_err().to_string();
        assert!(mistakes.contains(part), "{mistakes}");
    }
}

/// At nine tenths of its capacity most requests wait a little and none is rejected. That was taken for the capacity, and the
/// scenario served half of what the service did.
#[test]
fn a_busy_service_is_not_taken_for_a_saturated_one() {
    let seen = requests(4, usize::MAX, &[(150.0, 18.0), (100.0, 37.0)]);
    let observed = read_csv(&seen, Duration::from_secs(10)).unwrap();
    let result = calibrate(&observed, &known()).unwrap();
    let workers = ["workers: 4\n", "workers: 5\n"];
    assert!(
        workers.iter().any(|line| result.scenario.contains(line)),
        "{}",
        result.scenario
    );
    assert!((predicted(&result.scenario, 1.0) - 1.0).abs() < 0.02);
}

#[test]
fn quoted_commas_and_a_byte_order_mark_are_read() {
    let text = "\u{feff}\"path\",time,duration,status\n\"/a,b\",1,0.5,200\n\"/c\",2,0.5,503\n";
    let observed = read_csv(text, Duration::from_secs(10)).unwrap();
    assert_eq!((observed.requests(), observed.failing()), (2.0, 0.5));
    let none = read_csv("time,duration,status\n", Duration::from_secs(10)).unwrap();
    let said = calibrate(&none, &known()).unwrap_err().to_string();
    assert!(said.starts_with("0 of at least 200 requests"), "{said}");
}
