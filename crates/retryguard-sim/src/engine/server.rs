//! The state of a service: its workers, its queue, its capacity, its instances.

mod codel;
mod instances;
mod tokens;

use std::{collections::VecDeque, time::Duration};

use retryguard_core::{FailureKind, Instant, Ratio, shed, shed::Shed};

use crate::world::{Effects, LoadErrors, QueueOrder, Service, Shedding, Station};

use super::{CallKey, JobKey};
use codel::Codel;
pub(super) use instances::InstanceStart;
use instances::Instances;
pub(super) use tokens::Source;
use tokens::Tokens;

/// A service at work.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) station: ServiceCapacity,
    pub(super) busy: u32,
    pub(super) waiting: VecDeque<JobKey>,
    /// Whether the newest waiting request is next.
    pub(super) newest_first: bool,
    pub(super) codel: Option<Codel>,
    pub(super) shed: Option<Shed>,
    pub(super) pools: Vec<PoolState>,
    pub(super) faults: ActiveFaults,
    /// Whether calls that are held will look again by themselves.
    pub(super) looks: bool,
    /// Sizes that were decided and take effect later.
    pub(super) resizes: VecDeque<f64>,
    pub(super) scaler: super::scale::State,
    pub(super) counts: Counts,
    pub(super) bill: Bill,
    pub(super) seen: std::collections::HashMap<u64, ()>,
    /// What doing a request twice does, under the policy in force.
    pub(super) effects: Effects,
    /// What turning a request away costs in a worker's time, and what has been spent and not yet been taken from the
    /// work on others, in nanoseconds.
    rejection_work: u64,
    owed_work: u64,
    /// Whether admission depends on more than free room.
    asks: bool,
    /// Requests that can be worked on at once, and how many of them serve most where errors come from load.
    workers: u32,
    best_busy: u32,
    load_errors: Option<LoadErrors>,
    /// Whether a call of it may go through an outbox, and what waits in it.
    pub(super) posts: bool,
    pub(super) outbox: super::outbox::Outboxed,
    /// How many seconds the work takes on average, and in how many a request will most likely be served.
    pub(super) usual_time: f64,
    pub(super) enough_time: f64,
    held: VecDeque<CallKey>,
    held_late: Vec<CallKey>,
}

/// What bounds the work.
#[derive(Debug)]
pub(super) enum ServiceCapacity {
    Workers { replicas: u32, each: u32, queue: usize },
    Capacity(Tokens),
    Instances(Instances),
}

/// What the faults in force do to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ActiveFaults {
    pub(super) down: bool,
    pub(super) errors: f64,
    pub(super) slow: f64,
    pub(super) share: f64,
    pub(super) broken: u32,
    /// Faults that add a delay.
    pub(super) delays: Vec<usize>,
}

impl ActiveFaults {
    pub(super) const NONE: Self = Self {
        down: false,
        errors: 0.0,
        slow: 1.0,
        share: 1.0,
        broken: 0,
        delays: Vec::new(),
    };
}

/// Connections of a pool.
#[derive(Debug)]
pub(super) struct PoolState {
    pub(super) free: u32,
    pub(super) waiting: VecDeque<super::pools::Planned>,
}

/// What an autoscaler reads, since it last did.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) arrivals: u64,
    pub(super) consumed: f64,
    pub(super) from_burst: f64,
    /// Worker-nanoseconds of work.
    pub(super) busy_area: u128,
    busy_since: Instant,
}

/// What has been used that costs something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bill {
    from: Instant,
    until: Instant,
    settled: Instant,
    pub(super) requests: u64,
    pub(super) instance_millis: u64,
    /// Nanoseconds of work on requests that count.
    pub(super) work_nanos: u64,
    /// Unit-seconds of capacity, replica-seconds.
    pub(super) size_seconds: f64,
}

