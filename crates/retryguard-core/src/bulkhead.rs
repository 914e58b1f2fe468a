//! How many attempts may be under way to one target.

mod gradient;
mod queue;

use std::time::Duration;

use crate::{
    guard::WallClock,
    limiter::{self, Ended, Limiter},
    pace::Pace,
    ratio::Ratio,
    refusal::Refusal,
    time::Instant,
};
use gradient::{Gradient, between};
use queue::Queue;

/// A limit on concurrency and a bounded queue before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The limit.
    pub limit: Limit,
    /// How long an attempt may wait for a place; zero for not at all.
    pub wait: Duration,
    /// How many may wait at once. A queue without a bound turns overload into latency.
    pub waiting: u32,
}

/// How the limit is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Always the same.
    Fixed(u32),
    /// Follows the latency: grows while the target answers as fast as it usually does, and shrinks as soon
    /// as answers take longer, which is the queue that our own attempts build at the target.
    Gradient {
        /// The limit at the start.
        initial: u32,
        /// Never below this.
        least: u32,
        /// Never above this.
        most: u32,
        /// How much slower than usual an answer may be before the limit shrinks: 1.5 is half as slow again.
        tolerance: Ratio,
    },
    /// Follows what becomes of attempts: shrinks when answers come too late, or slowly and beside rejections.
    Adaptive(limiter::Settings),
}

impl Default for Settings {
    /// 100 at once, no call waits.
    fn default() -> Self {
        Self {
            limit: Limit::Fixed(100),
            wait: Duration::ZERO,
            waiting: 0,
        }
    }
}

/// Who waits for a place. The driver chooses the number and must be able to find the waiting call by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What is known of an attempt that may have to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    pub(crate) deadline: Instant,
    /// Whether the call is made while a request is served: it holds that request's worker while it waits.
    pub(crate) inner: bool,
}

/// The answer to [`Bulkhead::acquire`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acquired {
    /// There was a free place: it belongs to this ticket now.
    Taken,
    /// The ticket stands in the queue; [`Bulkhead::grant`] will name it.
    Queued,
}

/// The bulkhead of one target: first come, first served.
///
/// `S` keeps the settings: they themselves, or something that many targets share.
///
/// ```
/// use std::time::Duration;
///
/// use retryguard_core::{
///     Instant,
///     bulkhead::{Acquired, Bulkhead, Limit, Settings, Ticket},
/// };
///
/// let settings = Settings { limit: Limit::Fixed(1), wait: Duration::from_secs(1), waiting: 10 };
/// let mut bulkhead = Bulkhead::new(settings, Instant::from_secs(1));
/// assert_eq!(bulkhead.acquire(Ticket(1))?, Acquired::Taken);
/// assert_eq!(bulkhead.acquire(Ticket(2))?, Acquired::Queued);
///
/// bulkhead.release();
/// assert_eq!(bulkhead.grant(), Some(Ticket(2)));
/// # Ok::<(), retryguard_core::Refusal>(())
/// ```
#[derive(Debug, Clone)]
pub struct Bulkhead<S = Settings> {
    settings: S,
    taken: u32,
    /// The waiting calls, once there has been one. On the heap, like the limits: a large simulation has a bulkhead for each client.
    queue: Option<Box<Queue>>,
    gradient: Option<Box<Gradient>>,
    limiter: Option<Box<Limiter>>,
}

impl AsRef<Self> for Settings {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<S: AsRef<Settings>> Bulkhead<S> {
    /// A bulkhead with every place free.
    #[must_use]
    pub fn new(settings: S, now: Instant) -> Self {
        let limit = settings.as_ref().limit;
        Self {
            settings,
            taken: 0,
            queue: None,
            gradient: Gradient::follows(limit).then(|| Box::new(Gradient::new(limit, now))),
            limiter: match limit {
                Limit::Adaptive(settings) => Some(Box::new(Limiter::new(settings))),
                Limit::Fixed(_) | Limit::Gradient { .. } => None,
            },
        }
    }

    /// Changes the settings; calls that were admitted stay admitted. An adaptive limit goes on from where it was.
    pub fn replace(&mut self, settings: S) {
        let limit = settings.as_ref().limit;
        if let Limit::Gradient {
            initial, least, most, ..
        } = limit
        {
            let gradient = self
                .gradient
                .get_or_insert_with(|| Box::new(Gradient::new(limit, Instant::ZERO)));
            let from = match self.settings.as_ref().limit {
                Limit::Fixed(_) | Limit::Adaptive(_) => f64::from(initial),
                Limit::Gradient { .. } => gradient.limit,
            };
            gradient.limit = between(from, least, most);
        }
        self.limiter = match (self.limiter.take(), limit) {
            (Some(mut limiter), Limit::Adaptive(settings)) => {
                limiter.replace(settings);
                Some(limiter)
            }
            (None, Limit::Adaptive(settings)) => Some(Box::new(Limiter::new(settings))),
            (_, Limit::Fixed(_) | Limit::Gradient { .. }) => None,
        };
        self.settings = settings;
    }

