//! How many attempts may be under way to one target.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    limiter::{self, End, Limiter},
    pace::Pace,
    ratio::Ratio,
    refusal::Refusal,
    time::{Instant, nanos},
};

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
pub enum Place {
    /// There is a place, and it is taken now.
    Taken,
    /// The ticket stands in the queue; [`Bulkhead::grant`] will name it.
    Queued,
}

/// The bulkhead of one target: first come, first served.
#[derive(Debug, Clone)]
pub struct Bulkhead {
    settings: Settings,
    taken: u32,
    queue: Queue,
    gradient: Gradient,
    limiter: Option<Box<Limiter>>,
}

/// Tickets in the order of their arrival, and apart from them those that have little time left. Ordered maps, so that a
/// ticket leaves from the middle in logarithmic time: a shutdown that aborts a long queue one call after the other took
/// quadratic time with a list.
#[derive(Debug, Clone, Default)]
struct Queue {
    timely: BTreeMap<i64, (Ticket, Instant)>,
    late: BTreeMap<i64, Ticket>,
    arrivals: BTreeMap<Ticket, i64>,
    /// The numbers of the last that came and of the last that was put back before all others.
    arrived: i64,
    returned: i64,
    /// The longest time that those who came had left, fading: what calls are usually given.
    given: Duration,
}

impl Queue {
    #[inline]
    fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    #[inline]
    fn len(&self) -> usize {
        self.arrivals.len()
    }

    fn join(&mut self, ticket: Ticket, deadline: Instant, now: Instant) {
        self.arrived += 1;
        self.given = now.until(deadline).max(self.given - self.given / 1024);
        self.insert(self.arrived, ticket, deadline);
    }

    /// Puts a ticket back before all others.
    fn rejoin(&mut self, ticket: Ticket, deadline: Instant) {
        self.returned -= 1;
        self.insert(self.returned, ticket, deadline);
    }

    fn insert(&mut self, number: i64, ticket: Ticket, deadline: Instant) {
        let before = self.arrivals.insert(ticket, number);
        debug_assert!(before.is_none(), "a ticket waits once");
        self.timely.insert(number, (ticket, deadline));
    }

    /// The oldest. With a margin: the oldest whose deadline leaves that much time for an answer, and at least half of what
    /// calls are usually given; after all of these the newest of the others, which has the best chance among them.
    fn next(&mut self, margin: Option<Duration>, now: Instant) -> Option<Ticket> {
        let enough = margin.map_or(Duration::ZERO, |margin| {
            margin.clamp(self.given / 2, (self.given / 4).saturating_mul(3))
        });
        while let Some((number, (ticket, deadline))) = self.timely.pop_first() {
            if margin.is_none() || now.after(enough) <= deadline {
                self.arrivals.remove(&ticket);
                return Some(ticket);
            }
            self.late.insert(number, ticket);
        }
        let (_, ticket) = self.late.pop_last()?;
        self.arrivals.remove(&ticket);
        Some(ticket)
    }

    /// Whether a ticket is the next, as far as can be seen without looking at the time.
    fn is_first(&self, ticket: Ticket) -> bool {
        match self.timely.first_key_value() {
            Some((_, first)) => first.0 == ticket,
            None => self
                .late
                .last_key_value()
                .is_some_and(|(_, last)| *last == ticket),
        }
    }

    fn leave(&mut self, ticket: Ticket) -> bool {
        match self.arrivals.remove(&ticket) {
            Some(number) => self.timely.remove(&number).is_some() || self.late.remove(&number).is_some(),
            None => false,
        }
    }
}

impl Bulkhead {
    /// A bulkhead with every place free.
    #[must_use]
    pub fn new(settings: Settings, now: Instant) -> Self {
        Self {
            settings,
            taken: 0,
            queue: Queue::default(),
            gradient: Gradient::new(settings.limit, now),
            limiter: match settings.limit {
                Limit::Adaptive(settings) => Some(Box::new(Limiter::new(settings))),
                Limit::Fixed(_) | Limit::Gradient { .. } => None,
            },
        }
    }

