//! The circuit breaker.

mod counted;
mod handle;
mod settings;
mod silence;

use std::time::Duration;

use crate::{
    ratio::Ratio,
    refusal::Refusal,
    time::{Instant, nanos},
};

pub use handle::Handle;
pub use settings::{Settings, Slow, Trip, WhenDown};

use counted::Counted;
use silence::Silence;

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
///
/// ```
/// use retryguard_core::{
///     Instant,
///     breaker::{Breaker, Settings, State, Trip},
/// };
///
/// let start = Instant::from_secs(1);
/// let settings = Settings { trip: Trip::Consecutive(2), ..Settings::default() };
/// let mut breaker = Breaker::new(settings, start);
/// for _ in 0..2 {
///     let pass = breaker.admit(start)?;
///     breaker.on_end(pass, false, start);
/// }
/// assert_eq!(breaker.state(), State::Open);
/// assert!(breaker.admit(start).is_err());
///
/// let later = breaker.opens_until().expect("it is open");
/// let probe = breaker.admit(later)?;
/// assert!(probe.is_probe());
/// # Ok::<(), retryguard_core::Refusal>(())
/// ```
#[derive(Debug, Clone)]
pub struct Breaker<S = Settings> {
    settings: S,
    state: State,
    /// Grows with every change of state.
    phase: u32,
    /// What ended lately, where the trip counts in a window (`Count`, `Rate`).
    counted: Option<Box<Counted>>,
    consecutive: u32,
    /// When an open breaker may be probed; when a half-open one gives up on probes that never end.
    until: Instant,
    /// How often it has opened since it was last closed.
    openings: u32,
    probing: u32,
    succeeded: u32,
    silence: Silence,
}

/// A probe that has not ended after this time is lost (`Silence`).
const LOST: Duration = Duration::from_secs(10);

impl<S: AsRef<Settings>> Breaker<S> {
    /// A closed breaker.
    #[must_use]
    pub fn new(settings: S, now: Instant) -> Self {
        let rules = settings.as_ref();
        Self {
            state: State::Closed,
            phase: 0,
            counted: rules
                .window()
                .map(|length| Box::new(Counted::new(rules, length, now))),
            settings,
            consecutive: 0,
            until: Instant::ZERO,
            openings: 0,
            probing: 0,
            succeeded: 0,
            silence: Silence::new(now),
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
        self.counted = new.window().map(|length| match self.counted.take() {
            Some(mut counted) => {
                counted.replace(old, new, length, now);
                counted
            }
            None => Box::new(Counted::new(new, length, now)),
        });
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

    /// Until when healthy ends may be counted later, by [`Breaker::on_healthy_ends`]; `None` where each of them matters by
    /// itself. Under `Silence` each does, and reports it by [`Breaker::on_healthy_end`].
    pub(crate) fn rests_until(&mut self, now: Instant) -> Option<Instant> {
        if self.state != State::Closed || self.silence.after_timeout() {
            return None;
        }
        match (self.settings.as_ref().trip, &mut self.counted) {
            (Trip::Consecutive(_), _) if self.consecutive > 0 => None,
            (Trip::Rate { slow: None, .. }, Some(counted)) => {
                counted.window.advance(now);
                Some(counted.window.bucket_ends())
            }
            (Trip::Rate { slow: Some(_), .. }, _) => None,
            _ => Some(Instant::NEVER),
        }
    }

    /// Whether each end has to be told.
    pub(crate) fn follows_each_end(&self) -> bool {
        matches!(self.settings.as_ref().trip, Trip::Silence(_))
    }

    /// Whether a pass was given in the present phase.
    #[inline]
    pub(crate) const fn is_current(&self, pass: Pass) -> bool {
        pass.phase == self.phase
    }

    /// So many attempts have ended well in the present bucket, while the breaker was closed.
    pub(crate) fn on_healthy_ends(&mut self, ended: u32) {
        if let (Trip::Rate { .. }, Some(counted)) = (self.settings.as_ref().trip, &mut self.counted) {
            counted.window.add_many(ENDED, ended);
        }
    }

    /// An attempt has ended well while the breaker was closed, under `Silence`.
    #[inline]
    pub(crate) fn on_healthy_end(&mut self, now: Instant) {
        self.silence.on_success(self.consecutive, now);
        self.consecutive = 0;
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
        self.silence.note_end(end);
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
            Trip::Silence(_) => {
                self.silence.on_success(self.consecutive, now);
                self.consecutive = 0;
            }
            Trip::Count { .. } => {}
            Trip::Rate { .. } => {
                let Some(counted) = &mut self.counted else { return };
                counted.window.advance(now);
                counted.window.add(ENDED);
                if counted.slow.is_some() && self.note_slow(took, now) {
                    self.open(now);
                }
            }
        }
    }

    /// Whether an attempt that took so many nanoseconds was slow.
    fn is_slow(&self, took: u64) -> bool {
        self.settings
            .as_ref()
            .slow()
            .is_some_and(|slow| took > nanos(slow.above))
    }

    /// Counts an attempt among the slow ones if it was slow. Whether there are now too many of them.
    fn note_slow(&mut self, took: u64, now: Instant) -> bool {
        let is_slow = self.is_slow(took);
        let (
            Some(counted),
            Trip::Rate {
                minimum_calls,
                slow: Some(slow),
                ..
            },
        ) = (&mut self.counted, self.settings.as_ref().trip)
        else {
            return false;
        };
        let Some(window) = &mut counted.slow else {
            return false;
        };
        window.advance(now);
        if !is_slow {
            return false;
        }
        window.add(0);
        is_share(
            window.sum(0),
            counted.window.sum(ENDED),
            slow.ratio,
            minimum_calls,
        )
    }

    #[cold]
    fn on_failure_closed(&mut self, end: End, took: u64, now: Instant) {
        let trips = match self.settings.as_ref().trip {
            Trip::Consecutive(limit) => {
                self.consecutive = self.consecutive.saturating_add(1);
                self.consecutive >= limit
            }
            Trip::Silence(least) => {
                self.consecutive = self.consecutive.saturating_add(1);
                self.silence.on_failure(end, least, now)
            }
            Trip::Count { failures, .. } => self.counted.as_mut().is_some_and(|counted| {
                let window = &mut counted.window;
                window.advance(now);
                window.add(FAILED);
                window.sum(FAILED) >= u64::from(failures)
            }),
            Trip::Rate {
                ratio, minimum_calls, ..
            } => {
                let (ended, failed) = self.counted.as_mut().map_or((0, 0), |counted| {
                    let window = &mut counted.window;
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
            self.silence.on_close(self.openings);
            self.enter(State::Closed);
            self.openings = 0;
            self.forget();
        }
    }

    fn forget(&mut self) {
        if let Some(counted) = &mut self.counted {
            counted.window.clear();
            if let Some(slow) = &mut counted.slow {
                slow.clear();
            }
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
        self.silence.end_run();
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
            return self.silence.open_time(nanos(settings.open_for), most);
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

#[cfg(test)]
mod tests;
