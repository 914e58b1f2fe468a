mod agreement;
mod curves;
mod edges;
mod slides;

use std::time::Duration;

use retryguard_core::{
    Backoff, Instant, Ratio,
    backoff::{Growth, Jitter},
};

use super::{Behaviour, Failures, Fleet, Pace, Start};

const PERIOD: Duration = Duration::from_secs(300);

/// A period times 0.5 to 1.5, as on the slides.
const JITTERED: Pace = Pace::Jittered {
    low: Ratio::percent(50),
    high: Ratio::percent(150),
};

const FACTOR: Jitter = Jitter::Factor {
    low: Ratio::percent(50),
    high: Ratio::percent(150),
};

fn fleet(start: Start, pace: Pace, retry: Option<Backoff>) -> Fleet {
    Fleet {
        clients: 20_000,
        behaviour: Behaviour {
            period: PERIOD,
            start,
            pace,
            retry,
        },
        failures: Vec::new(),
        duration: Duration::from_secs(1800),
        step: Duration::from_secs(10),
    }
}

/// 10 s, doubling or not.
fn retry(growth: Growth, jitter: Jitter) -> Backoff {
    Backoff {
        growth,
        initial: Duration::from_secs(10),
        cap: Duration::from_secs(1_000_000),
        jitter,
        stop_beyond: None,
    }
}

fn doubling() -> Growth {
    Growth::Exponential(Ratio::percent(200))
}

fn bad(from: u64, until: u64, share: f64) -> Failures {
    Failures {
        from: at(from),
        until: at(until),
        share,
    }
}

fn at(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}