impl Server {
    pub(super) fn new(service: &Service, policy_rule: Option<shed::Settings>, policy_keys: bool) -> Self {
        let station = match &service.station {
            Station::Workers {
                replicas,
                workers,
                queue,
                ..
            } => ServiceCapacity::Workers {
                replicas: *replicas,
                each: *workers,
                queue: queue.map_or(usize::MAX, |queue| queue as usize),
            },
            Station::Capacity {
                per_second, burst, ..
            } => ServiceCapacity::Capacity(Tokens::new(*per_second, *burst)),
            Station::Instances {
                most,
                new_per_ten_seconds,
                ..
            } => ServiceCapacity::Instances(Instances::new(*most, *new_per_ten_seconds)),
        };
        let rule = match service.shedding {
            Shedding::Off => None,
            Shedding::ByPolicy | Shedding::Layer => policy_rule,
            Shedding::By(rule) => Some(rule),
        };
        let effects = match (service.effects, policy_keys) {
            (Effects::ByPolicy, true) => Effects::Keyed,
            (Effects::ByPolicy, false) => Effects::Counted,
            (effects, _) => effects,
        };
        let newest_first = service.queue_order == QueueOrder::NewestFirst;
        let mut server = Self {
            asks: rule.is_some() || effects == Effects::Keyed || newest_first,
            newest_first,
            codel: match service.queue_order {
                QueueOrder::Codel { target, interval } => Some(Codel::new(target, interval)),
                _ => None,
            },
            rejection_work: super::nanos(service.rejection_work),
            owed_work: 0,
            workers: 0,
            best_busy: u32::MAX,
            load_errors: service.load_errors,
            station,
            busy: 0,
            waiting: VecDeque::new(),
            shed: rule.map(|rule| Shed::new(rule, Instant::ZERO)),
            pools: Vec::new(),
            faults: ActiveFaults::NONE,
            looks: false,
            resizes: VecDeque::new(),
            scaler: super::scale::State::default(),
            counts: Counts::default(),
            bill: Bill {
                from: Instant::ZERO,
                until: Instant::NEVER,
                settled: Instant::ZERO,
                requests: 0,
                instance_millis: 0,
                work_nanos: 0,
                size_seconds: 0.0,
            },
            seen: std::collections::HashMap::new(),
            effects,
            posts: service.steps.iter().any(|step| step.outbox.is_some()),
            outbox: super::outbox::Outboxed::default(),
            // Seven times the mean: one in a thousand of exponential times is longer.
            enough_time: 7.0 * service.station.time().mean(),
            usual_time: service.station.time().mean(),
            held: VecDeque::new(),
            held_late: Vec::new(),
        };
        server.count_workers();
        server
    }

    /// Requests that can be worked on at once.
    #[inline]
    pub(super) fn workers(&self) -> u32 {
        self.workers
    }

