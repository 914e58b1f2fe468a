//! Does a retry storm end after its trigger is gone, and when? Three opinions that share no code: the chain of a population, its fluid
//! limit, and the simulator with the guards that run in production.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The world of models/clients/storm.prism and scenarios/storm.yaml: calls a second and the room of the queue, both in the capacity of
/// the server for one second; seconds for which a caller waits; retries of a call.
const LOAD: f64 = 0.6;
const ROOM: f64 = 3.0;
const WAIT: f64 = 1.0;
const RETRIES: u32 = 2;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn json(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args(arguments)
        .output()
        .expect("the command starts");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {talk}");
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

/// The expected time to the end of the storm in the chain of a server that can do `n` requests a second.
fn chain(n: u32, guard: u32, retries: u32, load: f64) -> f64 {
    let model = file("models/clients/storm.prism").display().to_string();
    let constants = format!("n={n},GUARD={guard},RETRIES={retries},LOAD={load},BUDGET=10");
    let property = "R{\"time\"}=? [ F \"over\" ]";
    let found = json(&[
        "check", &model, "--json", "--const", &constants, "--prop", property,
    ]);
    let value = &found["results"][0]["value"];
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// When retries stop, and for how long they then stay away after requests are no longer late, in seconds.
#[derive(Clone, Copy)]
struct Pause {
    after: f64,
    again: f64,
}

const NO_GUARD: Pause = Pause {
    after: f64::INFINITY,
    again: 0.0,
};

/// The counts of the chain divided by `n`, as `n` goes to infinity: the time until the queue has fallen to `until`. Infinite where it
/// does not fall.
fn fluid(load: f64, retries: u32, pause: Pause, until: f64) -> f64 {
    const STEP: f64 = 2e-3;
    let (mut queue, mut first, mut second) = (ROOM, 0.0, 0.0);
    let mut in_time = f64::INFINITY;
    for step in 0..200_000 {
        let time = f64::from(step) * STEP;
        if queue <= until {
            return time;
        }
        let late = queue >= WAIT;
        if !late {
            in_time = time.min(in_time);
        }
        let on = time < pause.after || time >= in_time + pause.again;
        let retried = if retries > 0 && on {
            (first + second) / WAIT
        } else {
            0.0
        };
        let second_late = if late && retries > 1 && on {
            first / WAIT
        } else {
            0.0
        };
        queue = (queue + STEP * (load + retried - 1.0)).min(ROOM);
        let first_late = if late { load } else { 0.0 };
        second += STEP * (second_late - second / WAIT);
        first += STEP * (first_late - first / WAIT);
    }
    f64::INFINITY
}

/// The mean over the moments at which a guard has seen `samples` samples, one a second on average, from `from` seconds on; `at_once`
/// says whether the next sample after requests are in time again brings retries back. Otherwise they come back after the end.
fn guarded(samples: i32, from: f64, at_once: bool, until: f64) -> f64 {
    const STEP: f64 = 0.2;
    // A sample that comes later than this finds the storm over.
    const LAST: i32 = 10;
    let factorial: f64 = (1..samples).map(f64::from).product();
    let exponential = |place: i32| {
        let time = (f64::from(place) + 0.5) * STEP;
        (time, STEP * (-time).exp())
    };
    let (mut sum, mut weights) = (0.0, 0.0);
    for place in 0..80 {
        let (time, weight) = exponential(place);
        let weight = weight * time.powi(samples - 1) / factorial;
        let with = |again: f64| {
            let after = from + time;
            fluid(LOAD, RETRIES, Pause { after, again }, until)
        };
        let mut mean = 0.0;
        let mut left = 1.0;
        for (again, weight) in (0..LAST).map(exponential).filter(|_| at_once) {
            mean += weight * with(again);
            left -= weight;
        }
        sum += weight * (mean + left * with(f64::INFINITY));
        weights += weight;
    }
    sum / weights
}

/// After so many seconds a fifth of the first attempts has failed: each is late and fails after a second on average.
fn seen() -> f64 {
    -WAIT * 0.8f64.ln()
}

/// For each guard of the chain: what the limit says. Algorithm 1 wants five samples, the other two act upon one. The one that
/// measures need not wait until a fifth has failed, nor until less than a tenth does.
fn limits(until: f64) -> [(u32, f64); 3] {
    [
        (1, guarded(5, seen(), false, until)),
        (2, guarded(1, seen(), false, until)),
        (3, guarded(1, 0.0, true, until)),
    ]
}

/// Without a guard the storm lasts: in the limit for ever, in the chain for a time that grows exponentially with its size.
#[test]
fn without_a_guard_the_storm_stays() {
    assert!(fluid(LOAD, RETRIES, NO_GUARD, WAIT / 2.0).is_infinite());
    let times = [2, 4, 6, 8].map(|n| chain(n, 0, RETRIES, LOAD));
    for pair in times.windows(2) {
        assert!(pair[1] > 4.0 * pair[0], "{times:?}");
    }
    // Without retries it is over when the queue has been worked off.
    let without = chain(8, 0, 0, LOAD);
    let limit = fluid(LOAD, 0, NO_GUARD, WAIT / 2.0);
    assert!((without / limit - 1.0).abs() < 0.1, "{without} {limit}");
}

/// The published condition: a load is vulnerable where its amplification exceeds the capacity (Bronson et al. 2021), here from a third of
/// the capacity on, because a call is at most three attempts.
#[test]
fn the_limit_is_vulnerable_from_a_third_of_the_capacity_on() {
    let time = |load: f64| fluid(load, RETRIES, NO_GUARD, WAIT / 2.0);
    assert!(time(0.32).is_finite() && time(0.35).is_infinite());
    // With one retry it is half of the capacity, as in that paper's example.
    let one = |load: f64| fluid(load, 1, NO_GUARD, WAIT / 2.0);
    assert!(one(0.48).is_finite() && one(0.52).is_infinite());
    // The chain agrees on both sides: what grows with the size is metastable.
    let growth = |load: f64| chain(8, 0, RETRIES, load) / chain(4, 0, RETRIES, load);
    assert!(growth(0.25) < 1.5, "{}", growth(0.25));
    assert!(growth(0.5) > 4.0, "{}", growth(0.5));
}

/// Every guard ends it, and the limit is approached as the chain grows.
#[test]
fn guards_end_the_storm_when_the_limit_says() {
    for (guard, limit) in limits(WAIT / 2.0) {
        let (small, large) = (chain(2, guard, RETRIES, LOAD), chain(6, guard, RETRIES, LOAD));
        let error = |found: f64| (found / limit - 1.0).abs();
        assert!(
            error(large) < error(small),
            "guard {guard}: {small} {large} {limit}"
        );
        assert!(error(large) < 0.16, "guard {guard}: {small} {large} {limit}");
    }
}

/// The guards of production in the simulator, a hundred times the size of a chain that is solved exactly.
#[test]
fn the_simulator_agrees() {
    let scenario = file("scenarios/storm.yaml").display().to_string();
    let found = json(&["simulate", &scenario, "--json", "--replications", "5"]);
    // It counts whole seconds, until more than 95 % have succeeded for ten of them.
    let recovery = |name: &str| {
        let all = found["policies"].as_array().expect("a list");
        let policy = all.iter().find(|policy| policy["name"] == name);
        let policy = policy.unwrap_or_else(|| panic!("no policy {name}"));
        policy["recoverySeconds"]["mean"]
            .as_f64()
            .map(|seconds| seconds - 10.0)
    };
    assert_eq!(
        recovery("no-guard"),
        None,
        "the storm lasts to the end of the run"
    );
    let [(_, algorithm1), (_, thresholds), (_, measuring)] = limits(WAIT);
    for (name, limit) in [
        ("no-retries", fluid(LOAD, 0, NO_GUARD, WAIT)),
        ("algorithm1", algorithm1),
        ("thresholds", thresholds),
        ("measuring", measuring),
    ] {
        let seconds = recovery(name).unwrap_or_else(|| panic!("{name} does not recover"));
        assert!(
            (seconds - limit).abs() < 2.5,
            "{name}: {seconds} s, the limit says {limit}"
        );
    }
}

/// The probability that a storm lasts, in a world that chain and simulator can both express: many short runs beside the exact number.
#[test]
fn the_share_of_lasting_storms_is_that_of_the_chain() {
    let model = file("models/clients/load-errors.prism").display().to_string();
    let lasting = |seconds: u32| {
        let constants = "RATE=12,WORKERS=60,FROM=0.42,TO=0.45,MOST=1,START=12,WELL=12";
        let property = format!("P=? [ F<={seconds} \"over\" ]");
        let found = json(&[
            "check", &model, "--json", "--const", constants, "--prop", &property,
        ]);
        1.0 - found["results"][0]["value"].as_f64().expect("a probability")
    };
    let scenario = file("scenarios/load-errors.yaml").display().to_string();
    let found = json(&[
        "simulate",
        &scenario,
        "--storms",
        "--json",
        "--replications",
        "1000",
    ]);
    let policy = |name: &str| {
        let all = found["policies"].as_array().expect("a list");
        let policy = all.iter().find(|policy| policy["name"] == name);
        policy.unwrap_or_else(|| panic!("no policy {name}")).clone()
    };
    // The run ends 70 s after the trigger, and recovery is ten good seconds. Whether they begin where the chain says that the
    // storm is over is known to some seconds.
    let bare = policy("no-guard");
    let end = |place: usize| bare["ci95"][place].as_f64().expect("an end");
    let (low, high) = (lasting(63), lasting(57));
    assert!(
        end(0) < high && end(1) > low,
        "{bare}: the chain says {low} to {high}"
    );
    assert!(end(1) - end(0) < 0.04, "{bare}");
    assert_eq!(policy("no-retries")["lasting"], 0);
}
