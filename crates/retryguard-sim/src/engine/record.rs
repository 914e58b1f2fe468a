//! What is written down of a run.

mod recovery;
mod tally;
mod time_line;

use std::time::Duration;

use retryguard_core::{Instant, Refusal, Target, breaker, guard, target::Change};

use super::{Engine, calls::Ended, server::Server};
use crate::{
    statistics::Histogram,
    world::{Price, Station, World},
};

use recovery::Seconds;
pub(super) use tally::Tally;
pub use time_line::{EdgeState, Moment, Shares, State, TimeLine};

/// What one run of one policy came to. Only calls that began while the world was measured are counted, with
/// everything that they caused.
#[derive(Debug, Clone)]
pub struct Run {
    /// The policy's name.
    pub policy: String,
    /// Calls from outside.
    pub calls: u64,
    /// Those that succeeded.
    pub successes: u64,
    /// Those that failed because something had too much to do, or were refused to protect it.
    pub rejected: u64,
    /// Those that failed for another reason.
    pub failed: u64,
    /// Those that had not ended when the run did.
    pub unfinished: u64,
    /// How long calls took, whatever they came to, in nanoseconds.
    pub latency: Histogram,
    /// How long those took together that succeeded, in nanoseconds.
    pub success_nanos: u128,
    /// Each service.
    pub services: Vec<ServiceRun>,
    /// Why attempts were not sent, in the order of [`Refusal::ALL`].
    pub refusals: [u64; Refusal::ALL.len()],
    /// Calls that were written into an outbox.
    pub messages: u64,
    /// Those that were delivered.
    pub delivered: u64,
    /// How long they waited for that, in nanoseconds.
    pub delivery: Histogram,
    /// How much time was measured, in seconds.
    pub measured: f64,
    /// From the beginning of the first fault until more than 95 % of calls succeeded for ten seconds, in
    /// seconds: zero where it never fell below, `None` where it never came back, or where nothing broke.
    pub recovery: Option<f64>,
    /// The share of the time in which breakers towards the focus were open.
    pub breaker_open: f64,
    /// The share of the time in which guards towards the focus held retries back.
    pub guard_off: f64,
    /// The time lines.
    pub lines: TimeLine,
    /// Events that were handled.
    pub events: u64,
    /// The service that the headline numbers are about.
    pub focus: usize,
}

/// What one service saw.
#[derive(Debug, Clone, Default)]
pub struct ServiceRun {
    /// Its name.
    pub name: String,
    /// Requests that reached it.
    pub attempts: u64,
    /// Those that would have reached it if no client had ever retried.
    pub originals: u64,
    /// Those that the caller next to it sent again.
    pub retries: u64,
    /// Those that it turned away.
    pub rejections: u64,
    /// Those that it worked on and answered well.
    pub succeeded: u64,
    /// Those that it worked on and that failed.
    pub failed: u64,
    /// Effects that it had.
    pub effects: u64,
    /// Those that it had already had.
    pub doubled: u64,
    /// What it cost.
    pub bill: f64,
    /// Its largest size: replicas, or capacity.
    pub largest: f64,
    /// Its last size.
    pub last: f64,
    /// Replica-seconds or capacity-seconds.
    pub size_seconds: f64,
    /// How often its autoscaler changed it.
    pub resizes: u32,
    /// How often its autoscaler made it larger.
    pub increases: u32,
    /// Whether it has an autoscaler.
    pub scales: bool,
    /// Whether it runs replicas that are there all the time.
    pub has_replicas: bool,
    /// Seconds of its own work, without what it waited for.
    pub work_seconds: f64,
}

impl Run {
    /// Retries for each call, of all senders.
    #[must_use]
    pub fn retries_per_call(&self) -> f64 {
        ratio(
            self.services.iter().map(|service| service.retries).sum(),
            self.calls,
        )
    }

    /// Requests that reached the focus for each that would have without any retry, anywhere.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        let focus = &self.services[self.focus];
        ratio(focus.attempts, focus.originals)
    }

    /// The share of calls that succeeded.
    #[must_use]
    pub fn success_rate(&self) -> f64 {
        ratio(self.successes, self.calls)
    }

    /// The share of calls that were rejected.
    #[must_use]
    pub fn rejection_rate(&self) -> f64 {
        ratio(self.rejected, self.calls)
    }

    /// What everything cost.
    #[must_use]
    pub fn bill(&self) -> f64 {
        self.services.iter().map(|service| service.bill).sum()
    }

    /// Successful calls a second.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.successes as f64 / self.measured.max(f64::MIN_POSITIVE)
    }

    /// Effects that were had twice, for each effect.
    #[must_use]
    pub fn duplicate_rate(&self) -> f64 {
        let (doubled, effects) = self.services.iter().fold((0, 0), |(doubled, effects), it| {
            (doubled + it.doubled, effects + it.effects)
        });
        ratio(doubled, effects - doubled)
    }
}

