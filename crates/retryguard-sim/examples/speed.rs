//! How fast the simulator is, beside a bare loop over one queue.
//!
//! One queue with retries: λ = 1.5, μ = 1, at most 50 inside, 4 attempts, exponential backoff under full jitter.
//! Logical events (arrivals, retries, departures) a second, on one thread. `cargo xtask evidence simulator-speed` runs it beside
//! other simulators and prints the ratios.
//!
//! `speed growth` prints how time and memory grow with the number of clients, without a policy that keeps state and with the
//! default policy, as a page: `cargo run --release -p retryguard-sim --example speed -- growth`.

#![expect(
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark reads the clock: that is what it is for; and its times are small and positive"
)]

use std::{cmp::Reverse, collections::BinaryHeap, fmt::Write as _, process::Command, time::SystemTime};

use retryguard_sim::{
    engine,
    scenario::Scenario,
    streams::{Purpose, Seed},
};

/// `speed guarded [EVENTS] [CLIENTS]` measures clients that protect themselves: under the default policy, under the rules that are also
/// written for other simulators, and under a policy that keeps no state; beside each speed the attempts of a call and the share of calls
/// that failed. `speed [EVENTS]` measures the bare loop and ours, once each; `speed EVENTS CLIENTS` ours with so many clients, in a process
/// of its own because memory that was used once is used again.
fn main() {
    let argument = |number| std::env::args().nth(number);
    if argument(1).as_deref() == Some("growth") {
        return print!("{}", growth());
    }
    if argument(1).as_deref() == Some("guarded") {
        let events = argument(2).and_then(|it| it.parse().ok()).unwrap_or(3e6);
        let clients = argument(3).and_then(|it| it.parse().ok()).unwrap_or(1000);
        for (name, policy) in [
            ("ours-default", DEFAULT),
            ("ours-same-rules", PLAIN_RULES),
            ("ours-no-state", POLICY),
        ] {
            let (speed, run) = measured(&closed_world(clients, events, &FAILING, policy));
            println!(
                "{name} {speed:.0} {:.5} {:.5}",
                run.services[0].attempts as f64 / run.calls as f64,
                (run.rejected + run.failed) as f64 / run.calls as f64
            );
        }
        return;
    }
    let events: f64 = argument(1).and_then(|it| it.parse().ok()).unwrap_or(3e6);
    if let Some(clients) = argument(2).and_then(|it| it.parse().ok()) {
        let before = resident();
        let speed = world(&match argument(3).as_deref() {
            None => closed_world(clients, events, &OVERLOADED, POLICY),
            Some("default") => closed_world(clients, events, &LIGHT, DEFAULT),
            Some(_) => closed_world(clients, events, &LIGHT, POLICY),
        });
        println!(
            "clients {clients} {speed:.0} {:.0}",
            (resident() - before).max(0.0) / f64::from(clients)
        );
        return;
    }
    println!("bare {:.0}", bare_loop(events));
    println!("ours {:.0}", world(&open_world(events)));
}

/// Calls that come whatever happens.
fn open_world(events: f64) -> String {
    // A call is an arrival and, on average, 1.7 retries and two thirds of a departure.
    let seconds = events / 1.5 / 3.4;
    format!(
        "duration: {seconds:.0}s\nstep: {:.0}s\nservices:\n  b: {{workers: 1, queue: 49, time: {{exponential: 1s}}}}\nclients:\n  \
         a: {{calls: b, rate: 1.5}}\n{POLICY}",
        (seconds / 100.0).max(1.0)
    )
}

/// As many clients as wanted, who together call as often.
fn closed_world(clients: u32, events: f64, load: &Load, policy: &str) -> String {
    let Load {
        rate,
        workers,
        time,
        errors,
        each,
    } = load;
    let think = f64::from(clients) / rate;
    let seconds = events / rate / each;
    format!(
        "duration: {seconds:.0}s\ndrain: 0s\nstep: {:.0}s\nservices:\n  b: {{workers: {workers}, queue: 49, errors: {errors}, time: \
         {{exponential: {time}}}}}\nclients:\n  a: {{calls: b, users: {clients}, think: {{exponential: {think:.0}s}}}}\n{policy}",
        (seconds / 100.0).max(1.0)
    )
}

const POLICY: &str = "policies:\n  - name: p\n    policy: {maxRetries: 3, initialDelay: 1s, maxDelay: 1h, deadline: off, budget: \
                      off, guard: off, breaker: off, server: off}\n";

/// The default policy, with the retries of the other.
const DEFAULT: &str =
    "policies:\n  - name: p\n    policy: {maxRetries: 3, initialDelay: 1s, maxDelay: 1h, deadline: off}\n";

/// The rules of `guarded_simpy.py` in the folder of the other simulators.
const PLAIN_RULES: &str = "policies:\n  - name: p\n    policy: {maxRetries: 3, initialDelay: 1s, maxDelay: 1h, deadline: off, guard: \
                           {mode: algorithm1}, breaker: {trip: rate, openForAtMost: 5s, closeAfter: 1}, bulkhead: off, server: \
                           off}\n";

/// How often all clients together call, in a second, and what the service can do.
struct Load {
    rate: f64,
    workers: u32,
    time: &'static str,
    /// The share of requests that it fails at.
    errors: &'static str,
    /// Events of a call.
    each: f64,
}

