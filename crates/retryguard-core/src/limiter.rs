//! A concurrency limit that follows the target.
//!
//! Queueing at a target is harmless as long as answers come in time. It does harm in two cases, and only there does
//! this limit shrink:
//!
//! - **Late**: answers take so long that callers give them up. What the target does for them is wasted.
//! - **Congested**: answers take longer than usual *and* attempts are rejected sooner than others are answered. Our own
//!   attempts stand in the queue that rejects them.
//!
//! Latency is read from successes alone. A random failure or a random timeout says nothing about a queue: as long as
//! what succeeds comes in time, nothing shrinks.
//!
//! Where many attempts fail, fewer at a time may serve more, and how many is the upper limit then. A client that is a good part of
//! the target's load sees it in what became of its attempts (see `profile.rs`), and clients together find it out by an experiment
//! (see `experiment.rs`).
//!
//! There is no limit at the start: the first one that is needed is what the client used at that moment. A limit below
//! one attempt is kept as a pause between attempts, so that many clients that make few calls can slow down too.

mod experiment;
mod profile;

use crate::{
    guard::{self, WallClock},
    pace::{Pace, larger, smaller},
    ratio::Ratio,
    time::Instant,
};
use experiment::{Experiment, Traffic};
use profile::Profile;

/// When the limit shrinks, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Never above this.
    pub most: u32,
    /// How much slower than usual successes may be before rejections are read as congestion.
    pub tolerance: Ratio,
    /// The share of an attempt's allowed time that successes may take before they are called late.
    pub late: Ratio,
}

impl Settings {
    /// The share of an attempt's allowed time from which on answers are late, where a policy does not say it.
    pub const LATE: Ratio = Ratio::percent(40);
}

impl Default for Settings {
    /// At most 1000; congested at twice the usual latency; late at 40 % of the time that attempts have.
    fn default() -> Self {
        Self {
            most: 1000,
            tolerance: Ratio::from_parts(2 * Ratio::PARTS),
            late: Self::LATE,
        }
    }
}

/// How an attempt ended, as far as the limit is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It was answered well.
    Success,
    /// It failed in a way that may come from load.
    Rejected,
    /// No answer came in time.
    TimedOut,
    /// The target failed at it.
    Failed,
    /// It failed in a way that no load can cause: it was never sent, or the request itself was at fault.
    Unrelated,
}

/// An attempt that has ended, and what is known beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) started: Instant,
    /// The weight of this attempt in a recent average.
    pub(crate) weight: f64,
    /// What the guard knows of retries.
    pub(crate) retries: guard::State,
}

/// The limit of one target.
#[derive(Debug, Clone)]
pub(crate) struct Limiter {
    settings: Settings,
    /// Attempts that may be under way, on average over time. Infinite until one is needed.
    limit: f64,
    /// Up to here the limit doubles with every round of answers; above it grows by one.
    threshold: f64,
    /// The share of its usual rate at which the client sends: less than one after timeouts.
    share: f64,
    /// The share of recent attempts that were not answered in time.
    late: f64,
    /// The share of recent attempts that were rejected.
    rejected: f64,
    /// The attempts under way when recent ones ended.
    used: f64,
    /// The same while answers came as fast as usual: what the client needs.
    normal: f64,
    /// The usual time between the starts of two attempts, in nanoseconds.
    gap: f64,
    last_gap: f64,
    last_start: Instant,
    /// How long an attempt takes, as of the last cut: the pause between attempts where the limit is below one.
    takes: f64,
    /// Whether an attempt has met the limit since it last changed.
    met: bool,
    /// No further cut before this: the last one must show its effect first.
    settled: Instant,
    share_settled: Instant,
    /// Successes since an attempt last failed, up to 255.
    in_a_row: u8,
    /// The share of recent attempts that failed in a way that load can cause.
    failing: f32,
    /// Made once attempts time out or fail. On the heap: most clients of a large simulation never meet that.
    failures: Option<Box<FailureState>>,
}