    /// Changes the settings; calls that were admitted stay admitted. An adaptive limit goes on from where it was.
    pub fn replace(&mut self, settings: Settings) {
        if let Limit::Gradient {
            initial, least, most, ..
        } = settings.limit
        {
            let from = match self.settings.limit {
                Limit::Fixed(_) | Limit::Adaptive(_) => f64::from(initial),
                Limit::Gradient { .. } => self.gradient.limit,
            };
            self.gradient.limit = between(from, least, most);
        }
        self.limiter = match (self.limiter.take(), settings.limit) {
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
        match self.settings.limit {
            Limit::Fixed(limit) => limit,
            Limit::Gradient { .. } => self.gradient.limit as u32,
            Limit::Adaptive(settings) => self
                .limiter
                .as_ref()
                .map_or(settings.most, |limiter| limiter.places()),
        }
    }

    /// Whether the limit follows the latency.
    #[inline]
    #[must_use]
    pub const fn is_adaptive(&self) -> bool {
        !matches!(self.settings.limit, Limit::Fixed(_))
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
        self.queue.len()
    }

    /// How long a queued ticket may wait.
    #[inline]
    #[must_use]
    pub const fn wait(&self) -> Duration {
        self.settings.wait
    }

    /// Takes a place if there is one now, without queueing. It never overtakes a call that waits.
    #[inline]
    pub fn try_acquire(&mut self) -> bool {
        self.try_acquire_at(Instant::NEVER)
    }

    /// The same at a time, for a limit that may be a pause.
    #[inline]
    pub(crate) fn try_acquire_at(&mut self, now: Instant) -> bool {
        let free = self.queue.is_empty() && self.has_place(now);
        if free {
            self.take(now);
        }
        free
    }

    #[inline]
    fn has_place(&self, now: Instant) -> bool {
        self.taken < self.limit() && self.limiter.as_ref().is_none_or(|limiter| limiter.opens() <= now)
    }

    #[inline]
    fn take(&mut self, now: Instant) {
        self.taken += 1;
        if let Some(limiter) = &mut self.limiter {
            limiter.on_start(now);
        }
    }

    /// When the next place can come free by time alone; never where only an attempt that ends can free one.
    #[inline]
    #[must_use]
    pub fn opens(&self) -> Instant {
        match &self.limiter {
            Some(limiter) if self.taken < self.limit() => limiter.opens(),
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
        self.queue.is_first(ticket)
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
            self.queue.rejoin(ticket, deadline);
            return true;
        }
        if self.queue.len() >= most as usize {
            return false;
        }
        self.queue.join(ticket, deadline, now);
        true
    }

    /// Takes a place, joins the queue, or is refused.
    #[inline]
    pub fn acquire(&mut self, ticket: Ticket) -> Result<Place, Refusal> {
        let waiter = Waiter {
            ticket,
            deadline: Instant::NEVER,
            inner: false,
        };
        self.acquire_for(waiter, Instant::NEVER)
    }

    /// The same for an attempt with a deadline, at a time.
    #[inline]
    pub(crate) fn acquire_for(&mut self, waiter: Waiter, now: Instant) -> Result<Place, Refusal> {
        if self.try_acquire_at(now) {
            return Ok(Place::Taken);
        }
        if waiter.inner && self.limiter.is_some() {
            self.take(now);
            return Ok(Place::Taken);
        }
        if let Some(limiter) = &mut self.limiter {
            limiter.on_met();
        }
        let most = if waiter.inner {
            self.normal().min(self.settings.waiting)
        } else {
            self.settings.waiting
        };
        if self.settings.wait.is_zero() || self.queue.len() >= most as usize {
            return Err(Refusal::BulkheadFull);
        }
        self.queue.join(waiter.ticket, waiter.deadline, now);
        Ok(Place::Queued)
    }

    /// Gives a place back. The driver then asks [`Bulkhead::grant`] who comes next.
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
        if self.queue.is_empty() || !self.has_place(now) {
            return None;
        }
        self.take(now);
        self.queue.next(margin, now)
    }