/// More calls than the service can do.
const OVERLOADED: Load = Load {
    rate: 1.5,
    workers: 1,
    time: "1s",
    errors: "0%",
    each: 3.4,
};

/// No call is rejected, so that every policy makes the same calls. Ten million clients think for a week each.
const LIGHT: Load = Load {
    rate: 15.0,
    workers: 10,
    time: "100ms",
    errors: "0%",
    each: 3.4,
};

/// One request in ten fails, so that clients have something to decide.
const FAILING: Load = Load {
    errors: "10%",
    each: 2.2,
    ..LIGHT
};

/// The page about growth. Each row is a process of its own; the best of three runs.
fn growth() -> String {
    let program = std::env::current_exe().expect("a program knows its path");
    let measure = |clients: &str, policy: &str| {
        let mut best = (0.0, 0.0);
        for _ in 0..3 {
            let arguments = ["2000000", clients, policy];
            let output = Command::new(&program).args(arguments).output();
            let text = output.expect("this program starts").stdout;
            let text = String::from_utf8(text).expect("this program prints text");
            let words: Vec<f64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
            let [_, speed, bytes] = words[..] else {
                panic!("{clients} {policy} printed {text:?}");
            };
            if speed > best.0 {
                best = (speed, bytes);
            }
        }
        best
    };
    let mut page = GROWTH.to_owned();
    for clients in ["1000", "10000", "100000", "1000000", "10000000"] {
        let ((plain, _), (full, bytes)) = (measure(clients, "plain"), measure(clients, "default"));
        let _ = writeln!(
            page,
            "| {clients} | {:.2} | {:.2} | {:.2} | {bytes:.0} |",
            plain / 1e6,
            full / 1e6,
            plain / full
        );
    }
    page
}

const GROWTH: &str = "\
# How the simulator grows

Written by `cargo run --release -p retryguard-sim --example speed -- growth > docs/evidence/simulator-growth.md`; not compared by a test,
because speed differs between machines.

One service with 10 workers and a mean service time of 100 ms, and so many clients who think and call each by themselves, 15 calls a second in all:
no call is rejected, so that both policies make the same calls. Millions of logical events (arrivals and departures) a second of processor
time on one thread, the best of three runs, each in a process of its own: with a policy that keeps no state, and with the default policy
(guard, budget, breaker, adaptive limit), where every client that calls has a target of its own. The memory is that of the whole world
under the default policy, divided by the clients; a client that has not called yet has no target.

| clients | no state, million events a second | default policy | ratio | bytes a client |
| --- | --- | --- | --- | --- |
";

fn world(text: &str) -> f64 {
    measured(text).0
}

/// Events a second, and what came of the run.
fn measured(text: &str) -> (f64, engine::Run) {
    let scenario =
        Scenario::parse(text, "speed", &mut |_| Err(String::new())).expect("the scenario is written here");
    let began = processor_seconds();
    let run = engine::run(&scenario.world, &scenario.policies[0], &[], Seed(1));
    let took = processor_seconds() - began;
    let service = &run.services[0];
    let events = service.attempts + service.succeeded + service.failed;
    (events as f64 / took, run)
}

/// The least that could be: a binary heap of times, one array of calls, and the arithmetic.
fn bare_loop(events: f64) -> f64 {
    let mut heap: BinaryHeap<Reverse<(u64, u32, u32)>> = BinaryHeap::new();
    let mut chance = Seed(1).stream(0, Purpose::Service);
    let nanos = |seconds: f64| (seconds * 1e9) as u64;
    let (mut inside, mut handled) = (0_u32, 0_u64);
    let mut latency = 0_u64;
    heap.push(Reverse((0, 0, 0)));
    let began = processor_seconds();
    while (handled as f64) < events {
        let Some(Reverse((now, kind, attempt))) = heap.pop() else {
            break;
        };
        handled += 1;
        if kind == 1 {
            inside -= 1;
            latency = latency.wrapping_add(now);
            if inside > 0 {
                heap.push(Reverse((now + nanos(chance.exponential(1.0)), 1, 0)));
            }
            continue;
        }
        if attempt == 0 {
            heap.push(Reverse((now + nanos(chance.exponential(1.0 / 1.5)), 0, 0)));
        }
        if inside < 50 {
            inside += 1;
            if inside == 1 {
                heap.push(Reverse((now + nanos(chance.exponential(1.0)), 1, 0)));
            }
        } else if attempt < 3 {
            let wait = nanos(chance.uniform() * f64::from(1_u32 << attempt));
            heap.push(Reverse((now + wait.max(1), 0, attempt + 1)));
        }
    }
    let speed = handled as f64 / (processor_seconds() - began);
    std::hint::black_box(latency);
    speed
}

/// The time that this thread has had a processor, in seconds, so that a busy machine does not change the result; the time of
/// day where the system does not tell.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().map(str::parse::<f64>);
    if let Some(Ok(nanos)) = nanos {
        return nanos / 1e9;
    }
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// The most memory that this process has held, in bytes, where the system tells it.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or("0");
    let kibibytes: f64 = line
        .split_whitespace()
        .next()
        .and_then(|it| it.parse().ok())
        .unwrap_or(0.0);
    kibibytes * 1024.0
}