    /// Counts the workers, whenever the size or the faults change.
    fn count_workers(&mut self) {
        self.workers = match &self.station {
            ServiceCapacity::Workers { replicas, each, .. } => {
                let all = replicas.saturating_mul(*each);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a share of a count"
                )]
                let left = (f64::from(all) * self.faults.share).round() as u32;
                left
            }
            ServiceCapacity::Capacity(_) => u32::MAX,
            ServiceCapacity::Instances(instances) => instances.most,
        };
        if let Some(load) = self.load_errors
            && matches!(self.station, ServiceCapacity::Workers { .. })
        {
            let all = f64::from(self.workers.max(1));
            let served = |busy: u32| f64::from(busy) * (1.0 - load.at(f64::from(busy) / all));
            let best = (1..=self.workers.max(1)).max_by(|a, b| served(*a).total_cmp(&served(*b)));
            self.best_busy = best.unwrap_or(1);
        }
    }

    /// Other faults are in force.
    pub(super) fn set_faults(&mut self, faults: ActiveFaults) {
        self.faults = faults;
        self.count_workers();
    }

    /// Replicas, units of capacity, or instances in use.
    pub(super) fn size(&self) -> f64 {
        match &self.station {
            ServiceCapacity::Workers { replicas, .. } => f64::from(*replicas),
            ServiceCapacity::Capacity(tokens) => tokens.per_second,
            ServiceCapacity::Instances(_) => f64::from(self.busy),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of replicas"
    )]
    pub(super) fn set_size(&mut self, size: f64, now: Instant) {
        self.settle(now);
        match &mut self.station {
            ServiceCapacity::Workers { replicas, .. } => *replicas = size.round() as u32,
            ServiceCapacity::Capacity(tokens) => tokens.per_second = size,
            ServiceCapacity::Instances(_) => {}
        }
        self.count_workers();
    }

    /// The next waiting request.
    pub(super) fn next_in_line(&mut self) -> Option<JobKey> {
        if self.newest_first {
            self.waiting.pop_back()
        } else {
            self.waiting.pop_front()
        }
    }

    /// How much of it is in use: above one where requests wait.
    #[expect(clippy::cast_precision_loss, reason = "a queue is short")]
    pub(super) fn utilisation(&self) -> f64 {
        (f64::from(self.busy) + self.waiting.len() as f64) / f64::from(self.workers().max(1))
    }

    /// As what a request that comes now is turned away whatever it is, if it is: most are, in an overload.
    #[inline]
    pub(super) fn closed_to_all(&self) -> Option<FailureKind> {
        if self.faults.down {
            return Some(FailureKind::Unreachable);
        }
        if self.faults.broken > 0 || self.asks {
            return None;
        }
        match &self.station {
            ServiceCapacity::Workers { queue, .. }
                if self.waiting.len() >= *queue && self.busy >= self.workers =>
            {
                Some(FailureKind::Overload)
            }
            _ => None,
        }
    }

    /// Whether a request that came now would be worked on at once.
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        if self.faults.down || self.faults.errors >= 1.0 {
            return false;
        }
        let (busy, workers) = (self.busy, self.workers());
        let share = self.faults.share;
        match &mut self.station {
            ServiceCapacity::Workers { .. } => busy < self.best_busy.min(workers),
            ServiceCapacity::Capacity(tokens) => tokens.has_one(now, share),
            ServiceCapacity::Instances(instances) => instances.has_room(busy, now),
        }
    }

    /// A rejection costs a worker's time.
    #[inline]
    pub(super) fn owe_rejection_work(&mut self) {
        self.owed_work = self.owed_work.saturating_add(self.rejection_work);
    }

    /// The time that rejections took since the last request was begun: the next one takes so much longer.
    #[inline]
    pub(super) fn take_owed_work(&mut self) -> u64 {
        std::mem::take(&mut self.owed_work)
    }

    pub(super) fn take_worker(&mut self, now: Instant) {
        self.note_busy(now);
        self.busy += 1;
    }

    pub(super) fn free_worker(&mut self, now: Instant) {
        self.note_busy(now);
        self.busy -= 1;
    }

    fn note_busy(&mut self, now: Instant) {
        let counts = &mut self.counts;
        let passed = now.as_nanos().saturating_sub(counts.busy_since.as_nanos());
        counts.busy_area += u128::from(self.busy) * u128::from(passed);
        counts.busy_since = now;
    }

    /// What was read since the last time; starts anew.
    pub(super) fn take_counts(&mut self, now: Instant) -> Counts {
        self.note_busy(now);
        std::mem::replace(
            &mut self.counts,
            Counts {
                busy_since: now,
                ..Counts::default()
            },
        )
    }

    /// What is billed by the time that it is there.
    pub(super) fn settle(&mut self, now: Instant) {
        let begins = self.bill.settled.max(self.bill.from);
        let ends = now.min(self.bill.until);
        self.bill.size_seconds += self.size() * ends.since(begins).as_secs_f64();
        self.bill.settled = self.bill.settled.max(now);
    }

    /// The time that is billed.
    pub(super) fn bill_between(&mut self, from: Instant, until: Instant) {
        self.bill.from = from;
        self.bill.until = until;
    }

    /// Tells the shedder how long a request waited and how busy the workers are.
    pub(super) fn note_wait(&mut self, waited: Duration, now: Instant) {
        let used = Ratio::of_counts(u64::from(self.busy), u64::from(self.workers().max(1)));
        if let Some(shed) = &mut self.shed {
            shed.on_queue_time(waited, now);
            shed.on_processor(used);
        }
    }

    pub(super) fn hold(&mut self, call: CallKey) {
        self.held.push_back(call);
    }

    /// A call that has not enough time left to be sure.
    pub(super) fn hold_late(&mut self, call: CallKey) {
        self.held_late.push(call);
    }

    /// The next call that is held, and whether it is one of the late.
    pub(super) fn unhold(&mut self) -> Option<(CallKey, bool)> {
        let first = self.held.pop_front().map(|call| (call, false));
        first.or_else(|| self.held_late.pop().map(|call| (call, true)))
    }

    pub(super) fn holds_any(&self) -> bool {
        !self.held.is_empty() || !self.held_late.is_empty()
    }

    /// When there may be room that no request makes by leaving: the next second, at which capacity is given
    /// out; a fault may end and a service grow at any other time, and waiting up to a tenth for that is
    /// enough.
    pub(super) fn next_look(&self, now: Instant) -> Instant {
        const SECOND: u64 = 1_000_000_000;
        let grid = if matches!(self.station, ServiceCapacity::Capacity(_)) {
            SECOND
        } else {
            SECOND / 10
        };
        Instant::from_nanos((now.as_nanos() / grid + 1) * grid)
    }
}
