//! Autoscalers at work.

use std::{collections::VecDeque, time::Duration};

use retryguard_core::Instant;

use super::{Engine, Event, server::Counts};
use crate::world::{Hpa, Metric, Scaler, TargetTracking};

/// What an autoscaler remembers.
#[derive(Debug, Default)]
pub(super) struct State {
    above: u32,
    below: u32,
    decreases: u32,
    last_decrease: Instant,
    /// Whether a change is on its way.
    changing: bool,
    /// Pods that were ordered, ready or not.
    ordered: Option<f64>,
    recommended: VecDeque<(Instant, f64)>,
    /// How often the size has changed.
    pub(super) changes: u32,
    /// How often it has grown.
    pub(super) increases: u32,
}

impl Engine<'_> {
    #[expect(clippy::cast_possible_truncation, reason = "a world has few services")]
    pub(super) fn begin_scalers(&mut self) {
        let measure = self.world.measure;
        for (index, service) in self.world.services.iter().enumerate() {
            self.servers[index].bill_between(measure.from, measure.until);
            if let Some(scaler) = &service.scaler {
                let period = period(scaler);
                self.queue
                    .push(Instant::ZERO.after(period), Event::Reading(index as u32));
            }
        }
    }

    /// An autoscaler takes its reading.
    pub(super) fn reading(&mut self, service: u32) {
        let index = service as usize;
        let Some(scaler) = &self.world.services[index].scaler else {
            return;
        };
        let counts = self.servers[index].take_counts(self.now);
        match scaler {
            Scaler::TargetTracking(rules) => self.track(index, rules, &counts),
            Scaler::Hpa(rules) => self.recommend(index, rules, &counts),
        }
        let next = self.now.after(period(scaler));
        if next <= self.stops {
            self.queue.push(next, Event::Reading(service));
        }
    }

    fn track(&mut self, index: usize, rules: &TargetTracking, counts: &Counts) {
        let server = &mut self.servers[index];
        let size = server.size();
        let burst = if rules.burst_counts {
            0.0
        } else {
            counts.from_burst
        };
        let consumed = (counts.consumed - burst) / rules.period.as_secs_f64();
        let state = &mut server.scaler;
        // A service that runs at its target exactly reads a little above it in half of the minutes.
        let above = consumed > size * rules.target * 1.005;
        let below = consumed < size * rules.target * (1.0 - rules.down_margin);
        state.above = if above { state.above + 1 } else { 0 };
        state.below = if below { state.below + 1 } else { 0 };
        if state.changing {
            return;
        }
        let wanted = (consumed / rules.target).clamp(rules.limits.least, rules.limits.most);
        let grows = wanted > size;
        let hour = Duration::from_secs(3600);
        let may_fall = state.decreases < rules.early_decreases || self.now.since(state.last_decrease) >= hour;
        if state.above >= rules.up_after && grows {
            state.above = 0;
        } else if state.below >= rules.down_after && wanted < size && may_fall {
            state.below = 0;
            state.decreases += 1;
            state.last_decrease = self.now;
        } else {
            return;
        }
        state.changing = true;
        state.increases += u32::from(grows);
        server.resizes.push_back(wanted);
        self.order(index, rules.lag);
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of one period")]
    fn recommend(&mut self, index: usize, rules: &Hpa, counts: &Counts) {
        let server = &mut self.servers[index];
        let ready = server.size().max(1.0);
        let seconds = rules.period.as_secs_f64();
        let per_replica = f64::from(server.workers()) / ready;
        let reading = match rules.metric {
            Metric::Utilisation => counts.busy_area as f64 / 1e9 / seconds / per_replica.max(1.0) / ready,
            Metric::RequestsPerReplica => counts.arrivals as f64 / seconds / ready,
            Metric::InFlight => (f64::from(server.busy) + server.waiting.len() as f64) / ready,
        };
        let state = &mut server.scaler;
        let current = state.ordered.unwrap_or(ready);
        let ratio = reading / rules.target;
        let raw = if (ratio - 1.0).abs() <= rules.tolerance {
            current
        } else {
            (ready * ratio).ceil()
        };
        let raw = raw.clamp(rules.limits.least, rules.limits.most);
        state.recommended.push_back((self.now, raw));
        let keep = rules.up_window.max(rules.down_window);
        while state
            .recommended
            .front()
            .is_some_and(|(at, _)| self.now.since(*at) > keep)
        {
            state.recommended.pop_front();
        }
        let wanted = stabilised(&state.recommended, current, rules, self.now);
        let most = (current + f64::from(rules.up_pods))
            .max(current * (1.0 + rules.up_share))
            .floor();
        let least = (current * (1.0 - rules.down_share)).ceil();
        let wanted = wanted.clamp(least.min(current), most.max(current));
        if wanted == current {
            return;
        }
        state.ordered = Some(wanted);
        state.increases += u32::from(wanted > current);
        // Pods come after their start and go at once.
        let lag = if wanted > current {
            rules.ready_after
        } else {
            Duration::ZERO
        };
        server.resizes.push_back(wanted);
        self.order(index, lag);
    }

    #[expect(clippy::cast_possible_truncation, reason = "a world has few services")]
    fn order(&mut self, index: usize, lag: Duration) {
        self.servers[index].scaler.changes += 1;
        if lag.is_zero() {
            // What goes at once overtakes what is still on its way.
            let server = &mut self.servers[index];
            let size = server.resizes.pop_back().expect("was just put in");
            server.resizes.push_front(size);
        }
        self.queue.push(self.now.after(lag), Event::Resize(index as u32));
    }

    /// A decided size takes effect.
    pub(super) fn resize(&mut self, service: u32) {
        let index = service as usize;
        let server = &mut self.servers[index];
        server.scaler.changing = false;
        let Some(size) = server.resizes.pop_front() else {
            return;
        };
        // Pods that have been cancelled since do not come.
        let size = server
            .scaler
            .ordered
            .map_or(size, |ordered| size.min(ordered.max(server.size())));
        server.set_size(size, self.now);
        if let Some((watched, enough)) = self.world.measure.scaled
            && watched == index
            && size >= enough
            && self.record.end_measure(self.now)
        {
            for server in &mut self.servers {
                server.settle(self.now);
                server.bill_between(self.world.measure.from, self.now);
            }
        }
        self.next_waiting(index);
    }
}

/// Upwards the smallest recommendation of the window counts, downwards the largest.
fn stabilised(recommended: &VecDeque<(Instant, f64)>, current: f64, rules: &Hpa, now: Instant) -> f64 {
    let within = |window: Duration| {
        recommended
            .iter()
            .filter(move |(at, _)| now.since(*at) <= window)
            .map(|(_, wanted)| *wanted)
    };
    let up = within(rules.up_window).fold(f64::INFINITY, f64::min);
    let down = within(rules.down_window).fold(0.0, f64::max);
    if current < up {
        up
    } else if current > down {
        down
    } else {
        current
    }
}

fn period(scaler: &Scaler) -> Duration {
    match scaler {
        Scaler::TargetTracking(rules) => rules.period,
        Scaler::Hpa(rules) => rules.period,
    }
}