/// A part of a whole; zero of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Writes it down.
#[derive(Debug)]
pub(super) struct Recorder {
    from: Instant,
    until: Instant,
    pub(super) ended_early: bool,
    pub(super) events: u64,
    run: Run,
    ended: u64,
    seconds: Seconds,
    lines: TimeLine,
    /// One for each service.
    tallies: Vec<Tally>,
    breaker_open: f64,
    guard_off: f64,
    looks: u32,
}

impl Recorder {
    pub(super) fn new(world: &World) -> Self {
        let services = world
            .services
            .iter()
            .map(|service| ServiceRun {
                name: service.name.clone(),
                ..ServiceRun::default()
            })
            .collect();
        Self {
            from: world.measure.from,
            until: world.measure.until,
            ended_early: false,
            events: 0,
            run: Run {
                policy: String::new(),
                calls: 0,
                successes: 0,
                rejected: 0,
                failed: 0,
                unfinished: 0,
                latency: Histogram::new(),
                success_nanos: 0,
                services,
                refusals: [0; Refusal::ALL.len()],
                messages: 0,
                delivered: 0,
                delivery: Histogram::new(),
                measured: 0.0,
                recovery: None,
                breaker_open: 0.0,
                guard_off: 0.0,
                lines: TimeLine::default(),
                events: 0,
                focus: world.focus,
            },
            ended: 0,
            seconds: Seconds::default(),
            lines: TimeLine::new(world),
            tallies: vec![Tally::default(); world.services.len()],
            breaker_open: 0.0,
            guard_off: 0.0,
            looks: 0,
        }
    }

    /// A call from outside begins. Whether it is counted.
    #[inline]
    pub(super) fn on_call(&mut self, now: Instant) -> bool {
        let counted = now >= self.from && now < self.until;
        self.run.calls += u64::from(counted);
        self.turn_to(now);
        self.lines.present().calls += 1;
        counted
    }

    /// Counted calls that have not ended.
    pub(super) fn open_calls(&self) -> u64 {
        self.run.calls - self.ended
    }

    #[inline]
    pub(super) fn on_call_end(&mut self, ended: &Ended, taken: u64, now: Instant, counted: bool) {
        let success = matches!(ended, Ended::Success);
        self.seconds.add(now, success);
        self.turn_to(now);
        self.lines.on_call_end(success, taken);
        if !counted {
            return;
        }
        self.ended += 1;
        self.run.latency.add(taken);
        match ended {
            Ended::Success => {
                self.run.successes += 1;
                self.run.success_nanos += u128::from(taken);
            }
            Ended::Failure(failure) if !failure.rejection => self.run.failed += 1,
            Ended::Failure(_) | Ended::Refused(_) => self.run.rejected += 1,
        }
    }

    /// The counts of a service, for a request that comes now and is part of a step of the time line.
    #[inline]
    pub(super) fn tally(&mut self, service: usize, now: Instant) -> &mut Tally {
        self.turn_to(now);
        &mut self.tallies[service]
    }

    #[inline]
    pub(super) fn on_served(&mut self, service: usize, success: bool, counted: bool) {
        self.tallies[service].on_served(success, counted);
    }

    /// Before the time line moves on to another step, what was counted in the present one is written down there.
    #[inline]
    fn turn_to(&mut self, now: Instant) {
        if !self.lines.is_at(now) {
            self.end_step();
            self.lines.at(now);
        }
    }

    #[cold]
    fn end_step(&mut self) {
        for (service, tally) in self.tallies.iter_mut().enumerate() {
            let (attempts, retries) = std::mem::take(&mut tally.step);
            self.lines.add_attempts(service, attempts, retries);
        }
    }

    pub(super) fn on_effect(&mut self, service: usize, doubled: bool, counted: bool) {
        if counted {
            self.run.services[service].effects += 1;
            self.run.services[service].doubled += u64::from(doubled);
        }
    }

    pub(super) fn on_message(&mut self, counted: bool) {
        self.run.messages += u64::from(counted);
    }

    pub(super) fn on_delivered(&mut self, took: Duration, counted: bool) {
        if counted {
            self.run.delivered += 1;
            self.run.delivery.add(super::nanos(took));
        }
    }

    pub(super) fn on_refusal(&mut self, _edge: usize, refusal: Refusal, counted: bool) {
        self.run.refusals[refusal.index()] += u64::from(counted);
    }

    pub(super) fn on_change(&mut self, _edge: usize, change: &Change) {
        self.lines.changes += u32::from(matches!(change, Change::Guard(_)));
    }

