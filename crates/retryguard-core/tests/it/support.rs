//! What the scripts share: short words for settings, calls and steps, and a seeded generator.

use std::{sync::Arc, time::Duration};

use retryguard_core::{
    Backoff, Call, Chance, Criticality, Deadline, Failure, FailureKind, Instant, Outcome, Ratio, Refusal,
    Target,
    backoff::{Growth, Jitter},
    breaker, budget, bulkhead,
    bulkhead::Ticket,
    call::{self, Attempt, Facts, Step, Verdict},
    chance::Lowest,
    guard, hedge,
    outcome::Hints,
    target,
};

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Two retries after 10 ms each, nothing else: no jitter, no deadline, no timeout.
pub(crate) fn plain() -> target::Settings {
    target::Settings {
        call: call::Settings {
            retries: 2,
            backoff: constant(10),
            deadline: None,
            least_attempt: ms(1),
            ..call::Settings::default()
        },
        ..target::Settings::default()
    }
}

pub(crate) fn constant(millis: u64) -> Backoff {
    Backoff {
        growth: Growth::Constant,
        initial: ms(millis),
        jitter: Jitter::None,
        ..Backoff::default()
    }
}

/// Opens for 100 ms at the first failures in a row; one probe at a time, two to close.
pub(crate) fn breaker(failures: u32) -> breaker::Settings {
    breaker::Settings {
        trip: breaker::Trip::Consecutive(failures),
        open_for: ms(100),
        open_for_at_most: ms(100),
        probes: 1,
        close_after: 2,
        when_down: breaker::WhenDown::Fail,
    }
}

/// A ratio over ten seconds without a reserve.
pub(crate) fn ratio(percent: u32) -> budget::Settings {
    budget::Settings::Ratio {
        ratio: Ratio::percent(percent),
        window: Duration::from_secs(10),
        reserve: budget::Reserve::default(),
    }
}

pub(crate) fn bulkhead(limit: u32, waiting: u32) -> bulkhead::Settings {
    bulkhead::Settings {
        limit: bulkhead::Limit::Fixed(limit),
        wait: ms(50),
        waiting,
    }
}

pub(crate) fn hedge(after: u64, most: u8) -> hedge::Settings {
    hedge::Settings {
        after: hedge::After::Fixed(ms(after)),
        most,
    }
}

/// Algorithm 1 starts switched off: a guard that refuses without being fed.
pub(crate) fn guard_off() -> guard::Settings {
    guard::Settings {
        mode: guard::Mode::Algorithm1 {
            threshold: Ratio::percent(20),
            samples: 1000,
        },
        ..guard::Settings::default()
    }
}

pub(crate) fn target(settings: target::Settings) -> Target {
    Target::new(Arc::new(settings), Instant::ZERO)
}

pub(crate) fn facts(ticket: u64) -> Facts {
    Facts {
        deadline: Deadline::NONE,
        criticality: Criticality::Critical,
        idempotent: true,
        replayable: true,
        ticket: Ticket(ticket),
    }
}

pub(crate) fn call(ticket: u64) -> Call {
    Call::new(&facts(ticket))
}

pub(crate) fn failed(kind: FailureKind) -> Outcome {
    Outcome::Failure(Failure::new(kind))
}

pub(crate) fn hinted(kind: FailureKind, hints: Hints) -> Outcome {
    Outcome::Failure(Failure::new(kind).with_hints(hints))
}

pub(crate) fn retry_after(millis: u64) -> Hints {
    Hints {
        retry_after: Some(ms(millis)),
        ..Hints::NONE
    }
}

pub(crate) const FAULT: FailureKind = FailureKind::Fault;

/// Starts a call whose first attempt is sent.
pub(crate) fn started(ticket: u64, target: &mut Target, now: Instant) -> Call {
    let mut call = call(ticket);
    sent(call.start(target, now, &mut Lowest));
    call
}

/// Ends attempt `number` of a call with the lowest of all draws.
pub(crate) fn end(call: &mut Call, number: u8, outcome: &Outcome, target: &mut Target, now: Instant) -> Step {
    call.on_outcome(number, outcome, target, now, &mut Lowest)
}

/// A whole call of one attempt that comes to `outcome`, whatever follows from it.
pub(crate) fn one_attempt(outcome: &Outcome, target: &mut Target, now: Instant) {
    let mut call = started(u64::MAX, target, now);
    end(&mut call, 1, outcome, target, now);
    call.abandon(target);
}

#[track_caller]
pub(crate) fn sent(step: Step) -> Attempt {
    match step {
        Step::Send(attempt) => attempt,
        other => panic!("not sent: {other:?}"),
    }
}

/// Why a call that is over was not tried (again).
#[track_caller]
pub(crate) fn refusal(step: Step) -> Refusal {
    match step {
        Step::Done(Verdict::Failure { refusal, .. } | Verdict::Refused { refusal, .. }) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// Sebastiano Vigna's `SplitMix64`: a few lines, and good enough to test distributions with.
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Chance for SplitMix {
    /// The high half of a 128-bit product: biased by less than `bound` in 2^64, which no test here can see.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
