//! Parts of foreign policies that the core does not have.

pub(crate) mod limiter;
mod send_limiter;

use std::time::Duration;

use retryguard_core::Instant;

use crate::streams::{Purpose, Seed};
pub use limiter::Adaptive;
use limiter::{End, Limiter};
use send_limiter::SendLimiter;

/// A part beside the machines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extra {
    /// None.
    None,
    /// The adaptive mode of the AWS SDKs: every attempt waits for its turn once a throttle has been seen.
    SendLimiter,
    /// Envoy: so many retries at once (those in their wait included), as a share of the active requests and
    /// at the least.
    ConcurrentRetries {
        /// The share of the active requests.
        share: f64,
        /// At the least.
        least: u32,
    },
    /// Finagle: each call deposits a share of a retry for a while, beside a reserve that is there from the
    /// beginning.
    Deposits {
        /// The deposit of a call.
        share: f64,
        /// How long it lasts.
        window: Duration,
        /// The reserve, for each window.
        reserve: f64,
    },
    /// gRPC: a failure takes a token, a success gives a part of one, retries need more than half.
    Tokens {
        /// The most tokens, and those at the start.
        most: f64,
        /// What a success gives.
        gain: f64,
    },
    /// A limit on concurrency that follows the target.
    Adaptive(Adaptive),
}

/// The state of such a part, one for each client that keeps state.
#[derive(Debug)]
pub(crate) enum Part {
    None,
    SendLimiter(Box<SendLimiter>),
    ConcurrentRetries { share: f64, least: u32, active: u32 },
    Deposits(Box<Deposits>),
    Tokens { most: f64, gain: f64, left: f64 },
    Limiter(Box<Limiter>),
}

impl Part {
    /// The part of the client of this number.
    pub(crate) fn new(extra: &Extra, client: u64) -> Self {
        match *extra {
            Extra::None => Self::None,
            Extra::SendLimiter => Self::SendLimiter(Box::default()),
            Extra::ConcurrentRetries { share, least } => Self::ConcurrentRetries {
                share,
                least,
                active: 0,
            },
            Extra::Deposits {
                share,
                window,
                reserve,
            } => Self::Deposits(Box::new(Deposits::new(share, window, reserve))),
            Extra::Tokens { most, gain } => Self::Tokens {
                most,
                gain,
                left: most,
            },
            Extra::Adaptive(which) => {
                let chance = Seed(client).stream(0, Purpose::Policy);
                Self::Limiter(Box::new(Limiter::new(which, chance)))
            }
        }
    }

    /// Whether an attempt of a call may be sent; one that may not fails at once.
    #[inline]
    pub(crate) fn admit(&mut self, call: u64, now: Instant) -> bool {
        match self {
            Self::Limiter(limiter) => limiter.admit(call, now),
            _ => true,
        }
    }

    /// A call has ended.
    #[inline]
    pub(crate) fn on_call_end(&mut self, call: u64, end: End, now: Instant) {
        if let Self::Limiter(limiter) = self {
            limiter.on_call_end(call, end, now);
        }
    }

    /// How long an attempt waits before it asks again; nothing where it may be sent now.
    #[inline]
    pub(crate) fn hold(&mut self, now: Instant) -> Duration {
        match self {
            Self::SendLimiter(limiter) => limiter.acquire(now),
            _ => Duration::ZERO,
        }
    }

    /// A call begins.
    #[inline]
    pub(crate) fn on_call(&mut self, now: Instant) {
        if let Self::Deposits(deposits) = self {
            deposits.add(deposits.share, now);
        }
    }

    /// An attempt has ended.
    #[inline]
    pub(crate) fn on_attempt_end(&mut self, call: u64, end: End, now: Instant) {
        let success = end == End::Success;
        let rejected = matches!(end, End::Rejected | End::TimedOut);
        match self {
            Self::SendLimiter(limiter) => limiter.on_response(rejected, now),
            Self::Tokens { most, gain, left } => {
                *left = if success {
                    (*left + *gain).min(*most)
                } else {
                    (*left - 1.0).max(0.0)
                };
            }
            Self::Limiter(limiter) => limiter.on_attempt_end(call, end, now),
            _ => {}
        }
    }