    /// The measurement ends earlier than planned. Whether it had begun and not ended.
    pub(super) fn end_measure(&mut self, now: Instant) -> bool {
        let runs = now > self.from && now < self.until && !self.ended_early;
        if runs {
            self.until = now;
            self.ended_early = true;
        }
        runs
    }

    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of work")]
    pub(super) fn finish(mut self, policy: &str, world: &World, servers: &[Server], now: Instant) -> Run {
        policy.clone_into(&mut self.run.policy);
        self.run.unfinished = self.open_calls();
        self.run.events = self.events;
        let ends = self.until.min(Instant::ZERO.after(world.duration)).min(now);
        self.run.measured = ends.since(self.from).as_secs_f64();
        let first_fault = world.faults.iter().map(|fault| fault.from).min();
        self.run.recovery = first_fault.and_then(|from| self.seconds.recovery(from, ends));
        let looks = f64::from(self.looks.max(1));
        self.run.breaker_open = self.breaker_open / looks;
        self.run.guard_off = self.guard_off / looks;
        self.end_step();
        for (service, tally) in self.run.services.iter_mut().zip(&self.tallies) {
            service.attempts = tally.attempts;
            service.originals = tally.originals;
            service.retries = tally.retries;
            service.rejections = tally.rejections;
            service.succeeded = tally.succeeded;
            service.failed = tally.failed;
        }
        for ((service, server), plan) in self.run.services.iter_mut().zip(servers).zip(&world.services) {
            service.bill = billed(server, &plan.price, &plan.station);
            service.size_seconds = server.bill.size_seconds;
            service.last = server.size();
            service.resizes = server.scaler.changes;
            service.increases = server.scaler.increases;
            service.scales = plan.scaler.is_some();
            service.has_replicas = matches!(plan.station, Station::Workers { .. });
            service.work_seconds = server.bill.work_nanos as f64 / 1e9;
            service.largest = service.largest.max(service.last);
        }
        self.run.lines = self.lines;
        self.run
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn billed(server: &Server, price: &Price, station: &Station) -> f64 {
    let bill = &server.bill;
    let by_size = match station {
        Station::Capacity { .. } => price.per_capacity_hour,
        Station::Workers { .. } => price.per_replica_hour,
        Station::Instances { .. } => 0.0,
    };
    bill.requests as f64 * price.per_million_requests / 1e6
        + bill.instance_millis as f64 * price.per_instance_second / 1e3
        + bill.size_seconds * by_size / 3600.0
}

impl Engine<'_> {
    /// A look at the state of everything, for the time lines.
    pub(super) fn record_state(&mut self) {
        let (mut open, mut off, mut peers) = (0.0, 0.0, 0_usize);
        let mut edges = Vec::with_capacity(self.lines.len());
        for (edge, line) in self.world.edges.iter().zip(&self.lines) {
            let has_breaker = line.settings.breaker.is_some();
            let has_guard = line.settings.guard.is_some();
            let (mut breaker, mut guard) = (Shares::default(), Shares::default());
            let in_focus = edge.to == self.world.focus;
            if in_focus || has_breaker || has_guard {
                // A million clients need not all be asked: the first thousand tell as much.
                let asked = line.peers.len().min(1000);
                let fresh = Target::new(line.settings.clone(), self.now);
                for peer in line.peers.first(asked) {
                    let target = peer.map_or(&fresh, |peer| &peer.target);
                    match target.breaker_state() {
                        breaker::State::Closed => {}
                        breaker::State::Open => breaker.shut += 1.0,
                        breaker::State::HalfOpen => breaker.trying += 1.0,
                    }
                    let held_back = 1.0 - target.guard_share().as_f64();
                    match target.guard_state() {
                        guard::State::On => continue,
                        guard::State::Off => guard.shut += held_back,
                        guard::State::Ramping { .. } => guard.trying += held_back,
                    }
                    off += if in_focus { held_back } else { 0.0 };
                }
                if in_focus {
                    peers += asked;
                    open += breaker.shut;
                }
                let asked = asked.max(1) as f64;
                for shares in [&mut breaker, &mut guard] {
                    shares.shut /= asked;
                    shares.trying /= asked;
                }
            }
            edges.push(EdgeState {
                breaker: has_breaker.then_some(breaker),
                guard: has_guard.then_some(guard),
            });
        }
        let peers = peers.max(1) as f64;
        let state = State {
            breaker_open: open / peers,
            guard_off: off / peers,
        };
        let record = &mut self.record;
        if self.now >= record.from && self.now <= record.until {
            record.looks += 1;
            record.breaker_open += state.breaker_open;
            record.guard_off += state.guard_off;
        }
        for (service, server) in record.run.services.iter_mut().zip(&self.servers) {
            service.largest = service.largest.max(server.size());
        }
        let mut bill = 0.0;
        for (server, plan) in self.servers.iter_mut().zip(&self.world.services) {
            server.settle(self.now);
            bill += billed(server, &plan.price, &plan.station);
        }
        let sizes = self.servers.iter().map(Server::size);
        let waiting = self.servers.iter().map(|server| server.waiting.len());
        record.end_step();
        record
            .lines
            .on_state(self.now, state, edges, bill, sizes, waiting);
    }
}
