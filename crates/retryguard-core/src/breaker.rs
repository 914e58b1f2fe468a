//! The circuit breaker.

mod handle;

use std::time::Duration;

use crate::{
    ratio::Ratio,
    refusal::Refusal,
    time::{Instant, nanos},
    window::Window,
};

pub use handle::Handle;

/// When the breaker opens, for how long, and what closes it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What opens it.
    pub trip: Trip,
    /// How long it stays open the first time.
    pub open_for: Duration,
    /// Each time a probe fails, the next open time is twice the last, up to this. Equal to `open_for` (or
    /// shorter) for a fixed open time.
    pub open_for_at_most: Duration,
    /// How many probes may be under way at once while half-open.
    pub probes: u32,
    /// How many probes must succeed before it closes; no more than this are let through in one half-open
    /// phase.
    pub close_after: u32,
    /// What becomes of calls while it is not closed.
    pub when_down: WhenDown,
}

/// What becomes of calls to a target that is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenDown {
    /// They fail at once: for callers with a fallback, or with few threads.
    Fail,
    /// They wait for the recovery, as long as their deadline allows; at most so many at once.
    Wait {
        /// The most calls that wait.
        most: u32,
    },
}

/// What opens a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trip {
    /// This many failures in a row.
    Consecutive(u32),
    /// This many failures and no success between them: the target is down. More are needed where random failures
    /// are common, so that a random run of failures is not taken for an outage. While it is open, probes come as often as a
    /// small share of the usual attempts did.
    Silence(u32),
    /// This many failures in a window, whatever succeeded beside them. Trips on volume alone, so a busy
    /// target with a small error rate opens it too.
    Count {
        /// How many.
        failures: u32,
        /// In what time.
        window: Duration,
    },
    /// A share of failures in a window, once there are enough calls to speak of a share.
    Rate {
        /// The share at which it opens.
        ratio: Ratio,
        /// The calls that must have ended in the window.
        minimum_calls: u32,
        /// The window.
        window: Duration,
        /// Opens for slow attempts as well, `None` for never: an answer that comes too late is of no use either.
        slow: Option<Slow>,
    },
}

/// Which attempts are slow, and how many of them are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow {
    /// An attempt that took longer than this is slow, whether it succeeded or not.
    pub above: Duration,
    /// The share of slow attempts at which the breaker opens, among as many calls as the share of failures needs.
    pub ratio: Ratio,
}

impl Default for Settings {
    /// Opens at four of five of at least 20 calls failing within ten seconds, for five seconds doubling to
    /// ten; one probe at a time, two successes to close. A breaker is for a target that is down: one that
    /// still answers every third call is better left to budget and guard. In the tournament's worlds a breaker
    /// that opens at half, for up to a minute, refuses what 60 % random errors would have let through, and
    /// comes back late from every outage.
    fn default() -> Self {
        Self {
            trip: Trip::Rate {
                ratio: Ratio::percent(80),
                minimum_calls: 20,
                window: Duration::from_secs(10),
                slow: None,
            },
            open_for: Duration::from_secs(5),
            open_for_at_most: Duration::from_secs(10),
            probes: 1,
            close_after: 2,
            when_down: WhenDown::Fail,
        }
    }
}

/// Whether calls flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Calls flow.
    Closed,
    /// Calls fail at once.
    Open,
    /// Probes find out whether the target has recovered.
    HalfOpen,
}

impl State {
    /// The word used in metrics and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// How an attempt ended, as far as the target's health is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The target is well.
    Healthy,
    /// It failed.
    Failed,
    /// It did not answer in time.
    TimedOut,
    /// It said that it has too much to do.
    Rejected,
}

/// Leave to pass a breaker. Carries the phase it was given in, so that the late result of an old phase
/// cannot free a probe's place in a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    phase: u32,
    probe: bool,
}

impl Pass {
    /// Whether the attempt is a probe of a half-open breaker.
    #[inline]
    #[must_use]
    pub const fn is_probe(self) -> bool {
        self.probe
    }
}

const ENDED: usize = 0;
const FAILED: usize = 1;