    /// Whether a retry may be sent, with so many requests active. A yes takes what it costs.
    #[inline]
    pub(crate) fn allow_retry(&mut self, call: u64, in_flight: u32, now: Instant) -> bool {
        match self {
            Self::None | Self::SendLimiter(_) => true,
            Self::ConcurrentRetries { share, least, active } => {
                let allowed = f64::from(*active) < (*share * f64::from(in_flight)).max(f64::from(*least));
                *active += u32::from(allowed);
                allowed
            }
            Self::Deposits(deposits) => deposits.withdraw(now),
            Self::Tokens { most, left, .. } => *left > *most / 2.0,
            Self::Limiter(limiter) => limiter.allow_retry(call),
        }
    }

    /// A retry that was allowed has ended.
    #[inline]
    pub(crate) fn on_retry_end(&mut self) {
        match self {
            Self::ConcurrentRetries { active, .. } => *active = active.saturating_sub(1),
            Self::Limiter(limiter) => limiter.on_retry_end(),
            _ => {}
        }
    }
}

/// Finagle's leaky token bucket: what was deposited and withdrawn counts for one window.
#[derive(Debug)]
pub(crate) struct Deposits {
    share: f64,
    slice: Duration,
    reserve: f64,
    slices: [f64; Self::SLICES],
    latest: u64,
}

impl Deposits {
    const SLICES: usize = 10;

    fn new(share: f64, window: Duration, reserve: f64) -> Self {
        Self {
            share,
            slice: window / 10,
            reserve,
            slices: [0.0; Self::SLICES],
            latest: 0,
        }
    }

    fn add(&mut self, amount: f64, now: Instant) {
        let index = self.turn(now);
        self.slices[index] += amount;
    }

    fn withdraw(&mut self, now: Instant) -> bool {
        let index = self.turn(now);
        if self.reserve + self.slices.iter().sum::<f64>() < 1.0 - 1e-9 {
            return false;
        }
        self.slices[index] -= 1.0;
        true
    }

    /// The present slice, those that have passed emptied.
    #[expect(clippy::cast_possible_truncation, reason = "an index below ten")]
    fn turn(&mut self, now: Instant) -> usize {
        let present = now.as_nanos() / retryguard_core::time::nanos(self.slice).max(1);
        let passed = (present - self.latest.min(present)).min(Self::SLICES as u64);
        for step in 1..=passed {
            self.slices[((self.latest + step) % Self::SLICES as u64) as usize] = 0.0;
        }
        self.latest = self.latest.max(present);
        (self.latest % Self::SLICES as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finagle_allows_a_fifth_beyond_its_reserve() {
        let mut part = Part::new(
            &Extra::Deposits {
                share: 0.2,
                window: Duration::from_secs(10),
                reserve: 100.0,
            },
            0,
        );
        let now = Instant::from_secs(100);
        (0..1000).for_each(|_| part.on_call(now));
        let allowed = (0..1000).filter(|_| part.allow_retry(0, 0, now)).count();
        assert_eq!(allowed, 300);
        assert!(!part.allow_retry(0, 0, Instant::from_secs(105)));
        assert!(
            part.allow_retry(0, 0, Instant::from_secs(111)),
            "what was withdrawn is forgotten with its window"
        );
    }

    #[test]
    fn grpc_stops_at_half_its_tokens() {
        let mut part = Part::new(
            &Extra::Tokens {
                most: 10.0,
                gain: 0.1,
            },
            0,
        );
        let now = Instant::ZERO;
        (0..4).for_each(|_| part.on_attempt_end(0, End::Rejected, now));
        assert!(part.allow_retry(0, 0, now));
        part.on_attempt_end(0, End::Rejected, now);
        assert!(!part.allow_retry(0, 0, now));
        part.on_attempt_end(0, End::Success, now);
        assert!(part.allow_retry(0, 0, now));
    }

    #[test]
    fn envoy_counts_retries_until_they_end() {
        let mut part = Part::new(&Extra::ConcurrentRetries { share: 0.2, least: 3 }, 0);
        assert_eq!(
            (0..10).filter(|_| part.allow_retry(0, 5, Instant::ZERO)).count(),
            3
        );
        assert!(part.allow_retry(0, 20, Instant::ZERO));
        assert!(!part.allow_retry(0, 20, Instant::ZERO));
        part.on_retry_end();
        assert!(part.allow_retry(0, 20, Instant::ZERO));
    }
}
