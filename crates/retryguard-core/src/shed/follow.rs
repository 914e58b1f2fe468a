//! A bound on what is in flight that follows the time that requests take.
//!
//! Requests that are worked on at once make each other wait as soon as they are more than the server can work on, and then
//! each takes longer the more there are. So the bound shrinks where requests take [`TOLERANCE`] times as long as usual, from
//! what is in use and not from what would be allowed, and grows while it is used and they take no longer.
//!
//! What is usual falls with what is measured and does not rise by itself: in an overload that lasts, an average would take the
//! overload for usual. It rises where the bound was cut and requests take nearly as long as before, with half as many in flight.
//! Then they are slower for another reason, and a smaller bound does not help.

use std::time::Duration;

use crate::time::Instant;

/// The bound and what it is found by.
#[derive(Debug, Clone)]
pub(super) struct AdaptiveBound {
    bound: f64,
    /// How long a request usually takes, in nanoseconds; zero while that is not known.
    usual: f64,
    /// The present stretch: how long its requests took together, how many there were, and how many were in flight when they
    /// ended, together and at the most.
    sum: u64,
    count: u32,
    load: u64,
    peak: u32,
    began: Instant,
    /// The longest that requests took since the bound began to shrink, and the most that were in flight. Zero while it does
    /// not shrink.
    longest: f64,
    most: f64,
}

/// How long a stretch lasts at the least, and how many requests it needs. Only those count that arrived in it: a cut shows its
/// effect on requests that were admitted after it.
const STRETCH: Duration = Duration::from_millis(100);
const REQUESTS: u32 = 20;
/// So many times as long as usual requests may take: as long again in a queue as in work.
const TOLERANCE: f64 = 2.0;
/// The deepest single cut.
const CUT: f64 = 0.7;
/// How far the usual time follows a stretch that was faster.
const FALL: f64 = 0.1;
/// From this share of the requests in flight on, what they take shows whether it follows their number: half, or less of a change
/// where the bound can shrink no further.
const HALF: f64 = 0.5;
const LESS: f64 = 0.8;
/// Never below this: fewer requests are no load for a server, and too few to measure.
const LEAST: f64 = 20.0;

impl AdaptiveBound {
    pub(super) fn new(bound: f64, now: Instant) -> Self {
        Self {
            bound,
            usual: 0.0,
            sum: 0,
            count: 0,
            load: 0,
            peak: 0,
            began: now,
            longest: 0.0,
            most: 0.0,
        }
    }

    #[inline]
    pub(super) const fn bound(&self) -> f64 {
        self.bound
    }

    /// Never above this from now on.
    pub(super) fn limit_to(&mut self, most: f64) {
        self.bound = self.bound.min(most);
    }

    /// A request has ended that arrived then, with so many in flight. One that failed counts only if it took longer than usual: a
    /// fast failure is no evidence about the load.
    pub(super) fn on_end(&mut self, failed: bool, arrived: Instant, in_flight: u32, most: f64, now: Instant) {
        let took = now.nanos_since(arrived);
        if arrived < self.began || (failed && took as f64 <= self.usual) {
            return;
        }
        self.sum = self.sum.saturating_add(took);
        self.count += 1;
        self.load += u64::from(in_flight);
        self.peak = self.peak.max(in_flight);
        if self.count >= REQUESTS && now >= self.began.after(STRETCH) {
            self.end_stretch(most, now);
        }
    }

    #[cold]
    fn end_stretch(&mut self, most: f64, now: Instant) {
        let recent = (self.sum as f64 / f64::from(self.count)).max(1.0);
        let load = (self.load as f64 / f64::from(self.count)).max(1.0);
        let peak = f64::from(self.peak);
        if self.usual == 0.0 {
            self.usual = recent;
        } else if recent < self.usual {
            self.usual += (recent - self.usual) * FALL;
        }
        if recent > TOLERANCE * self.usual {
            self.shrink(recent, load, peak);
        } else {
            (self.longest, self.most) = (0.0, 0.0);
            // A bound that requests do not come near is no evidence about how far it could go.
            if 2.0 * peak >= self.bound {
                self.bound += self.bound.sqrt();
            }
        }
        self.bound = self.bound.max(LEAST).min(most).max(1.0);
        (self.sum, self.count, self.load, self.peak) = (0, 0, 0, 0);
        self.began = now;
    }

    fn shrink(&mut self, recent: f64, load: f64, peak: f64) {
        self.longest = self.longest.max(recent);
        self.most = self.most.max(load);
        let share = load / self.most;
        if share <= HALF || (share <= LESS && self.bound <= LEAST) {
            // In a queue the time falls with the number in flight; without one it stays. Nearer to the second:
            if recent > self.longest * (1.0 + share) / 2.0 {
                self.usual = recent;
                (self.longest, self.most) = (0.0, 0.0);
                return;
            }
            (self.longest, self.most) = (recent, load);
        }
        let factor = (TOLERANCE * self.usual / recent).max(CUT);
        self.bound = (self.bound.min(peak) * factor).min(self.bound);
    }
}