/// The breaker of one target.
///
/// `S` keeps the settings: they themselves, or something that many targets share.
#[derive(Debug, Clone)]
pub struct Breaker<S = Settings> {
    settings: S,
    state: State,
    /// Grows with every change of state.
    phase: u32,
    /// What ended lately, where the trip counts in a window (`Count`, `Rate`).
    window: Option<Box<Window<2>>>,
    /// The slow attempts in the same window, where they matter.
    slow: Option<Box<Window<1>>>,
    consecutive: u32,
    /// When an open breaker may be probed; when a half-open one gives up on probes that never end.
    until: Instant,
    /// How often it has opened since it was last closed.
    openings: u32,
    probing: u32,
    succeeded: u32,
    /// The share of failures before the present run of them (`Silence`).
    failing: f64,
    /// The failures of the present run, a timeout for less than others (`Silence`).
    silence: f64,
    /// Whether the last failure was a timeout (`Silence`).
    timed_out: bool,
    /// The usual time between the ends of attempts, in nanoseconds (`Silence`).
    gap: f64,
    last_end: Instant,
}

/// Of how many attempts the share of failures and the usual gap between attempts are averaged.
const AVERAGED: f64 = 1.0 / 64.0;
/// What a timeout and a rejection count for in a run of failures: a target that is slow or overloaded lets many calls
/// fail in a row.
const TIMEOUT: f64 = 0.5;
const REJECTION: f64 = 0.25;
/// From this time between attempts on, in nanoseconds, a timeout counts as much as other failures: those of a client that
/// makes few calls are so far apart that a queue that they all meet has lasted.
const FEW: f64 = 0.5e9;
/// A probe that has not ended after this time is lost (`Silence`).
const LOST: Duration = Duration::from_secs(10);
/// How much rarer probes may be after timeouts.
const RARELY: u64 = 10;
/// An outage that is over after so many probes was none.
const FALSE_ALARM: u32 = 3;
/// How many of the usual gaps between attempts lie between two probes.
const PROBE_EVERY: f64 = 4.0;
/// One run of failures in so many attempts, as a logarithm, may be taken for an outage: e^9.2 is ten thousand.
const LUCK: f64 = 9.2;

impl AsRef<Self> for Settings {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<S: AsRef<Settings>> Breaker<S> {
    /// A closed breaker.
    #[must_use]
    pub fn new(settings: S, now: Instant) -> Self {
        let rules = settings.as_ref();
        let window = window_of(rules).map(|length| Box::new(Window::new(length, now)));
        Self {
            state: State::Closed,
            phase: 0,
            slow: slow_beside(rules, window.as_deref()),
            window,
            settings,
            consecutive: 0,
            until: Instant::ZERO,
            openings: 0,
            probing: 0,
            succeeded: 0,
            failing: 0.0,
            silence: 0.0,
            timed_out: false,
            gap: 0.0,
            last_end: now,
        }
    }

    /// A number for a later breaker's first phase, such that no pass of this one means anything to it.
    pub(crate) const fn number_for_next(&self) -> u32 {
        self.phase.wrapping_add(1)
    }

    /// Numbers the phases from `first` on.
    pub(crate) fn numbered_from(mut self, first: u32) -> Self {
        self.phase = first;
        self
    }

    /// Changes the settings and keeps the state and the counts.
    pub fn replace(&mut self, settings: S, now: Instant) {
        let (old, new) = (self.settings.as_ref(), settings.as_ref());
        self.window = window_of(new).map(|length| match self.window.take() {
            Some(mut window) => {
                window.set_length(length, now);
                window
            }
            None => Box::new(Window::new(length, now)),
        });
        if let (Trip::Count { .. }, Trip::Rate { .. }, Some(window)) = (old.trip, new.trip, &mut self.window)
        {
            // A count of failures does not know how many calls ended beside them: no share can be taken of it.
            window.clear();
        }
        self.slow = match (self.slow.take(), slow_of(new), window_of(new)) {
            (Some(mut slow), Some(_), Some(length)) => {
                slow.set_length(length, now);
                Some(slow)
            }
            _ => slow_beside(new, self.window.as_deref()),
        };
        self.settings = settings;
        if self.state == State::HalfOpen {
            self.close_if_proven();
        }
    }

