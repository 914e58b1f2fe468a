//! Time that repeats, runs backwards or leaps to its end, through the composition, which clamps it.
//!
//! The oracle is the same script with the clamped times: every answer must be the same.

use proptest::prelude::*;
use retryguard_core::{
    Backoff, Call, FailureKind, Instant, Outcome, Target, bulkhead::Ticket, call::Step, guard,
    target::Settings, throttle,
};

use crate::support::*;

#[derive(Debug, Clone, Copy)]
enum Event {
    Start,
    /// The attempt of this number ends so.
    Outcome(u8, usize),
    Timer,
    Abandon,
    Replace,
}

/// What happens to which call, and what the clock says.
type Line = (Event, usize, u64);

fn script() -> impl Strategy<Value = Vec<Line>> {
    let event = prop_oneof![
        3 => Just(Event::Start),
        5 => (1u8..5, 0usize..4).prop_map(|(number, index)| Event::Outcome(number, index)),
        4 => Just(Event::Timer),
        1 => Just(Event::Abandon),
        1 => Just(Event::Replace),
    ];
    let near = 0u64..400_000_000;
    let clock =
        prop_oneof![20 => near, 1 => 0u64..100_000_000_000, 1 => Just(u64::MAX), 1 => Just(u64::MAX - 1)];
    prop::collection::vec((event, 0usize..4, clock), 1..120)
}

fn outcomes() -> [Outcome; 4] {
    [
        Outcome::Success,
        failed(FAULT),
        failed(FailureKind::Timeout),
        hinted(FailureKind::Overload, retry_after(20)),
    ]
}

fn settings() -> Settings {
    let mut settings = Settings {
        breaker: Some(breaker(3)),
        budget: Some(ratio(50)),
        throttle: Some(throttle::Settings::default()),
        bulkhead: Some(bulkhead(2, 2)),
        hedge: Some(hedge(30, 1)),
        guard: Some(guard::Settings {
            interval: ms(50),
            ..guard::Settings::default()
        }),
        ..plain()
    };
    settings.call.attempt_timeout = Some(ms(60));
    settings.call.deadline = Some(ms(200));
    settings.call.backoff = Backoff {
        initial: ms(20),
        ..Backoff::default()
    };
    settings
}

/// Everything that can be seen after each line.
type Seen = (Vec<Step>, Vec<Option<Instant>>, u32, usize, Option<u64>);

fn play(script: &[Line], clamp: bool) -> Vec<Seen> {
    let settings = settings();
    let mut target: Target = target(settings.clone());
    let mut calls: Vec<Option<Call>> = (0..4).map(|_| None).collect();
    let mut chance = SplitMix(1);
    let mut latest = Instant::ZERO;
    let mut seen = Vec::new();
    for (event, index, clock) in script.iter().copied() {
        let raw = Instant::from_nanos(clock);
        latest = latest.max(raw);
        let now = if clamp { latest } else { raw };
        let mut steps = Vec::new();
        match (event, &mut calls[index]) {
            (Event::Start, slot @ None) => {
                let call = slot.insert(call(index as u64));
                steps.push(call.start(&mut target, now, &mut chance));
            }
            (Event::Outcome(number, which), Some(call)) => {
                steps.push(call.on_outcome(number, &outcomes()[which], &mut target, now, &mut chance));
            }
            (Event::Timer, Some(call)) => steps.push(call.on_timer(&mut target, now, &mut chance)),
            (Event::Abandon, Some(call)) => call.abandon(&mut target),
            (Event::Replace, _) => target.replace(settings.clone().into(), now),
            _ => {
                // This time reaches neither of them, so both are made to see it.
                let _ = target.budget_balance(now);
            }
        }
        while let Some(Ticket(ticket)) = target.next_granted() {
            let call = calls[usize::try_from(ticket).expect("small")]
                .as_mut()
                .expect("it waits");
            steps.push(call.on_place(&mut target, now, &mut chance));
        }
        for slot in &mut calls {
            if slot.as_ref().is_some_and(Call::is_over) {
                *slot = None;
            }
        }
        let timers = calls.iter().flatten().map(Call::next_timer).collect();
        let balance = target.budget_balance(now);
        seen.push((steps, timers, target.in_flight(), target.waiting(), balance));
    }
    for call in calls.iter_mut().flatten() {
        call.abandon(&mut target);
    }
    assert_eq!((target.in_flight(), target.waiting()), (0, 0));
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_clock_that_runs_backwards_is_one_that_stands_still(script in script()) {
        prop_assert_eq!(play(&script, false), play(&script, true));
    }
}

/// The same moment again and again moves nothing that is not due.
#[test]
fn a_repeated_time_does_a_thing_once() {
    let mut target = target(Settings {
        budget: Some(ratio(100)),
        ..settings()
    });
    let mut call = started(1, &mut target, at(1));
    sent(call.on_timer(&mut target, at(31), &mut SplitMix(0)));
    for _ in 0..10 {
        assert_eq!(call.on_timer(&mut target, at(31), &mut SplitMix(0)), Step::Wait);
    }
    assert_eq!((call.sent(), call.hedges()), (2, 1));
    call.abandon(&mut target);
}

/// At the end of time every sum saturates: nothing wraps around into the past.
#[test]
fn the_end_of_time_is_not_the_beginning() {
    let mut target = target(settings());
    let mut call = call(1);
    let attempt = sent(call.start(&mut target, Instant::from_nanos(u64::MAX - 5), &mut SplitMix(0)));
    assert_eq!((attempt.ends, call.next_timer()), (Instant::NEVER, None));
    assert_eq!(
        call.on_timer(&mut target, Instant::NEVER, &mut SplitMix(0)),
        Step::Wait
    );
    call.abandon(&mut target);
}