    /// Takes a ticket out of the queue. False if it was not there, because it has been granted a place.
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        self.queue.leave(ticket)
    }

    /// An attempt was answered after `latency`; only an adaptive limit listens.
    #[inline]
    pub fn on_latency(&mut self, latency: Duration, rejected: bool, now: Instant) {
        if let Limit::Gradient {
            least,
            most,
            tolerance,
            ..
        } = self.settings.limit
        {
            self.gradient.add(latency, rejected);
            if self.gradient.is_due(now) {
                self.gradient
                    .update(tolerance.as_f64(), least, most, self.taken, now);
            }
        }
    }

    /// An attempt has ended; only an adaptive limit listens.
    #[inline]
    pub(crate) fn on_end(&mut self, end: End, pace: &Pace, weight: f64, trust: f64, now: Instant) {
        if let Some(limiter) = &mut self.limiter {
            if !self.queue.is_empty() {
                limiter.on_met();
            }
            limiter.on_end(end, pace, weight, self.taken + 1, trust, now);
        }
    }
}

/// The adaptive limit: compares the latency of the last stretch with a long average of it.
#[derive(Debug, Clone)]
struct Gradient {
    limit: f64,
    usual: f64,
    sum: u64,
    count: u32,
    rejected: u32,
    due: Instant,
}

impl Gradient {
    /// How long a stretch lasts at the least, and how many answers it needs.
    const STRETCH: Duration = Duration::from_millis(100);
    const ANSWERS: u32 = 10;
    /// How much of a new stretch enters the long average (ten seconds of stretches make most of it), and of
    /// a new limit the limit.
    const AVERAGING: f64 = 0.01;
    const SMOOTHING: f64 = 0.2;

    fn new(limit: Limit, now: Instant) -> Self {
        let limit = match limit {
            Limit::Fixed(limit) => f64::from(limit),
            Limit::Adaptive(settings) => f64::from(settings.most),
            Limit::Gradient {
                initial, least, most, ..
            } => between(f64::from(initial), least, most),
        };
        Self {
            limit,
            usual: 0.0,
            sum: 0,
            count: 0,
            rejected: 0,
            due: now.after(Self::STRETCH),
        }
    }

