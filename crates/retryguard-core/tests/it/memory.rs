//! How much memory a target takes: a large simulation has one for each client.

use std::{hint::black_box, sync::Arc, time::Duration};

use allocation_counter::measure;
use retryguard_core::{
    Backoff, Chance, Deadline, Failure, FailureKind, Instant, Outcome, Target, breaker, budget, bulkhead,
    bulkhead::Ticket,
    call::{self, Call, Facts, Step},
    chance::Lowest,
    guard, limiter, target,
};

/// What a policy that says nothing is compiled to.
fn default_policy() -> Arc<target::Settings> {
    Arc::new(target::Settings {
        call: call::Settings {
            backoff: Backoff::default(),
            ..call::Settings::default()
        },
        breaker: Some(breaker::Settings {
            trip: breaker::Trip::Silence(10),
            when_down: breaker::WhenDown::Wait { most: 1000 },
            ..breaker::Settings::default()
        }),
        budget: Some(budget::Settings::default()),
        bulkhead: Some(bulkhead::Settings {
            limit: bulkhead::Limit::Adaptive(limiter::Settings::default()),
            wait: Duration::MAX,
            waiting: 1000,
        }),
        guard: Some(guard::Settings {
            mode: guard::Mode::Response(guard::Response::default()),
            ..guard::Settings::default()
        }),
        ..target::Settings::default()
    })
}

/// One call that sends one attempt, which ends as `outcome` says 20 ms later. What it does afterwards is given up.
fn call(target: &mut Target, at: Instant, outcome: &Outcome, chance: &mut impl Chance) {
    let mut call = Call::new(&Facts {
        deadline: Deadline::NONE,
        criticality: retryguard_core::Criticality::Critical,
        idempotent: true,
        replayable: true,
        ticket: Ticket(1),
    });
    if let Step::Send(attempt) = call.start(target, at, chance) {
        let ends = at.after(Duration::from_millis(20));
        call.on_outcome(attempt.number, outcome, target, ends, chance);
    }
    if !call.is_over() {
        call.abandon(target);
    }
}

/// The bytes of a target after so many calls, one every two seconds: its own and those that it holds on the heap.
fn bytes(calls: u64, outcome: &Outcome) -> u64 {
    let settings = default_policy();
    let mut kept = None;
    let counted = measure(|| {
        let mut target = Target::new(settings.clone(), Instant::ZERO);
        target.set_clock(Some(guard::WallClock { offset: 0, salt: 7 }));
        for number in 0..calls {
            call(&mut target, Instant::from_secs(2 * number), outcome, &mut Lowest);
            // A driver takes what has changed.
            black_box(target.changes());
        }
        kept = Some(target);
    });
    drop(kept);
    let on_heap = u64::try_from(counted.bytes_current).expect("a target holds memory");
    size_of::<Target>() as u64 + on_heap
}

/// A client that has never called, one whose calls succeed, and one whose calls fail. 300 bytes for the second is the aim.
#[test]
fn a_target_of_the_default_policy_is_small() {
    let failure = Outcome::Failure(Failure::new(FailureKind::Overload));
    let (new, well, unwell) = (
        bytes(0, &Outcome::Success),
        bytes(100, &Outcome::Success),
        bytes(100, &failure),
    );
    println!(
        "new {new}, well {well}, unwell {unwell}, of which {} inline",
        size_of::<Target>()
    );
    assert!(size_of::<Target>() <= 448, "{}", size_of::<Target>());
    assert!(new <= 592, "{new}");
    assert_eq!(new, well, "a target that is well needs nothing more");
    assert!(unwell <= 1500, "{unwell}");
}