/// What is kept only once attempts have failed.
#[derive(Debug, Clone, Default)]
struct FailureState {
    abandoned: Abandoned,
    /// Made when some attempts fail.
    profile: Option<Box<Profile>>,
    /// Made when many attempts fail.
    experiment: Option<Experiment>,
}

/// Attempts that were given up and may still stand in the target's queue, behind which the next ones wait.
#[derive(Debug, Clone, Copy, Default)]
struct Abandoned {
    count: u32,
    /// When the last of them started: an answer to a later one shows that the target is past them.
    started: Instant,
    /// They are forgotten then.
    until: Instant,
}

/// The share of rejections from which a slow target is congested.
const REJECTIONS: f64 = 0.05;
/// A full queue rejects at once. What is rejected after so many times the latency of a success has failed behind the queue.
const LATE_REJECTION: f64 = 1.5;
/// What a timeout leaves of the rate at which a client sends, the same for one that makes few calls and would need minutes
/// for small steps, what a success adds to it, and the least.
const SLOWER: f64 = 0.7;
const SLOWER_FEW: f64 = 0.5;
const FASTER: f64 = 0.05;
const LEAST_SHARE: f64 = 0.1;
/// A smaller share of timeouts is taken for lost messages: by a client that makes few calls, beside rejections, and by others.
const LATE: f64 = 0.25;
const LOST: f64 = 0.3;
const MOSTLY: f64 = 0.6;
/// The usual time between two attempts of a client that makes few calls, in nanoseconds.
const FEW: f64 = 0.5e9;
/// The deepest single cut.
const CUT: f64 = 0.7;
/// The smallest limit, as a share of what the client normally uses, where attempts are rejected or run out of their time.
/// Whether still fewer serve more is for the experiment.
const LEAST: f64 = 0.6;
/// The same where what is sent is answered, though late. A target that has become slow serves as many at once as before,
/// and so does one whose answers are late because retries are made behind it.
const LEAST_ANSWERED: f64 = 1.0;
/// A smaller share of attempts that are rejected or run out of their time is not taken for a lack of capacity.
const ANSWERED: f64 = 0.2;
/// The longest pause between attempts, in usual gaps.
const LONGEST: f64 = 4.0;
/// Of how many attempts normal times are averaged.
const SLOWLY: f64 = 1.0 / 64.0;
/// From this share of failures on it is looked at how many fail at each number under way.
const SOME: f32 = 0.05;
/// Of how many attempts the share of failures is averaged.
const FAILURES: f32 = 1.0 / 32.0;