    fn add(&mut self, latency: Duration, rejected: bool) {
        self.count += 1;
        if rejected {
            self.rejected += 1;
        } else {
            self.sum = self.sum.saturating_add(nanos(latency));
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.count >= Self::ANSWERS && now >= self.due
    }

    fn update(&mut self, tolerance: f64, least: u32, most: u32, taken: u32, now: Instant) {
        let answered = self.count - self.rejected;
        let target = if self.rejected * 10 > self.count {
            // More than a tenth was rejected: the target says itself that there is too much.
            self.limit * 0.9
        } else {
            let recent = self.sum as f64 / f64::from(answered.max(1));
            self.usual = if self.usual == 0.0 {
                recent
            } else {
                self.usual * (1.0 - Self::AVERAGING) + recent * Self::AVERAGING
            };
            // After a long overload the average has become the overload; let it come down faster than it
            // went up, or the limit would take the slow answers for the usual ones.
            if self.usual > 2.0 * recent {
                self.usual *= 0.95;
            }
            let gradient = (tolerance * self.usual / recent.max(1.0)).clamp(0.5, 1.0);
            self.limit * gradient + self.limit.sqrt()
        };
        // A limit that the calls do not come near says nothing about how far it could go.
        if target < self.limit || f64::from(taken) * 2.0 >= self.limit {
            let smoothed = self.limit * (1.0 - Self::SMOOTHING) + target * Self::SMOOTHING;
            self.limit = between(smoothed, least, most);
        }
        (self.sum, self.count, self.rejected) = (0, 0, 0);
        self.due = now.after(Self::STRETCH);
    }
}

/// An adaptive limit within its bounds. Never below one, or nothing would be answered that could raise it
/// again; bounds in the wrong order are read as the lower one.
fn between(limit: f64, least: u32, most: u32) -> f64 {
    let least = least.max(1);
    limit.clamp(f64::from(least), f64::from(most.max(least)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(limit: u32, waiting: u32) -> Bulkhead {
        let settings = Settings {
            limit: Limit::Fixed(limit),
            wait: Duration::from_secs(1),
            waiting,
        };
        Bulkhead::new(settings, Instant::ZERO)
    }

    #[test]
    fn the_limit_holds_at_the_limit_and_the_queue_at_its_own() {
        let mut bulkhead = fixed(2, 1);
        assert_eq!(bulkhead.acquire(Ticket(1)), Ok(Place::Taken));
        assert_eq!(bulkhead.acquire(Ticket(2)), Ok(Place::Taken));
        assert_eq!(bulkhead.acquire(Ticket(3)), Ok(Place::Queued));
        assert_eq!(bulkhead.acquire(Ticket(4)), Err(Refusal::BulkheadFull));
        assert_eq!(bulkhead.grant(), None);
        bulkhead.release();
        assert_eq!(bulkhead.grant(), Some(Ticket(3)));
        assert_eq!((bulkhead.in_flight(), bulkhead.grant()), (2, None));
    }

    #[test]
    fn nobody_jumps_the_queue() {
        let mut bulkhead = fixed(1, 9);
        for ticket in 1..=3 {
            bulkhead.acquire(Ticket(ticket)).unwrap();
        }
        bulkhead.release();
        assert!(!bulkhead.try_acquire(), "two were here before");
        assert_eq!(bulkhead.grant(), Some(Ticket(2)));
    }

    #[test]
    fn a_ticket_that_leaves_is_not_granted() {
        let mut bulkhead = fixed(1, 9);
        for ticket in 1..=3 {
            bulkhead.acquire(Ticket(ticket)).unwrap();
        }
        assert!(bulkhead.leave(Ticket(2)));
        bulkhead.release();
        assert_eq!(bulkhead.grant(), Some(Ticket(3)));
        assert!(!bulkhead.leave(Ticket(3)), "it has its place already");
    }

    /// A list was searched for every ticket that left, so that aborting a queue of 200,000 took twenty billion steps.
    #[test]
    fn a_long_queue_is_aborted_from_either_end_and_keeps_its_order() {
        const LONG: u64 = 200_000;
        let mut bulkhead = fixed(1, u32::MAX);
        for ticket in 0..=LONG {
            bulkhead.acquire(Ticket(ticket)).unwrap();
        }
        let (first, last) = (LONG / 2, LONG / 2 + 1);
        for ticket in (1..first).chain((last + 1..=LONG).rev()) {
            assert!(bulkhead.leave(Ticket(ticket)));
        }
        assert!(bulkhead.leave(Ticket(first)));
        bulkhead.acquire(Ticket(first)).unwrap();
        bulkhead.release();
        assert_eq!(
            bulkhead.grant(),
            Some(Ticket(last)),
            "who left comes back behind the others"
        );
        bulkhead.release();
        assert_eq!((bulkhead.grant(), bulkhead.waiting()), (Some(Ticket(first)), 0));
    }

    fn after_answers(bulkhead: &mut Bulkhead, from: u64, stretches: u64, latency: Duration) -> u32 {
        for stretch in from..from + stretches {
            for _ in 0..20 {
                while bulkhead.try_acquire() {}
                let now = Instant::from_millis(1000 + stretch * 200);
                bulkhead.on_latency(latency, false, now);
                bulkhead.release();
            }
        }
        bulkhead.limit()
    }

    #[test]
    fn the_gradient_grows_while_answers_are_fast_and_shrinks_when_they_slow_down() {
        let limit = Limit::Gradient {
            initial: 20,
            least: 5,
            most: 200,
            tolerance: Ratio::percent(150),
        };
        let settings = Settings {
            limit,
            ..Settings::default()
        };
        let mut bulkhead = Bulkhead::new(settings, Instant::ZERO);
        let grown = after_answers(&mut bulkhead, 0, 50, Duration::from_millis(10));
        assert!(grown > 40, "{grown}");
        let shrunk = after_answers(&mut bulkhead, 50, 20, Duration::from_millis(100));
        assert!(shrunk < grown / 2, "{grown} → {shrunk}");
        let floor = after_answers(&mut bulkhead, 70, 200, Duration::from_secs(1));
        assert!(floor >= 5);
    }
}
