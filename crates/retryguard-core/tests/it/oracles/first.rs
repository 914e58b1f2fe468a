//! A first attempt that is sent without a call leaves the target as a call would.

use std::sync::Arc;

use proptest::prelude::*;
use retryguard_core::{
    Call, Chance, Instant, Target, breaker, budget, bulkhead,
    call::{Facts, FirstAttempt, Overrides, Step},
    guard, limiter,
    target::Settings,
    throttle,
};

use crate::support::*;

/// A generator of its own for each target, so that both draw the same.
struct Draws(u64);

impl Chance for Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        if bound == 0 { 0 } else { (self.0 >> 33) % bound }
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Start { deadline: Option<u64>, sheddable: bool },
    End { which: usize, ends: u8 },
    Timer { which: usize },
    GiveUp { which: usize },
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        4 => (proptest::option::of(1..400_u64), any::<bool>())
            .prop_map(|(deadline, sheddable)| Event::Start { deadline, sheddable }),
        4 => (0..8_usize, 0..6_u8).prop_map(|(which, ends)| Event::End { which, ends }),
        1 => (0..8_usize).prop_map(|which| Event::Timer { which }),
        1 => (0..8_usize).prop_map(|which| Event::GiveUp { which }),
    ];
    proptest::collection::vec((0..60_u64, event), 1..120)
}

fn policies() -> Vec<Settings> {
    let everything = Settings {
        breaker: Some(breaker::Settings::default()),
        budget: Some(budget::Settings::default()),
        throttle: Some(throttle::Settings::default()),
        bulkhead: Some(bulkhead(3, 2)),
        guard: Some(guard::Settings::default()),
        ..Settings::default()
    };
    let measuring = Settings {
        breaker: Some(breaker::Settings {
            trip: breaker::Trip::Silence(4),
            when_down: breaker::WhenDown::Wait { most: 2 },
            ..breaker::Settings::default()
        }),
        bulkhead: Some(bulkhead::Settings {
            limit: bulkhead::Limit::Adaptive(limiter::Settings::default()),
            ..bulkhead(3, 2)
        }),
        guard: Some(guard::Settings {
            mode: guard::Mode::Response(guard::Response::default()),
            ..guard::Settings::default()
        }),
        ..everything.clone()
    };
    let hedging = Settings {
        hedge: Some(hedge(20, 2)),
        ..Settings::default()
    };
    let quota = Settings {
        budget: Some(budget::Settings::Quota {
            capacity: 20,
            retry_cost: 5,
            timeout_cost: 10,
            success_gain: 1,
        }),
        breaker: Some(breaker::Settings {
            trip: breaker::Trip::Consecutive(4),
            ..breaker::Settings::default()
        }),
        ..everything.clone()
    };
    let following = Settings {
        budget: Some(budget::Settings::Adaptive {
            least: retryguard_core::Ratio::percent(10),
            most: retryguard_core::Ratio::percent(50),
            window: ms(500),
            reserve: budget::Reserve::default(),
        }),
        bulkhead: Some(bulkhead::Settings {
            limit: bulkhead::Limit::Gradient {
                initial: 3,
                least: 1,
                most: 9,
                tolerance: retryguard_core::Ratio::percent(150),
            },
            ..bulkhead(3, 2)
        }),
        ..everything.clone()
    };
    vec![
        Settings::default(),
        everything,
        measuring,
        hedging,
        quota,
        following,
    ]
}

/// One side of the comparison: a target and the calls under way.
struct Side {
    target: Target,
    draws: Draws,
    calls: Vec<Under>,
    tickets: u64,
}

enum Under {
    First(Facts, FirstAttempt),
    Call(Call, u8),
}

impl Side {
    fn new(settings: Settings) -> Self {
        Self {
            target: Target::new(Arc::new(settings), Instant::ZERO),
            draws: Draws(7),
            calls: Vec::new(),
            tickets: 0,
        }
    }

    fn start(&mut self, facts: &Facts, at_once: bool, now: Instant) {
        if at_once && let Some(first) = self.target.open(facts, &Overrides::default(), now) {
            self.calls.push(Under::First(*facts, first));
            return;
        }
        let mut call = Call::new(facts);
        let step = call.start(&mut self.target, now, &mut self.draws);
        self.keep(call, 0, step);
    }

