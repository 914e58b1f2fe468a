//! The policies of the worlds: small numbers, so that everything they bound is met within a few events.

use retryguard_core::{
    Backoff, Ratio, backoff::Jitter, breaker, bulkhead, call, guard, target::Settings, throttle,
};

use crate::support::{constant, hedge, ms, plain, ratio};

/// One retry after 10 ms, attempts of 20 ms, a deadline of 45 ms.
pub(super) fn base() -> Settings {
    Settings {
        call: call::Settings {
            retries: 1,
            attempt_timeout: Some(ms(20)),
            deadline: Some(ms(45)),
            ..plain().call
        },
        ..plain()
    }
}

pub(super) fn with_jitter() -> Settings {
    let mut policy = base();
    policy.call.retries = 2;
    policy.call.backoff = Backoff {
        jitter: Jitter::Full,
        ..constant(10)
    };
    policy
}

pub(super) fn breaker(probes: u32, close_after: u32) -> Option<breaker::Settings> {
    Some(breaker::Settings {
        trip: breaker::Trip::Consecutive(1),
        open_for: ms(10),
        open_for_at_most: ms(20),
        probes,
        close_after,
        when_down: retryguard_core::breaker::WhenDown::Fail,
    })
}

pub(super) fn bulkhead(limit: u32) -> Option<bulkhead::Settings> {
    Some(bulkhead::Settings {
        limit: bulkhead::Limit::Fixed(limit),
        wait: ms(10),
        waiting: 2,
    })
}

pub(super) fn guard() -> Option<guard::Settings> {
    Some(guard::Settings {
        mode: guard::Mode::Algorithm1 {
            threshold: Ratio::percent(20),
            samples: 1,
        },
        interval: ms(10),
        ..guard::Settings::default()
    })
}

/// So quick that a handful of calls takes it off, back by a ramp of one step, and off again.
pub(super) fn ramping_guard() -> Option<guard::Settings> {
    Some(guard::Settings {
        mode: guard::Mode::Hysteresis(guard::Hysteresis {
            samples: 1,
            minimum_calls: 1,
            cool_down: ms(5),
            cool_down_at_most: ms(10),
            ramp_steps: 1,
            step_for: ms(5),
            quiet_after: ms(5),
            ..guard::Hysteresis::default()
        }),
        interval: ms(5),
        ..guard::Settings::default()
    })
}

pub(super) fn everything() -> Settings {
    Settings {
        breaker: breaker(1, 2),
        budget: Some(ratio(100)),
        throttle: Some(throttle::Settings::default()),
        bulkhead: bulkhead(1),
        hedge: Some(hedge(10, 1)),
        guard: ramping_guard(),
        ..base()
    }
}