    /// The state at `now`. An open breaker whose time is over still says open until a call asks to pass.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// When an open breaker can next be probed.
    #[must_use]
    pub fn opens_until(&self) -> Option<Instant> {
        (self.state == State::Open).then_some(self.until)
    }

    /// When the next probe may be sent; zero where the breaker is closed, or where a probe may be sent at any time.
    #[inline]
    pub(crate) fn next_probe(&self) -> Instant {
        match self.state {
            State::Closed => Instant::ZERO,
            State::Open | State::HalfOpen => self.until,
        }
    }

    /// Opens until `until`, because another process knows that the target is down. One that is
    /// open already stays open for as long as either says. Probes under way no longer count.
    pub fn hold_open(&mut self, until: Instant) {
        if self.state == State::Open {
            self.until = self.until.max(until);
            return;
        }
        self.openings = self.openings.max(1);
        self.enter(State::Open);
        self.until = until;
    }

    /// Closes, because another process has proven that the target is up.
    pub fn close(&mut self) {
        if self.state != State::Closed {
            self.enter(State::Closed);
            self.openings = 0;
            self.forget();
        }
    }

    /// Whether [`Breaker::admit`] would let an attempt pass, without taking a probe's place.
    pub fn would_admit(&mut self, now: Instant) -> Result<(), Refusal> {
        match self.state {
            State::Closed => Ok(()),
            State::Open if now < self.until => Err(Refusal::BreakerOpen),
            State::Open => Ok(()),
            State::HalfOpen => {
                self.give_up_on_lost_probes(now);
                match self.state {
                    State::HalfOpen if self.has_probe_place() => Ok(()),
                    State::HalfOpen => Err(Refusal::ProbesBusy),
                    State::Closed | State::Open => Err(Refusal::BreakerOpen),
                }
            }
        }
    }

    /// Lets an attempt pass if the breaker is closed, which takes no time to be looked at.
    #[inline]
    pub(crate) fn pass_closed(&self) -> Option<Pass> {
        (self.state == State::Closed).then_some(Pass {
            phase: self.phase,
            probe: false,
        })
    }

    /// Lets an attempt pass or refuses it.
    #[inline]
    pub fn admit(&mut self, now: Instant) -> Result<Pass, Refusal> {
        if let Some(pass) = self.pass_closed() {
            return Ok(pass);
        }
        self.would_admit(now)?;
        if self.state == State::Open {
            self.enter(State::HalfOpen);
        }
        // Every probe has an open time of its own: where calls are rare, the second may begin long after the
        // first has succeeded.
        self.until = now.after(self.probe_time());
        self.probing += 1;
        Ok(Pass {
            phase: self.phase,
            probe: true,
        })
    }

    /// An attempt that passed has ended, well or not.
    #[inline]
    pub fn on_end(&mut self, pass: Pass, healthy: bool, now: Instant) {
        self.on_end_as(pass, if healthy { End::Healthy } else { End::Failed }, 0, now);
    }

    /// The same, where it is known how it failed and how many nanoseconds it took.
    #[inline]
    pub fn on_end_as(&mut self, pass: Pass, end: End, took: u64, now: Instant) {
        if pass.phase != self.phase {
            return;
        }
        self.timed_out = end == End::TimedOut;
        match self.state {
            State::Closed => self.on_end_closed(end, took, now),
            // A target that answers late has not recovered.
            State::HalfOpen => self.on_probe_end(end == End::Healthy && !self.is_slow(took), now),
            // Every change of state changes the phase, and nothing passes an open breaker.
            State::Open => debug_assert!(false, "a pass of an open phase"),
        }
    }

    /// An attempt that passed was given up before it said anything about the target.
    #[inline]
    pub fn on_abandon(&mut self, pass: Pass) {
        if pass.probe && pass.phase == self.phase {
            self.probing = self.probing.saturating_sub(1);
        }
    }