    fn keep(&mut self, mut call: Call, number: u8, step: Step) {
        match step {
            Step::Done(_) => assert!(call.is_over()),
            Step::Send(attempt) => self.calls.push(Under::Call(call, attempt.number)),
            // Calls that wait are given up, to keep the comparison to those that are sent.
            Step::Wait if number == 0 => call.abandon(&mut self.target),
            Step::Wait | Step::Cancel(_) => self.calls.push(Under::Call(call, number)),
        }
    }

    fn take(&mut self, which: usize, success: bool, now: Instant) -> Option<(Call, u8)> {
        if which >= self.calls.len() {
            return None;
        }
        match self.calls.remove(which) {
            Under::First(_, first) if success => {
                first.succeed(&mut self.target, now);
                None
            }
            Under::First(facts, first) => Some((Call::resume(&facts, first), 1)),
            Under::Call(call, number) => Some((call, number)),
        }
    }

    fn apply(&mut self, event: Event, at_once: bool, now: Instant) {
        match event {
            Event::Start { deadline, sheddable } => {
                self.tickets += 1;
                let mut facts = facts(self.tickets);
                if let Some(deadline) = deadline {
                    facts.deadline = retryguard_core::Deadline::after(now, ms(deadline));
                }
                if sheddable {
                    facts.criticality = retryguard_core::Criticality::Sheddable;
                }
                self.start(&facts, at_once, now);
            }
            Event::End { which, ends } => {
                use retryguard_core::FailureKind::{Fault, Overload, Timeout, Unreachable};
                let outcome = match ends {
                    0..=2 => retryguard_core::Outcome::Success,
                    3 => failed(Fault),
                    4 => failed(if which % 2 == 0 { Overload } else { Timeout }),
                    _ => failed(Unreachable),
                };
                let Some((mut call, number)) = self.take(which, outcome.is_success(), now) else {
                    return;
                };
                let step = call.on_outcome(number, &outcome, &mut self.target, now, &mut self.draws);
                self.keep(call, number, step);
            }
            Event::Timer { which } => {
                let Some((mut call, number)) = self.take(which, false, now) else {
                    return;
                };
                let step = call.on_timer(&mut self.target, now, &mut self.draws);
                self.keep(call, number, step);
            }
            Event::GiveUp { which } => {
                if which < self.calls.len() {
                    match self.calls.remove(which) {
                        Under::First(_, first) => first.give_up(&mut self.target, now),
                        Under::Call(mut call, _) => call.give_up(&mut self.target, now),
                    }
                }
            }
        }
    }

    fn end(mut self) {
        for under in std::mem::take(&mut self.calls) {
            match under {
                Under::First(_, first) => first.give_up(&mut self.target, Instant::NEVER),
                Under::Call(mut call, _) => call.abandon(&mut self.target),
            }
        }
    }
}

/// All that a target knows. The same policy, put in force once more, makes every part count what it has not been notified of yet and
/// forget what is too old.
fn knowledge(target: &Target, now: Instant) -> String {
    let mut target = target.clone();
    let settings = Arc::new(target.settings().clone());
    // The second time notes the numbers of buckets that the first one has begun.
    target.replace(settings.clone(), now);
    target.replace(settings, now);
    format!("{target:?}")
}

proptest! {
    /// Every part of the target, its windows and averages included, is the same after every event. Most events follow each other
    /// closely, so that many clean calls are counted together.
    #[test]
    fn a_target_cannot_tell_a_first_attempt_from_a_call(
        events in events(),
        policy in 0..6_usize,
        clean in any::<bool>(),
    ) {
        let settings = policies().swap_remove(policy);
        let (mut with_calls, mut at_once) = (Side::new(settings.clone()), Side::new(settings));
        let mut now = Instant::from_millis(5);
        for (gap, mut event) in events {
            // Half of the runs have hardly any failure.
            if clean && gap % 16 != 0 {
                event = match event {
                    Event::End { which, .. } => Event::End { which, ends: 0 },
                    Event::Timer { which } | Event::GiveUp { which } => Event::End { which, ends: 0 },
                    start @ Event::Start { .. } => start,
                };
            }
            now = now.after(ms(gap));
            with_calls.apply(event, false, now);
            at_once.apply(event, true, now);
            assert_eq!(with_calls.calls.len(), at_once.calls.len());
            assert_eq!(knowledge(&with_calls.target, now), knowledge(&at_once.target, now));
            for target in [&with_calls.target, &at_once.target] {
                assert_eq!(target.has_effects(), target.has_changes() || target.waiting() > 0);
            }
            assert_eq!(with_calls.target.changes(), at_once.target.changes());
        }
        with_calls.end();
        at_once.end();
    }
}
