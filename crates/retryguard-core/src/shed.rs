//! Load shedding on the server's side: what to refuse, before it costs anything.

mod follow;

use std::time::Duration;

use follow::AdaptiveBound;

use crate::{
    bulkhead::{self, Acquired, Bulkhead, Limit, Ticket},
    chance::Chance,
    criticality::Criticality,
    levels::Levels,
    ratio::Ratio,
    time::{Instant, nanos},
};

/// When a server sheds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Requests that are in progress or wait, together. The bound for everything up to critical;
    /// critical-plus may use a tenth more.
    pub in_flight: u32,
    /// Whether the bound follows the time that requests take. It then starts at [`Settings::START`] and never exceeds
    /// `in_flight`.
    pub adaptive: bool,
    /// Requests that are worked on at once; the others wait. `None` for no queue of our own.
    pub working: Option<u32>,
    /// The queue is too long when every request of an interval waited longer than this.
    pub queue_time: Duration,
    /// That interval.
    pub queue_interval: Duration,
    /// The processor is too busy above this share. `None` for not looking at it.
    pub processor: Option<Ratio>,
    /// The Retry-After of a refused client, before the spread.
    pub retry_after: Duration,
    /// How far the waits of refused clients are spread, as a share of the wait, so that they do not all come
    /// back at once.
    pub spread: Ratio,
}

impl Settings {
    /// The bound at the start where it is adaptive: what it is by default where it is not.
    pub const START: u32 = 200;
    /// How far an adaptive bound goes where nothing else is said: as far as the client's adaptive limit.
    pub const MOST: u32 = 1000;

    fn start(&self) -> f64 {
        f64::from(if self.adaptive {
            self.in_flight.min(Self::START)
        } else {
            self.in_flight
        })
    }
}

impl Default for Settings {
    /// 200 in flight, a queue time of 20 ms over 100 ms, a second of Retry-After spread over another.
    fn default() -> Self {
        Self {
            in_flight: Self::START,
            adaptive: false,
            working: None,
            queue_time: Duration::from_millis(20),
            queue_interval: Duration::from_millis(100),
            processor: None,
            retry_after: Duration::from_secs(1),
            spread: Ratio::ONE,
        }
    }
}

/// What the server knows of a request that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// How much it matters.
    pub criticality: Criticality,
    /// Whether it is a retry or a hedge.
    pub again: bool,
}

impl Arrival {
    /// The order of shedding: sheddable before critical, and retries before first attempts of a level. A
    /// client that retries already has a failure to show for it; a first attempt may still succeed in one.
    #[must_use]
    pub const fn rank(self) -> u8 {
        let level = self.criticality as u8 * 2;
        if self.again { level } else { level + 1 }
    }
}

/// The share of `in_flight` that requests of each rank may fill, in thousandths.
const ROOM: [u32; 8] = [500, 600, 700, 800, 900, 1000, 1050, 1100];

/// By how much the bound shrinks in an interval with a standing queue, and grows in one without.
const SHRINK: f64 = 0.9;
const GROW: f64 = 1.05;
/// After so many intervals without a queue any bound is back where the settings have it, or has grown a hundredfold.
const MOST_IDLE: u64 = 100;
/// A queue stands where every request waits for so many times the work on one.
const WORKS: u32 = 2;
/// The shortest Retry-After of a queue that is too long.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// The rank that is shed by nothing but a full house: first attempts of the highest criticality.
const HIGHEST_RANK: u8 = 7;

/// Why a request was shed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Too many requests are in flight for one of this rank.
    InFlight,
    /// Requests wait too long for their turn.
    QueueTime,
    /// The processor is too busy.
    Processor,
}

impl Reason {
    /// The metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in-flight",
            Self::QueueTime => "queue-time",
            Self::Processor => "processor",
        }
    }
}

/// A refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// The Retry-After of the client, after the spread.
    pub retry_after: Duration,
}