    #[inline]
    fn on_end_closed(&mut self, end: End, took: u64, now: Instant) {
        if end != End::Healthy {
            return self.on_failure_closed(end, took, now);
        }
        match self.settings.as_ref().trip {
            Trip::Consecutive(_) => self.consecutive = 0,
            Trip::Silence(_) => self.note_success(now),
            Trip::Count { .. } => {}
            Trip::Rate { .. } => {
                if let Some(window) = &mut self.window {
                    window.advance(now);
                    window.add(ENDED);
                }
                if self.slow.is_some() && self.note_slow(took, now) {
                    self.open(now);
                }
            }
        }
    }

    /// Whether an attempt that took so many nanoseconds was slow.
    fn is_slow(&self, took: u64) -> bool {
        slow_of(self.settings.as_ref()).is_some_and(|slow| took > nanos(slow.above))
    }

    /// Counts an attempt among the slow ones if it was slow. Whether there are now too many of them.
    fn note_slow(&mut self, took: u64, now: Instant) -> bool {
        let is_slow = self.is_slow(took);
        let (
            Some(ended),
            Some(window),
            Trip::Rate {
                minimum_calls,
                slow: Some(slow),
                ..
            },
        ) = (&self.window, &mut self.slow, self.settings.as_ref().trip)
        else {
            return false;
        };
        window.advance(now);
        if !is_slow {
            return false;
        }
        window.add(0);
        is_share(window.sum(0), ended.sum(ENDED), slow.ratio, minimum_calls)
    }

    #[cold]
    fn on_failure_closed(&mut self, end: End, took: u64, now: Instant) {
        let trips = match self.settings.as_ref().trip {
            Trip::Consecutive(limit) => {
                self.consecutive = self.consecutive.saturating_add(1);
                self.consecutive >= limit
            }
            Trip::Silence(least) => {
                // A retry that follows at once says nothing of the usual time between attempts.
                if now.nanos_since(self.last_end) as f64 >= self.gap {
                    self.note_gap(now);
                } else {
                    self.last_end = now;
                }
                self.consecutive = self.consecutive.saturating_add(1);
                self.silence += match end {
                    End::TimedOut if self.gap < FEW => TIMEOUT,
                    End::Rejected => REJECTION,
                    End::TimedOut | End::Failed | End::Healthy => 1.0,
                };
                let needed = LUCK / -(self.failing.clamp(0.01, 0.97)).ln();
                self.silence >= needed.max(f64::from(least))
            }
            Trip::Count { failures, .. } => self.window.as_mut().is_some_and(|window| {
                window.advance(now);
                window.add(FAILED);
                window.sum(FAILED) >= u64::from(failures)
            }),
            Trip::Rate {
                ratio, minimum_calls, ..
            } => {
                let (ended, failed) = self.window.as_mut().map_or((0, 0), |window| {
                    window.advance(now);
                    window.add(ENDED);
                    window.add(FAILED);
                    (window.sum(ENDED), window.sum(FAILED))
                });
                // Both are asked: a slow failure is counted among the slow attempts too.
                let slow = self.note_slow(took, now);
                slow || is_share(failed, ended, ratio, minimum_calls)
            }
        };
        if trips {
            self.open(now);
        }
    }

    /// The run of failures is over, and belongs to the usual share of them now.
    #[inline]
    fn note_success(&mut self, now: Instant) {
        self.note_gap(now);
        let run = f64::from(self.consecutive);
        let weight = ((run + 1.0) * 4.0 * AVERAGED).min(1.0);
        self.failing += (run / (run + 1.0) - self.failing) * weight;
        self.consecutive = 0;
        self.silence = 0.0;
    }

    #[inline]
    fn note_gap(&mut self, now: Instant) {
        let gap = now.nanos_since(self.last_end) as f64;
        self.last_end = now;
        self.gap += (gap - self.gap) * if self.gap == 0.0 { 1.0 } else { 4.0 * AVERAGED };
    }

    #[cold]
    fn on_probe_end(&mut self, healthy: bool, now: Instant) {
        self.probing = self.probing.saturating_sub(1);
        if !healthy {
            self.open(now);
            return;
        }
        self.succeeded += 1;
        self.close_if_proven();
    }

