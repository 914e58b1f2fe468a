//! Whatever the checks let through, the machines can run: each key at both ends of its range, alone and together
//! with others.

use std::{sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*, sample::Index};
use retryguard_core::{
    Call, Chance, Criticality, Deadline, Instant, Target,
    bulkhead::Ticket,
    call::{Facts, Step},
    outcome::Hints,
    shed::{Arrival, Shed},
};
use retryguard_policy::{Policy, Service};

/// Keys with the values at the ends of their ranges. `{}` is where the value goes.
const ENDS: &[(&str, &[&str])] = &[
    ("maxRetries: {}", &["0", "20"]),
    ("initialDelay: {}", &["0", "24h"]),
    ("maxDelay: {}", &["0", "24h"]),
    ("multiplier: {}", &["1", "100"]),
    ("jitter: {}", &["none", "equal", "decorrelated"]),
    ("jitterFactor: {}", &["0", "1"]),
    ("growth: {}", &["constant", "linear"]),
    ("stopBeyond: {}", &["1ms", "24h"]),
    ("attemptTimeout: {}", &["1ms", "24h"]),
    ("deadline: {}", &["1ms", "24h", "off"]),
    ("leastAttempt: {}", &["0", "10s"]),
    ("budget: {percent: {}}", &["0", "1000%"]),
    ("budget: {interval: {}}", &["100ms", "1h"]),
    (
        "budget: {minRetryRate: {count: {}, interval: 100ms}}",
        &["0", "1000000"],
    ),
    ("budget: {form: adaptive, minPercent: {}}", &["0", "1000%"]),
    ("budget: {form: quota, capacity: {}}", &["1", "1000000"]),
    ("guard: {interval: {}}", &["10ms", "1h"]),
    ("guard: {offAbove: {}}", &["0", "99%"]),
    ("guard: {signal: retries-per-call, offAbove: {}}", &["0", "1000%"]),
    ("guard: {signal: delay, offAbove: {}}", &["1ns", "1h"]),
    ("guard: {signal: retries-per-call, rampSteps: {}}", &["0", "10"]),
    ("guard: {samples: {}}", &["1", "16"]),
    ("guard: {minimumCalls: {}}", &["1", "1000000"]),
    ("guard: {coolDown: {}}", &["0", "1h"]),
    ("guard: {mode: algorithm1, samples: {}}", &["1", "3600"]),
    ("breaker: {ratio: {}}", &["1%", "100%"]),
    ("breaker: {minimumCalls: {}}", &["1", "1000000"]),
    ("breaker: {window: {}}", &["100ms", "1h"]),
    ("breaker: {openFor: {}}", &["1ms", "1h"]),
    ("breaker: {probes: {}, closeAfter: 1}", &["1", "1000"]),
    ("breaker: {closeAfter: {}}", &["1", "1000"]),
    ("breaker: {trip: consecutive, failures: {}}", &["1", "1000000"]),
    ("breaker: {trip: count, failures: {}}", &["1", "1000000"]),
    ("throttle: {requestsPerAccept: {}}", &["1", "100"]),
    ("throttle: {window: {}}", &["1s", "1h"]),
    ("bulkhead: {limit: {}}", &["1", "1000000"]),
    ("bulkhead: {limit: 1, wait: {}}", &["1ns", "1h"]),
    ("bulkhead: {form: gradient, most: {}}", &["1", "1000000"]),
    ("bulkhead: {form: gradient, tolerance: {}}", &["1", "10"]),
    ("hedge: {after: {}}", &["1ms", "1h", "50%", "99.9%"]),
    ("hedge: {most: {}}", &["1", "3"]),
    ("endpoints: {inARow: {}}", &["1", "1000"]),
    ("endpoints: {factor: {}}", &["1", "100"]),
    ("endpoints: {attempts: {}}", &["1", "1000000"]),
    ("endpoints: {outFor: {}}", &["1ms", "1h"]),
    ("endpoints: {outForAtMost: {}}", &["1ms", "1h"]),
    ("endpoints: {mostOut: {}}", &["0%", "90%"]),
    ("gate: {atMost: {}}", &["0", "1h"]),
    ("gate: {spread: {}}", &["0", "1000%"]),
    ("server: {inFlight: {}}", &["1", "1000000", "adaptive"]),
    ("server: {working: {}}", &["1", "200"]),
    ("server: {queueTime: {}, queueInterval: 1ms}", &["0", "1h"]),
    ("server: {spread: {}}", &["0", "1000%"]),
    ("server: {retryAfter: {}}", &["0", "1h"]),
];

/// A small generator of its own: the same draws in every run.
struct Draws(u64);

impl Chance for Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        if bound == 0 { 0 } else { (self.0 >> 16) % bound }
    }
}

fn drive(service: &Service) {
    let mut draws = Draws(7);
    let mut now = Instant::ZERO;
    let mut target = Target::new(Arc::clone(&service.target), now);
    let most =
        1 + u32::from(service.target.call.retries) + service.target.hedge.map_or(0, |it| u32::from(it.most));
    for number in 0..60 {
        let mut call = Call::new(&Facts {
            deadline: Deadline::NONE,
            criticality: Criticality::ALL[number % 4],
            idempotent: true,
            replayable: true,
            ticket: Ticket(number as u64),
        });
        let mut step = call.start(&mut target, now, &mut draws);
        for _ in 0..200 {
            step = match step {
                Step::Done(_) => break,
                Step::Send(attempt) if draws.below(4) > 0 => {
                    now = now.after(Duration::from_micros(draws.below(5_000)));
                    let status = [200, 500, 503, 429][usize::try_from(draws.below(4)).unwrap_or(0)];
                    let outcome = service.classifier.http(status, Hints::NONE);
                    call.on_outcome(attempt.number, &outcome, &mut target, now, &mut draws)
                }
                // The attempt hangs, or there is nothing to do: the next timer decides.
                Step::Send(_) | Step::Wait | Step::Cancel(_) => match call.next_timer() {
                    Some(due) => {
                        now = due.max(now);
                        call.on_timer(&mut target, now, &mut draws)
                    }
                    None => break,
                },
            };
        }
        call.abandon(&mut target);
        assert!(
            u32::from(call.sent()) <= most,
            "{} attempts of {most}",
            call.sent()
        );
    }
    assert_eq!(target.in_flight(), 0);
    if let Some(settings) = service.server {
        let mut shed = Shed::new(settings, now);
        for number in 0..300 {
            let arrival = Arrival {
                criticality: Criticality::ALL[number % 4],
                again: number % 3 == 0,
            };
            if let Ok(entry) = shed.admit(arrival, Ticket(number as u64), now, &mut draws) {
                shed.leave(entry);
            }
            now = now.after(Duration::from_micros(100));
        }
    }
}

#[test]
fn every_end_of_every_range_runs() {
    for (key, values) in ENDS {
        for value in *values {
            let text = format!("services:\n  a:\n    {}\n", key.replace("{}", value));
            let policy = Policy::parse(&text).unwrap_or_else(|mistakes| panic!("{text}{mistakes}"));
            drive(&policy.service("a"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Several ends at once. What contradicts itself is refused; everything else runs.
    #[test]
    fn ends_together_run_or_are_refused(picks in vec((any::<Index>(), any::<Index>()), 2..8)) {
        let mut text = String::from("services:\n  a:\n");
        for (key, value) in picks {
            let (key, values) = ENDS[key.index(ENDS.len())];
            text.push_str(&format!("    {}\n", key.replace("{}", values[value.index(values.len())])));
        }
        if let Ok(policy) = Policy::parse(&text) {
            drive(&policy.service("a"));
        }
    }
}