/// An admitted request. Given back once through [`Shed::leave`].
#[derive(Debug)]
#[must_use = "an admitted request must leave"]
pub struct Entry {
    arrived: Instant,
    ticket: Ticket,
    waiting: bool,
}

impl Entry {
    /// Whether it has to wait for its turn; [`Shed::next_turn`] will name its ticket.
    #[must_use]
    pub const fn must_wait(&self) -> bool {
        self.waiting
    }

    /// The name under which it was admitted.
    #[must_use]
    pub const fn ticket(&self) -> Ticket {
        self.ticket
    }
}

/// The shedder of one server.
///
/// The bound is fixed, or follows the time that requests take (see `follow.rs`).
///
/// Beside this bound there are three signals of trouble. While a queue stands, the bound shrinks a little in every
/// interval, and grows again when the queue is gone. Where requests fail more the more of them there are, it shrinks to the
/// number that serves most. Each rank may fill a share of it, so that a small overload costs
/// the background work only. While the processor is too busy, a *level* rises by one rank an interval, and everything
/// ranked below it is shed.
#[derive(Debug, Clone)]
pub struct Shed {
    settings: Settings,
    in_flight: u32,
    workers: Option<Bulkhead>,
    /// The bound that follows the time of requests, where the settings say so.
    follow: Option<Box<AdaptiveBound>>,
    /// How many may be in flight at present: fewer than the settings say while requests wait too long.
    bound: f64,
    /// How long the work on a request takes, in nanoseconds; zero where it is not known.
    work: f64,
    /// How long even the first of the last interval waited, where that was too long.
    standing: Duration,
    processor_level: u8,
    /// What became of requests, by how many were in flight.
    levels: Levels,
    /// The shortest wait of the present interval, if a request has started in it.
    shortest_wait: Option<Duration>,
    interval_ends: Instant,
}

impl Shed {
    /// A server without load.
    #[must_use]
    pub fn new(settings: Settings, now: Instant) -> Self {
        Self {
            workers: settings
                .working
                .map(|working| Bulkhead::new(workers(working, settings.in_flight), now)),
            settings,
            in_flight: 0,
            follow: settings.adaptive.then(|| follow(&settings, now)),
            bound: settings.start(),
            work: 0.0,
            standing: Duration::ZERO,
            processor_level: 0,
            levels: Levels::default(),
            shortest_wait: None,
            interval_ends: now.after(settings.queue_interval),
        }
    }

    /// Changes the settings; requests that were admitted stay admitted. Whether there is a queue of our own is fixed at the
    /// start, because requests inside would otherwise have to be moved between two worlds.
    pub fn replace(&mut self, settings: Settings) {
        if let (Some(bulkhead), Some(working)) = (&mut self.workers, settings.working) {
            bulkhead.replace(workers(working, settings.in_flight));
        }
        let before = self.most();
        self.follow = match (self.follow.take(), settings.adaptive) {
            (Some(mut follow), true) => {
                follow.limit_to(f64::from(settings.in_flight));
                Some(follow)
            }
            (None, true) => Some(follow(&settings, self.interval_ends)),
            (_, false) => None,
        };
        self.settings = settings;
        let most = self.most();
        self.bound = if most > before {
            most
        } else {
            self.bound.min(most).max(1.0)
        };
    }

    /// Admits a request, lets it wait for its turn, or refuses it.
    #[inline]
    pub fn admit(
        &mut self,
        arrival: Arrival,
        ticket: Ticket,
        now: Instant,
        chance: &mut impl Chance,
    ) -> Result<Entry, Refused> {
        self.end_interval(now);
        let rank = arrival.rank();
        if let Some(reason) = self.objection(rank) {
            let wait = self.wait_for(reason);
            let retry_after = wait + chance.up_to(self.settings.spread.of(wait));
            return Err(Refused { reason, retry_after });
        }
        self.in_flight += 1;
        let waiting = match &mut self.workers {
            None => false,
            // The bulkhead's own bound lies above the hard bound that was just checked.
            Some(workers) => !matches!(workers.acquire(ticket), Ok(Acquired::Taken)),
        };
        // Without a queue of our own there is no wait to measure here; a queue before this one may have one.
        if !waiting && self.workers.is_some() {
            self.note_wait(Duration::ZERO);
        }
        Ok(Entry {
            arrived: now,
            ticket,
            waiting,
        })
    }