impl Limiter {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            limit: f64::INFINITY,
            threshold: f64::INFINITY,
            share: 1.0,
            late: 0.0,
            rejected: 0.0,
            used: 0.0,
            normal: 0.0,
            gap: 0.0,
            last_gap: 0.0,
            last_start: Instant::ZERO,
            takes: 0.0,
            met: false,
            settled: Instant::ZERO,
            share_settled: Instant::ZERO,
            in_a_row: 0,
            failing: 0.0,
            failures: None,
        }
    }

    pub(crate) fn replace(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The limit in whole attempts; at least one.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    pub(crate) fn places(&self) -> u32 {
        if self.limit == f64::INFINITY && self.failures.is_none() {
            return self.settings.most.max(1);
        }
        let limit = self.limit.min(f64::from(self.settings.most));
        (limit.min(self.best()) as u32).max(1)
    }

    /// As many attempts under way as were found to serve most; infinite where nothing was found.
    #[inline]
    fn best(&self) -> f64 {
        self.failures.as_ref().map_or(f64::INFINITY, |failures| {
            let by_profile = failures.profile.as_ref().map_or(f64::INFINITY, |it| it.bound());
            let by_experiment = failures
                .experiment
                .as_ref()
                .map_or(f64::INFINITY, Experiment::level);
            smaller(by_profile, by_experiment)
        })
    }

    /// Places that are taken by attempts which were given up; none while there is no limit.
    #[inline]
    pub(crate) fn abandoned(&self, now: Instant) -> u32 {
        match &self.failures {
            Some(failures) if self.limit < f64::INFINITY && now < failures.abandoned.until => {
                failures.abandoned.count
            }
            _ => 0,
        }
    }

    /// When the last of them is forgotten; long ago where they take no place.
    #[inline]
    pub(crate) fn abandoned_until(&self) -> Instant {
        match &self.failures {
            Some(failures) if self.limit < f64::INFINITY && failures.abandoned.count > 0 => {
                failures.abandoned.until
            }
            _ => Instant::ZERO,
        }
    }

    /// The same for calls that are made while a request is served. They hold that request's worker, so they do not wait
    /// and are refused beyond this. As many as in normal times may be under way, with room for their variation, and fewer
    /// where attempts are rejected or run out of their time: what is sent then does more harm than a refusal.
    #[cold]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    pub(crate) fn inner_places(&self) -> u32 {
        if self.best() < f64::INFINITY {
            return self.places();
        }
        let answered = 1.0 - self.rejected;
        self.places()
            .max((peak(self.normal) * answered * answered) as u32)
    }

    /// Attempts under way in normal times, rounded up.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    pub(crate) fn normal(&self) -> u32 {
        self.normal.ceil() as u32
    }

    /// Whether nothing is limited.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.limit == f64::INFINITY && self.share >= 1.0 && self.best() == f64::INFINITY
    }

    /// When the next attempt may start, where the limit is below one.
    #[inline]
    pub(crate) fn opens(&self) -> Instant {
        if self.limit >= 1.0 && self.share >= 1.0 {
            return Instant::ZERO;
        }
        self.pause_ends()
    }

    #[cold]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    fn pause_ends(&self) -> Instant {
        let by_limit = if self.limit < 1.0 {
            (self.takes / self.limit).min(LONGEST * self.gap)
        } else {
            0.0
        };
        let pause = by_limit.max(self.gap * (1.0 / self.share - 1.0)) as u64;
        Instant::from_nanos(self.last_start.as_nanos().saturating_add(pause))
    }

    #[inline]
    pub(crate) fn on_start(&mut self, now: Instant) {
        self.last_gap = now.nanos_since(self.last_start) as f64;
        self.last_start = now;
        if self.limit == f64::INFINITY || !self.met {
            self.gap += (self.last_gap - self.gap) * if self.gap == 0.0 { 1.0 } else { SLOWLY };
        }
    }

    /// An attempt could not start because of the limit.
    #[inline]
    pub(crate) fn on_met(&mut self) {
        self.met = true;
    }

    /// The target is down: what comes after starts small.
    pub(crate) fn on_down(&mut self) {
        self.threshold = self.limit.min(self.used.max(1.0));
        self.limit = 1.0;
    }

    /// The target is up again: what it rejected before is no evidence about it now.
    pub(crate) fn on_up(&mut self) {
        self.rejected = 0.0;
        self.met = true;
    }

    /// An attempt has ended, and `taken` were under way with it. Whether the experiment is due.
    #[inline]
    pub(crate) fn on_end(&mut self, ended: &Ended, taken: u32, pace: &Pace, now: Instant) -> bool {
        let Ended {
            end, weight, retries, ..
        } = *ended;
        // The others under way, and the share of the time in which this one was.
        let others = f64::from(taken) - 1.0;
        let used = others + smaller(pace.recent() / larger(self.last_gap, 1.0), 1.0);
        self.used += (used - self.used) * weight;
        if !pace.is_slow() {
            self.normal += (used - self.normal) * if self.normal == 0.0 { 1.0 } else { SLOWLY };
        }
        match end {
            End::Success | End::Failed | End::Unrelated => self.rejected -= self.rejected * weight,
            End::TimedOut if !self.may_have_queued(pace) => {}
            End::Rejected if is_late_rejection(ended, pace, now) => {}
            End::Rejected | End::TimedOut => self.rejected += (1.0 - self.rejected) * weight,
        }
        self.takes = pace.recent();
        if end == End::TimedOut || self.late > 0.0 {
            self.note_late(end, weight, pace);
        }
        self.note_abandoned(ended, pace, now);
        match end {
            End::TimedOut if now >= self.share_settled && self.is_late(pace) => {
                let kept = if self.gap > FEW { SLOWER_FEW } else { SLOWER };
                self.share = (self.share * kept).max(LEAST_SHARE);
                self.share_settled = now.after(pace.allowed_span());
            }
            End::Success if self.share < 1.0 => {
                self.share = (self.share + self.faster(pace)).min(1.0);
            }
            _ => {}
        }
        let aim = self.aim(pace, trust(retries));
        if aim < 1.0 {
            if now >= self.settled {
                self.cut(aim, pace, now);
            }
        } else if end == End::Success && self.met {
            self.grow(pace);
        }
        if end == End::Unrelated {
            return false;
        }
        self.in_a_row = match end {
            End::Success => self.in_a_row.saturating_add(1),
            _ => 0,
        };
        self.failing += (f32::from(u8::from(end != End::Success)) - self.failing) * FAILURES;
        let profiled = self.failures.as_ref().is_some_and(|it| it.profile.is_some());
        if profiled || (self.failing > SOME && taken > 1) {
            self.note_profile(ended, taken, now);
        }
        f64::from(self.failing) > experiment::MANY
            || self.failures.as_ref().is_some_and(|it| it.experiment.is_some())
    }

    /// Follows the share of attempts that were not answered in time. A success that was fast shows that no queue stands before
    /// the target: the timeouts before it were lost messages.
    fn note_late(&mut self, end: End, weight: f64, pace: &Pace) {
        let fast = pace.last_was_usual() || pace.last() < self.late_after(pace);
        if end == End::Success && fast {
            self.late = 0.0;
            return;
        }
        self.late += (f64::from(u8::from(end == End::TimedOut)) - self.late) * larger(weight, 0.125);
    }

    #[inline]
    fn note_abandoned(&mut self, ended: &Ended, pace: &Pace, now: Instant) {
        match (ended.end, &mut self.failures) {
            (End::TimedOut, failures) => {
                let known = &mut failures.get_or_insert_default().abandoned;
                let before = if now < known.until { known.count } else { 0 };
                *known = Abandoned {
                    count: before.saturating_add(1),
                    started: known.started.max(ended.started),
                    until: now.after(pace.allowed_span() / 2),
                };
            }
            (End::Success, Some(failures)) if failures.abandoned.count > 0 => {
                let known = &mut failures.abandoned;
                known.count = if ended.started >= known.started {
                    0
                } else {
                    known.count - 1
                };
            }
            _ => {}
        }
    }

    /// Feeds the profile. A timeout is left out: its time is the caller's patience, and a message may be lost at any number.
    #[cold]
    fn note_profile(&mut self, ended: &Ended, taken: u32, now: Instant) {
        if ended.end == End::TimedOut {
            return;
        }
        let known = &mut self.failures.get_or_insert_default().profile;
        let profile = known.get_or_insert_with(|| Box::new(Profile::new(now)));
        profile.on_end(ended.end != End::Success, ended.started, taken, now);
        if profile.is_over() {
            *known = None;
        }
    }

    /// Feeds the experiment, and ends it where little fails and it has found no limit.
    #[cold]
    pub(crate) fn run_experiment(
        &mut self,
        ended: &Ended,
        clock: Option<WallClock>,
        pace: &Pace,
        now: Instant,
    ) {
        let known = &mut self.failures.get_or_insert_default().experiment;
        let Some(clock) = clock else {
            *known = None;
            return;
        };
        let traffic = Traffic {
            failing: f64::from(self.failing),
            in_a_row: self.in_a_row,
            retries_help: ended.retries == guard::State::On,
            used: self.used,
            gap: self.gap,
        };
        let ended = experiment::Ended {
            success: ended.end == End::Success,
            started: ended.started.as_nanos().wrapping_add(clock.offset),
            now: now.as_nanos().wrapping_add(clock.offset),
        };
        let experiment = known.get_or_insert_with(Experiment::new);
        experiment.on_end(ended, &traffic, pace);
        if experiment.is_over(traffic.failing) {
            *known = None;
        }
    }

    /// What a success adds to the share. A client that makes few calls would need minutes for small steps: it takes an
    /// answer that came as fast as usual for the end of the queue.
    fn faster(&self, pace: &Pace) -> f64 {
        if self.gap > FEW && pace.last_was_usual() {
            self.share
        } else {
            FASTER / self.used.max(1.0)
        }
    }

    /// Whether timeouts come from a queue and not from lost messages. What succeeds is slow then. A client that makes few
    /// calls knows too little of what is usual: it asks how much of its time an answer took.
    fn is_late(&self, pace: &Pace) -> bool {
        let fast = pace.recent() > 0.0 && pace.recent() < self.late_after(pace);
        let most = if self.gap > FEW && !fast { LATE } else { MOSTLY };
        self.late > most || pace.is_slow()
    }

    /// Whether an attempt that was not answered in time may have waited in a queue: what succeeds is late, or too little
    /// succeeds to say so. Answers that are slow but in time show a target that works slowly: a few that take far longer say
    /// nothing of a queue.
    #[cold]
    fn may_have_queued(&self, pace: &Pace) -> bool {
        pace.recent() > self.late_after(pace) || self.late > LOST
    }

    /// From what latency on answers are late.
    #[inline]
    fn late_after(&self, pace: &Pace) -> f64 {
        self.settings.late.as_f64() * pace.allowed()
    }

    /// By what factor the latency should change; one where it may stay as it is.
    #[inline]
    fn aim(&self, pace: &Pace, trust: f64) -> f64 {
        let late = self.late_after(pace);
        if pace.allowed() > 0.0 && pace.recent() > late {
            return late / pace.recent();
        }
        if self.rejected > REJECTIONS {
            let tolerated = (1.0 + (self.settings.tolerance.as_f64() - 1.0) * trust) * pace.usual();
            if tolerated > 0.0 && pace.recent() > tolerated {
                return tolerated / pace.recent();
            }
        }
        1.0
    }

    #[cold]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    fn cut(&mut self, aim: f64, pace: &Pace, now: Instant) {
        let least = if self.rejected > ANSWERED {
            LEAST
        } else {
            LEAST_ANSWERED
        };
        self.limit = (self.limit.min(peak(self.used)) * aim.clamp(CUT, 0.97)).max(least * self.normal);
        self.threshold = self.limit;
        self.met = false;
        self.settled = Instant::from_nanos(now.as_nanos().saturating_add(pace.recent() as u64));
    }

    #[cold]
    fn grow(&mut self, pace: &Pace) {
        let free = pace.slower() < 1.3 && self.rejected < REJECTIONS;
        self.limit += if free || self.limit < self.threshold {
            0.5_f64.min(self.limit)
        } else {
            (1.0 / self.limit).min(self.limit)
        };
        self.met = false;
    }
}

/// How much slower than usual answers may be beside rejections: the clearer it is that failures are random, the slower.
const fn trust(retries: guard::State) -> f64 {
    match retries {
        guard::State::On => 2.0,
        guard::State::Ramping { .. } => 0.5,
        guard::State::Off => 0.2,
    }
}

/// Whether an attempt was rejected so late that no full queue is the cause. Where no success is known nothing can be said.
fn is_late_rejection(ended: &Ended, pace: &Pace, now: Instant) -> bool {
    let took = now.nanos_since(ended.started) as f64;
    pace.recent() > 0.0 && took > LATE_REJECTION * pace.recent()
}

/// Attempts that are under way at most, where so many are on average: with room for their variation.
fn peak(average: f64) -> f64 {
    average + 2.0 * average.sqrt() + 1.0
}

#[cfg(test)]
mod tests;
