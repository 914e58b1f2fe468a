//! One client after the other.

use std::time::Duration;

use retryguard_core::{Backoff, Chance, Instant, schedule::Schedule, time::nanos};

use super::{Behaviour, Fleet, Pace, Series, Start};
use crate::streams::{Purpose, Seed, Stream};

/// Runs every client of a fleet on its own.
#[must_use]
pub fn run(fleet: &Fleet, seed: Seed) -> Series {
    let mut series = Series::new(fleet);
    let end = Instant::ZERO.after(fleet.duration);
    for number in 0..fleet.clients {
        let mut client = Client {
            fleet,
            schedule: Schedule::new(fleet.behaviour.period),
            periods: seed.stream(number, Purpose::Period),
            waits: seed.stream(number, Purpose::Policy),
            faults: seed.stream(number, Purpose::Fault),
        };
        let mut next = client.start();
        while let Some(now) = next.filter(|now| *now < end) {
            let done = client.call(now, end, &mut series);
            next = done.and_then(|done| client.next(done));
        }
    }
    series
}

struct Client<'f> {
    fleet: &'f Fleet,
    schedule: Schedule,
    periods: Stream,
    waits: Stream,
    faults: Stream,
}

impl Client<'_> {
    fn behaviour(&self) -> &Behaviour {
        &self.fleet.behaviour
    }

    /// A regular request and its retries. When it was done with, or `None` if the run ended before that.
    fn call(&mut self, mut now: Instant, end: Instant, series: &mut Series) -> Option<Instant> {
        let retry: Option<Backoff> = self.behaviour().retry;
        let mut previous = Duration::ZERO;
        for retries in 0_u32.. {
            if now >= end {
                return None;
            }
            let failed = self.faults.with_probability(self.fleet.failure_at(now));
            series.count(now, retries > 0, failed);
            if !failed {
                break;
            }
            let wait = retry.and_then(|backoff| backoff.delay(retries + 1, previous, &mut self.waits));
            let Some(wait) = wait else { break };
            previous = wait;
            now = now.after(wait);
        }
        Some(now)
    }

    fn start(&mut self) -> Option<Instant> {
        match self.behaviour().start {
            Start::AtOnce => Some(Instant::ZERO),
            Start::AfterAWait => self.next(Instant::ZERO),
            Start::Settled => Some(self.settled()),
        }
    }

    /// The first request of a client that has been running for ever.
    fn settled(&mut self) -> Instant {
        match self.behaviour().pace {
            Pace::Fixed | Pace::Slots => self.schedule.first(Instant::ZERO, &mut self.periods),
            // All of them stand on the edge for ever.
            Pace::SlotsTruncatedLate => Instant::ZERO,
            Pace::Jittered { low, high } => {
                // The wait that covers a random moment is drawn in proportion to its length, and the moment is
                // uniform in it.
                let period = self.behaviour().period.as_secs_f64();
                let (low, high) = (low.as_f64() * period, high.as_f64() * period);
                let square = self.periods.between(low * low, high * high);
                let left = square.sqrt() * self.periods.uniform();
                Instant::ZERO.after(Duration::from_secs_f64(left))
            }
        }
    }

    /// The next regular request of a client that is done with the last one.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        let period = self.behaviour().period;
        match self.behaviour().pace {
            Pace::Slots => self.schedule.next(now, &mut self.periods),
            Pace::Fixed => Some(now.after(period)),
            Pace::Jittered { low, high } => {
                let (low, high) = (low.of(period), high.of(period));
                Some(now.after(low + self.periods.up_to(high.saturating_sub(low))))
            }
            Pace::SlotsTruncatedLate => {
                let period = nanos(period);
                let later = now.as_nanos() + period + self.periods.below(period);
                Some(Instant::from_nanos(later / period * period))
            }
        }
    }
}