    /// The next waiting request whose turn has come. Asked until it says none, whenever a request has left.
    #[inline]
    pub fn next_turn(&mut self) -> Option<Ticket> {
        self.workers.as_mut()?.grant()
    }

    /// A waiting request whose turn has come starts to be worked on.
    pub fn start(&mut self, entry: &mut Entry, now: Instant) {
        entry.waiting = false;
        self.end_interval(now);
        self.note_wait(now.since(entry.arrived));
    }

    /// A request is done, or was given up, wherever it stood.
    #[inline]
    pub fn leave(&mut self, entry: Entry) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(workers) = &mut self.workers {
            // One that still waits leaves the queue; one that has been given its turn frees it.
            if !(entry.waiting && workers.leave(entry.ticket)) {
                workers.release();
            }
        }
    }

    /// How long a request waited before it was worked on, as measured elsewhere (a queue before this one).
    pub fn on_queue_time(&mut self, waited: Duration, now: Instant) {
        self.end_interval(now);
        self.note_wait(waited);
    }

    /// How long the work on a request took, without its wait. Where this is known, a queue counts as too long only if
    /// it makes requests wait for several times their work.
    pub fn on_work_time(&mut self, took: Duration) {
        let took = nanos(took) as f64;
        self.work += (took - self.work) * if self.work == 0.0 { 1.0 } else { 1.0 / 32.0 };
    }

    /// A request that was worked on has ended, before it [leaves](Self::leave). Where the server fails more the busier it is,
    /// the bound shrinks to the number in flight that serves most.
    /// Nothing need be said of successes while [nothing fails](Self::counts_ends).
    pub fn on_end(&mut self, entry: &Entry, failed: bool, now: Instant) {
        if failed || !self.levels.is_quiet() {
            let seconds = now.since(entry.arrived).as_secs_f64();
            self.levels.on_end(self.in_flight, failed, seconds);
        }
        if let Some(follow) = &mut self.follow {
            let most = f64::from(self.settings.in_flight);
            follow.on_end(failed, entry.arrived, self.in_flight, most, now);
            self.bound = self.bound.min(follow.bound());
        }
    }

    /// Whether successes matter: something has failed lately, or the bound is adaptive.
    #[inline]
    #[must_use]
    pub fn counts_ends(&self) -> bool {
        !self.levels.is_quiet() || self.follow.is_some()
    }

    /// The bound before any sign of trouble.
    #[inline]
    fn most(&self) -> f64 {
        match &self.follow {
            Some(follow) => follow.bound(),
            None => f64::from(self.settings.in_flight),
        }
    }

    /// The share of the processor that is in use. The driver measures it at an interval of its choice.
    pub fn on_processor(&mut self, used: Ratio) {
        if let Some(limit) = self.settings.processor {
            self.processor_level = moved(self.processor_level, used > limit);
        }
    }

    /// How many requests are in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The rank below which everything is shed.
    #[must_use]
    pub fn level(&self) -> u8 {
        let full = (0..HIGHEST_RANK)
            .take_while(|rank| self.is_full(*rank, self.bound))
            .count();
        u8::try_from(full)
            .unwrap_or(HIGHEST_RANK)
            .max(self.processor_level)
    }

    /// How many may be in flight at present.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between one and a u32"
    )]
    pub fn bound(&self) -> u32 {
        self.bound as u32
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounds down: never negative, and never more than a u32"
    )]
    fn is_full(&self, rank: u8, bound: f64) -> bool {
        let room = bound * f64::from(ROOM[usize::from(rank)]) / 1000.0;
        self.in_flight >= ((room + 1e-9) as u32).max(1)
    }

    /// The Retry-After of a refused client, before the spread: no longer than the queue that it met takes to shrink.
    fn wait_for(&self, reason: Reason) -> Duration {
        match reason {
            Reason::QueueTime => (2 * self.standing).clamp(
                SHORTEST_WAIT.min(self.settings.retry_after),
                self.settings.retry_after,
            ),
            Reason::InFlight | Reason::Processor => self.settings.retry_after,
        }
    }

    #[inline]
    fn objection(&self, rank: u8) -> Option<Reason> {
        let most = self.most();
        if self.is_full(rank, most) {
            Some(Reason::InFlight)
        } else if rank < HIGHEST_RANK && self.bound != most && self.is_full(rank, self.bound) {
            Some(Reason::QueueTime)
        } else if rank < self.processor_level {
            Some(Reason::Processor)
        } else {
            None
        }
    }

    /// How long the luckiest request of an interval may wait.
    fn too_long(&self) -> Duration {
        self.settings.queue_time.max(WORKS * self.work_time())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    fn work_time(&self) -> Duration {
        Duration::from_nanos(self.work as u64)
    }

    fn note_wait(&mut self, waited: Duration) {
        self.shortest_wait = Some(self.shortest_wait.map_or(waited, |shortest| shortest.min(waited)));
    }

    /// The *shortest* wait is what tells a standing queue from a burst: a burst drains within an interval and
    /// some requests get through quickly; a standing queue makes every request wait.
    #[inline]
    fn end_interval(&mut self, now: Instant) {
        if now >= self.interval_ends {
            self.close_interval(now);
        }
    }

    #[cold]
    fn close_interval(&mut self, now: Instant) {
        // Where no request started: a stalled queue if requests wait, an idle server if none do.
        let stalled = self.workers.as_ref().is_some_and(|workers| workers.waiting() > 0);
        let shortest = self.shortest_wait.take();
        let most = self.most();
        // Whole intervals after it in which nothing happened at all: the queue was gone in each of them.
        let idle = nanos(now.since(self.interval_ends)) / nanos(self.settings.queue_interval).max(1);
        let mut free = if stalled { 0 } else { idle.min(MOST_IDLE) };
        let best = self.levels.best();
        self.levels.forget();
        if shortest.map_or(stalled, |shortest| shortest > self.too_long()) {
            self.standing = shortest.unwrap_or(self.settings.queue_time);
            self.bound = (self.bound.min(f64::from(self.in_flight)) * SHRINK).clamp(1.0, most.max(1.0));
        } else if let Some(best) = best.filter(|best| *best < self.bound) {
            self.standing = self.work_time();
            self.bound = best
                .max(self.bound.min(f64::from(self.in_flight)) * SHRINK)
                .clamp(1.0, most.max(1.0));
        } else {
            free += 1;
        }
        if self.bound < most {
            for _ in 0..free {
                self.bound = (self.bound * GROW + 1.0).min(most);
            }
        }
        self.interval_ends = now.after(self.settings.queue_interval);
    }
}

fn moved(level: u8, up: bool) -> u8 {
    if up {
        (level + 1).min(HIGHEST_RANK)
    } else {
        level.saturating_sub(1)
    }
}

fn follow(settings: &Settings, now: Instant) -> Box<AdaptiveBound> {
    Box::new(AdaptiveBound::new(settings.start(), now))
}

fn workers(working: u32, in_flight: u32) -> bulkhead::Settings {
    bulkhead::Settings {
        limit: Limit::Fixed(working.max(1)),
        wait: Duration::MAX,
        waiting: in_flight.saturating_mul(2),
    }
}

#[cfg(test)]
mod tests;