    /// The limit in force.
    #[inline]
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped between two u32"
    )]
    pub fn limit(&self) -> u32 {
        match self.settings.as_ref().limit {
            Limit::Fixed(limit) => limit,
            Limit::Gradient { initial, .. } => self
                .gradient
                .as_ref()
                .map_or(initial, |gradient| gradient.limit as u32),
            Limit::Adaptive(settings) => self
                .limiter
                .as_ref()
                .map_or(settings.most, |limiter| limiter.places()),
        }
    }

    /// Whether the limit follows the latency.
    #[inline]
    #[must_use]
    pub fn is_adaptive(&self) -> bool {
        !matches!(self.settings.as_ref().limit, Limit::Fixed(_))
    }

    /// The share of an attempt's allowed time from which on answers are late.
    #[inline]
    pub(crate) fn late(&self) -> Ratio {
        match self.settings.as_ref().limit {
            Limit::Adaptive(settings) => settings.late,
            Limit::Fixed(_) | Limit::Gradient { .. } => limiter::Settings::LATE,
        }
    }

    /// How many places are taken.
    #[inline]
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.taken
    }

    /// How many wait.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.len())
    }

    /// How long a queued ticket may wait.
    #[inline]
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.settings.as_ref().wait
    }

    /// Takes a place if there is one now, without queueing. It never overtakes a call that waits.
    #[inline]
    pub fn try_acquire(&mut self) -> bool {
        self.try_acquire_at(Instant::NEVER)
    }

    /// The same at a time, for a limit that may be a pause.
    #[inline]
    pub(crate) fn try_acquire_at(&mut self, now: Instant) -> bool {
        let free = self.waiting() == 0 && self.has_place(now);
        if free {
            self.take(now);
        }
        free
    }

    #[inline]
    fn has_place(&self, now: Instant) -> bool {
        let Some(limiter) = &self.limiter else {
            return self.taken < self.limit();
        };
        self.taken.saturating_add(limiter.abandoned(now)) < limiter.places() && limiter.opens() <= now
    }

    #[inline]
    fn take(&mut self, now: Instant) {
        self.taken += 1;
        if let Some(limiter) = &mut self.limiter {
            limiter.on_start(now);
        }
    }

    /// How many places there are while no attempt waits and no limit but a fixed one is in force; `None` otherwise.
    pub(crate) fn places_at_rest(&self) -> Option<u32> {
        if self.waiting() > 0 {
            return None;
        }
        match (self.settings.as_ref().limit, &self.limiter) {
            (Limit::Fixed(limit), _) => Some(limit),
            (Limit::Adaptive(_), Some(limiter)) if limiter.is_free() => Some(limiter.places()),
            (Limit::Adaptive(_) | Limit::Gradient { .. }, _) => None,
        }
    }

    /// Takes one of these places. False where none is free, or where an adaptive limit has come into force since.
    #[inline]
    pub(crate) fn take_at_rest(&mut self, places: u32, now: Instant) -> bool {
        let free = self.taken < places && self.limiter.as_ref().is_none_or(|limiter| limiter.is_free());
        if free {
            self.take(now);
        }
        free
    }

    /// When the next place can come free by time alone; never where only an attempt that ends can free one.
    #[inline]
    #[must_use]
    pub fn opens(&self) -> Instant {
        match &self.limiter {
            Some(limiter) if self.taken < self.limit() => limiter.opens().max(limiter.abandoned_until()),
            _ => Instant::NEVER,
        }
    }

    /// The target is down: what comes after starts small.
    pub fn on_down(&mut self) {
        if let Some(limiter) = &mut self.limiter {
            limiter.on_down();
        }
    }

    /// The target is up again.
    pub fn on_up(&mut self) {
        if let Some(limiter) = &mut self.limiter {
            limiter.on_up();
        }
    }

    /// How many attempts are under way in normal times, where the limit is adaptive: as many may wait for a place while
    /// they hold the worker of the request that makes them. Others would take the workers that still have work.
    #[must_use]
    pub fn normal(&self) -> u32 {
        self.limiter.as_ref().map_or(u32::MAX, |limiter| limiter.normal())
    }

    /// Whether a ticket is the first in the queue.
    #[must_use]
    pub fn is_first(&self, ticket: Ticket) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.is_first(ticket))
    }

    /// Puts a ticket at the end of the queue, or back to its front, whatever places are free; false if too many wait.
    pub fn enqueue(
        &mut self,
        ticket: Ticket,
        front: bool,
        most: u32,
        deadline: Instant,
        now: Instant,
    ) -> bool {
        if front {
            self.queue.get_or_insert_default().rejoin(ticket, deadline);
            return true;
        }
        if self.waiting() >= most as usize {
            return false;
        }
        self.queue.get_or_insert_default().join(ticket, deadline, now);
        true
    }

    /// Takes a place, joins the queue, or is refused.
    #[inline]
    pub fn acquire(&mut self, ticket: Ticket) -> Result<Acquired, Refusal> {
        let waiter = Waiter {
            ticket,
            deadline: Instant::NEVER,
            inner: false,
        };
        self.acquire_for(waiter, Instant::NEVER)
    }

    /// The same for an attempt with a deadline, at a time.
    #[inline]
    pub(crate) fn acquire_for(&mut self, waiter: Waiter, now: Instant) -> Result<Acquired, Refusal> {
        if self.try_acquire_at(now) {
            return Ok(Acquired::Taken);
        }
        if let Some(limiter) = &mut self.limiter {
            if waiter.inner && self.taken < limiter.inner_places() {
                self.take(now);
                return Ok(Acquired::Taken);
            }
            limiter.on_met();
            if waiter.inner {
                return Err(Refusal::BulkheadFull);
            }
        }
        let settings = self.settings.as_ref();
        if settings.wait.is_zero() || self.waiting() >= settings.waiting as usize {
            return Err(Refusal::BulkheadFull);
        }
        let queue = self.queue.get_or_insert_default();
        queue.join(waiter.ticket, waiter.deadline, now);
        Ok(Acquired::Queued)
    }

    /// Gives a place back. The driver then asks [`Bulkhead::grant`] which call is next.
    #[inline]
    pub fn release(&mut self) {
        debug_assert!(self.taken > 0, "a place is given back once");
        self.taken = self.taken.saturating_sub(1);
    }

    /// The next ticket that gets a place, which is taken for it from this moment. Asked until it says none.
    #[inline]
    pub fn grant(&mut self) -> Option<Ticket> {
        self.grant_at(None, Instant::NEVER)
    }

    /// The same at a time. With a margin, the oldest whose deadline leaves that much time for an answer comes first.
    #[inline]
    pub(crate) fn grant_at(&mut self, margin: Option<Duration>, now: Instant) -> Option<Ticket> {
        if self.waiting() == 0 || !self.has_place(now) {
            return None;
        }
        self.take(now);
        self.queue.as_mut()?.next(margin, now)
    }

    /// Takes a ticket out of the queue. False if it was not there, because it has been granted a place.
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        self.queue.as_mut().is_some_and(|queue| queue.leave(ticket))
    }

    /// An attempt was answered after `latency`; only an adaptive limit listens.
    #[inline]
    pub fn on_latency(&mut self, latency: Duration, rejected: bool, now: Instant) {
        if let Limit::Gradient {
            least,
            most,
            tolerance,
            ..
        } = self.settings.as_ref().limit
            && let Some(gradient) = &mut self.gradient
        {
            gradient.add(latency, rejected);
            if gradient.is_due(now) {
                gradient.update(tolerance.as_f64(), least, most, self.taken, now);
            }
        }
    }

    /// An attempt has ended; only an adaptive limit listens. Whether [`Bulkhead::run_experiment`] is due.
    #[inline]
    pub(crate) fn on_end(&mut self, ended: &Ended, pace: &Pace, now: Instant) -> bool {
        self.limiter.as_mut().is_some_and(|limiter| {
            if self.queue.as_ref().is_some_and(|queue| queue.len() > 0) {
                limiter.on_met();
            }
            limiter.on_end(ended, self.taken + 1, pace, now)
        })
    }

    /// The same for the experiment of an adaptive limit, with the clock that all clients of the target share.
    #[cold]
    pub(crate) fn run_experiment(
        &mut self,
        ended: &Ended,
        clock: Option<WallClock>,
        pace: &Pace,
        now: Instant,
    ) {
        if let Some(limiter) = &mut self.limiter {
            limiter.run_experiment(ended, clock, pace, now);
        }
    }
}

#[cfg(test)]
mod tests;