    fn close_if_proven(&mut self) {
        if self.succeeded >= self.settings.as_ref().close_after.max(1) {
            if self.openings <= FALSE_ALARM {
                // Hardly an outage: runs of failures are more common here than was thought.
                self.failing += (0.7 - self.failing).max(0.0) * 0.5;
            }
            self.enter(State::Closed);
            self.openings = 0;
            self.forget();
        }
    }

    fn forget(&mut self) {
        if let Some(window) = &mut self.window {
            window.clear();
        }
        if let Some(slow) = &mut self.slow {
            slow.clear();
        }
    }

    /// Opens, or opens again for longer.
    #[cold]
    fn open(&mut self, now: Instant) {
        self.openings = self.openings.saturating_add(1);
        self.enter(State::Open);
        self.until = now.after(self.open_time());
    }

    /// A probe that never ends would keep the breaker half-open for ever. One that has not ended within an
    /// open time speaks as a failed one.
    fn give_up_on_lost_probes(&mut self, now: Instant) {
        if self.probing > 0 && now >= self.until {
            self.open(now);
        }
    }

    fn has_probe_place(&self) -> bool {
        self.probing < self.settings.as_ref().probes.max(1)
            && self.probing + self.succeeded < self.settings.as_ref().close_after.max(1)
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.phase = self.phase.wrapping_add(1);
        self.consecutive = 0;
        self.silence = 0.0;
        self.probing = 0;
        self.succeeded = 0;
    }

    /// How long a probe may take before it counts as lost. Under `Silence` probes follow each other quickly, so that the
    /// time between them says nothing about how long one takes.
    fn probe_time(&self) -> Duration {
        match self.settings.as_ref().trip {
            Trip::Silence(_) => self.settings.as_ref().open_for_at_most.max(LOST),
            Trip::Consecutive(_) | Trip::Count { .. } | Trip::Rate { .. } => self.open_time(),
        }
    }

    fn open_time(&self) -> Duration {
        let doublings = self.openings.saturating_sub(1).min(63);
        let settings = self.settings.as_ref();
        let most = nanos(settings.open_for_at_most.max(settings.open_for));
        if let Trip::Silence(_) = settings.trip {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a cast from a double saturates"
            )]
            let usual = (PROBE_EVERY * self.gap) as u64;
            // A timeout may mean a queue of work that no caller waits for any more: it is emptied only if little is added.
            // Other failures cost the target next to nothing.
            let most = if self.timed_out {
                most.saturating_mul(RARELY)
            } else {
                most
            };
            return Duration::from_nanos(usual.clamp(nanos(settings.open_for), most));
        }
        let grown = nanos(settings.open_for).saturating_mul(1 << doublings);
        Duration::from_nanos(grown.min(most))
    }
}

/// Whether so many of `ended` calls are a share that trips, once there are enough of them.
fn is_share(count: u64, ended: u64, ratio: Ratio, minimum_calls: u32) -> bool {
    ended >= u64::from(minimum_calls)
        && u128::from(count) * u128::from(Ratio::PARTS) >= u128::from(ratio.parts()) * u128::from(ended)
}

const fn slow_of(settings: &Settings) -> Option<Slow> {
    match settings.trip {
        Trip::Rate { slow, .. } => slow,
        Trip::Consecutive(_) | Trip::Silence(_) | Trip::Count { .. } => None,
    }
}

/// A window for the slow attempts, beside that of all attempts.
fn slow_beside(settings: &Settings, window: Option<&Window<2>>) -> Option<Box<Window<1>>> {
    slow_of(settings)
        .and(window)
        .map(|window| Box::new(window.emptied()))
}

/// The window in which a breaker counts, if it does.
const fn window_of(settings: &Settings) -> Option<Duration> {
    match settings.trip {
        Trip::Consecutive(_) | Trip::Silence(_) => None,
        Trip::Count { window, .. } | Trip::Rate { window, .. } => Some(window),
    }
}

#[cfg(test)]
mod tests;
