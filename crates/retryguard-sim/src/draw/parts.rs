//! What every drawn world has: services, clients, and the trouble of its kind, as the text of a scenario file.

use std::fmt::Write as _;

use crate::streams::Stream;

/// Calls of a drawn world, about: enough that a point of goodput is not noise, few enough that a policy runs in it within
/// a tenth of a second.
const CALLS: f64 = 14_000.0;

/// A world as it is being drawn. Times are in seconds.
#[derive(Debug)]
pub(super) struct Sketch {
    pub(super) random: Stream,
    /// Mean work of the store.
    pub(super) work: f64,
    work_text: String,
    pub(super) replicas: u32,
    pub(super) workers: u32,
    /// Requests that may wait at the store, as a multiple of its workers; `None` for any number.
    pub(super) queue: Option<f64>,
    /// The share of the store's capacity that first attempts ask for.
    pub(super) load: f64,
    pub(super) duration: f64,
    pub(super) deadline: f64,
    attempt_timeout: Option<f64>,
    network: Option<String>,
    /// Mean of a way through the network and back.
    round_trip: f64,
    clients: u32,
    /// Services before the store.
    fronts: Vec<Front>,
    /// The share of the load that comes from clients with a policy of their own, and that policy.
    others: Option<(f64, &'static str)>,
    layer: bool,
    notices_cancel: bool,
    /// Lines of the store, beyond those that every store has.
    store: Vec<String>,
    /// Stages of the load, as multiples of it: from when, and how many times.
    pub(super) stages: Vec<(f64, f64)>,
    /// Users instead of a rate: the time that they think.
    pub(super) think: Option<f64>,
    /// So many requests a second with unused seconds saved up, instead of workers.
    pub(super) table_burst: Option<f64>,
    faults: Vec<String>,
}

#[derive(Debug)]
struct Front {
    name: &'static str,
    replicas: u32,
    work: f64,
    /// Workers of each replica as a multiple of those that are busy in calm; `None` for a service that keeps no worker
    /// while it waits.
    blocking: Option<f64>,
    layer: bool,
}

/// Kinds in which messages get lost: without a time for an attempt nothing can be done about them.
pub(super) const LOST: &str = "lost-messages";

impl Sketch {
    /// Everything that does not depend on the kind.
    pub(super) fn draw(mut random: Stream, kind: &str) -> Self {
        let work = log(&mut random, 0.005, 0.3);
        let work_text = match random.uniform() {
            it if it < 0.5 => format!("{{exponential: {}}}", time(work)),
            it if it < 0.85 => {
                let tail = random.between(2.0, 5.0);
                let sigma = f64::ln(tail) / 1.644_853_626_951_472_7;
                let median = work / (sigma * sigma / 2.0).exp();
                format!(
                    "{{logNormal: {{median: {}, p95: {}}}}}",
                    time(median),
                    time(median * tail)
                )
            }
            _ => format!("{{uniform: [{}, {}]}}", time(work * 0.5), time(work * 1.5)),
        };
        let rate = log(&mut random, 40.0, 300.0);
        let all = (rate * work).round().max(1.0);
        let replicas = whole(log(&mut random, 1.0, 10.0)).min(whole(all)).max(1);
        let workers = whole((all / f64::from(replicas)).round()).max(1);
        let queue = (random.uniform() >= 0.2).then(|| log(&mut random, 0.5, 20.0));
        let load = random.between(0.2, 0.85);
        let duration = random.between(60.0, 150.0);
        let (network, round_trip) = match random.uniform() {
            it if it < 0.4 => (None, 0.0),
            it if it < 0.9 => {
                let median = log(&mut random, 0.0002, 0.005);
                let text = format!(
                    "{{logNormal: {{median: {}, p95: {}}}}}",
                    time(median),
                    time(3.0 * median)
                );
                (Some(text), 2.5 * median)
            }
            _ => {
                let far = random.between(0.01, 0.06);
                (Some(time(far)), 2.0 * far)
            }
        };
        let fronts = fronts(&mut random, work);
        let inner: f64 = fronts.iter().map(|front| front.work).sum();
        #[expect(clippy::cast_precision_loss, reason = "there are at most three layers")]
        let ways = (fronts.len() + 1) as f64;
        let usual = work + inner + ways * round_trip;
        let deadline = (usual * log(&mut random, 4.0, 60.0)).clamp(0.2, 10.0);
        let waits = random.uniform() < 0.5 || kind == LOST;
        let attempt_timeout = waits.then(|| {
            (deadline / random.between(2.0, 6.0))
                .max(3.0 * usual)
                .min(deadline)
        });
        let clients = whole(log(&mut random, 1.0, 1000.0)).max(1);
        let others = (random.uniform() < 0.25).then(|| {
            let share = random.between(0.1, 0.6);
            (share, OTHERS[below(&mut random, OTHERS.len())])
        });
        let layer = random.uniform() < 0.4;
        let notices_cancel = random.uniform() < 0.3;
        Self {
            random,
            work,
            work_text,
            replicas,
            workers,
            queue,
            load,
            duration,
            deadline,
            attempt_timeout,
            network,
            round_trip,
            clients,
            fronts,
            others,
            layer,
            notices_cancel,
            store: Vec::new(),
            stages: Vec::new(),
            think: None,
            table_burst: None,
            faults: Vec::new(),
        }
    }

    /// Uniform between two numbers.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        self.random.between(low, high)
    }

    /// Uniform in the logarithm: every scale between the two is as likely.
    pub(super) fn log(&mut self, low: f64, high: f64) -> f64 {
        log(&mut self.random, low, high)
    }

    pub(super) fn with_probability(&mut self, probability: f64) -> bool {
        self.random.with_probability(probability)
    }

    /// Requests that the store can work on in a second.
    pub(super) fn capacity(&self) -> f64 {
        f64::from(self.replicas * self.workers) / self.work
    }

    /// A line of the store.
    pub(super) fn say(&mut self, line: impl Into<String>) {
        self.store.push(line.into());
    }

    /// Something goes wrong with the store from one time to another.
    pub(super) fn fault(&mut self, effect: &str, from: f64, until: f64) {
        self.faults.push(format!(
            "{{service: store, {effect}, from: {}, until: {}}}",
            time(from),
            time(until)
        ));
    }

    /// The same, coming and going.
    pub(super) fn fault_every(&mut self, effect: &str, from: f64, until: f64, every: f64, on: f64) {
        self.faults.push(format!(
            "{{service: store, {effect}, from: {}, until: {}, every: {}, for: {}}}",
            time(from),
            time(until),
            time(every),
            time(on)
        ));
    }

    /// Messages that never arrive: the share of them.
    pub(super) fn lose_messages(&mut self, share: f64) {
        let usual = self.network.take().unwrap_or_else(|| "1ms".to_owned());
        self.network = Some(format!(
            "{{mixed: {{share: {}, usual: {usual}, rare: 10m}}}}",
            percent(share)
        ));
    }

    /// The scenario file.
    pub(super) fn text(&mut self, name: &str, what: &str) -> String {
        let per_second = match self.think {
            None => self.capacity() * self.load,
            Some(think) => {
                // What so many users ask for in a second, at most.
                (self.capacity() * self.load).min(self.users(think) / (think + self.work))
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "there are at most three layers")]
        let layers = (self.fronts.len() + 1) as f64;
        let budget = CALLS / f64::max(1.0, layers - 1.0);
        // Trouble was placed within the duration: a world with too many calls gets fewer workers instead of less time.
        let most = budget / self.duration;
        let scale = (most / (per_second * self.mean_stage())).min(1.0);
        self.shrink(scale);
        let mut out = format!(
            "name: {name}\nclaim: >-\n  {what}\nduration: {}\ndrain: 30s\nfocus: store\nservices:\n",
            time(self.duration)
        );
        self.write_services(&mut out);
        self.write_clients(&mut out);
        if !self.faults.is_empty() {
            out.push_str("faults:\n");
            for fault in &self.faults {
                let _ = writeln!(out, "  - {fault}");
            }
        }
        out
    }

    /// The mean of the stages over the whole duration, as a multiple of the load.
    fn mean_stage(&self) -> f64 {
        let (mut area, mut at, mut times) = (0.0, 0.0, 1.0);
        for (from, next) in &self.stages {
            area += (from - at) * times;
            (at, times) = (*from, *next);
        }
        (area + (self.duration - at).max(0.0) * times) / self.duration
    }

    /// Takes workers away until the world has no more calls than it may have.
    fn shrink(&mut self, scale: f64) {
        if scale >= 1.0 {
            return;
        }
        let all = f64::from(self.replicas * self.workers) * scale;
        self.workers = whole((all / f64::from(self.replicas)).round()).max(1);
        let excess = f64::from(self.replicas * self.workers) / all;
        if excess > 1.5 {
            // Fewer workers than replicas are not possible: the work takes longer instead.
            let longer = excess / 1.2;
            self.work *= longer;
            self.work_text = format!("{{exponential: {}}}", time(self.work));
            self.deadline = (self.deadline * longer).min(10.0);
            self.attempt_timeout = self.attempt_timeout.map(|it| (it * longer).min(self.deadline));
        }
    }

    fn write_services(&self, out: &mut String) {
        let rate = self.capacity() * self.load;
        for (index, front) in self.fronts.iter().enumerate() {
            let next = self.fronts.get(index + 1).map_or("store", |next| next.name);
            let below: f64 = self.fronts[index..]
                .iter()
                .map(|it| it.work + self.round_trip)
                .sum();
            let busy = rate * (below + self.work);
            let (workers, blocking) = match front.blocking {
                Some(times) => (busy * times / f64::from(front.replicas), "true"),
                None => (f64::max(rate * front.work * 4.0, 4.0), "false"),
            };
            let _ = writeln!(
                out,
                "  {}:\n    replicas: {}\n    workers: {}\n    time: {{exponential: {}}}\n    blocking: {blocking}\n    \
                 dropsExpired: {}\n    calls: [{}]",
                front.name,
                front.replicas,
                whole(workers.ceil()).max(2),
                time(front.work),
                front.layer,
                self.way(next, None)
            );
        }
        let _ = writeln!(out, "  store:");
        match self.table_burst {
            Some(burst) => {
                let _ = writeln!(
                    out,
                    "    capacity: {{perSecond: {:.1}, burst: {}}}",
                    self.capacity(),
                    time(burst)
                );
            }
            None => {
                let queue = self.queue.map_or("unlimited".to_owned(), |times| {
                    let all = f64::from(self.replicas * self.workers);
                    whole((all * times).round()).max(1).to_string()
                });
                let _ = writeln!(
                    out,
                    "    replicas: {}\n    workers: {}\n    queue: {queue}",
                    self.replicas, self.workers
                );
            }
        }
        let _ = writeln!(out, "    time: {}", self.work_text);
        let _ = writeln!(
            out,
            "    shedding: {}\n    dropsExpired: {}",
            if self.layer { "layer" } else { "off" },
            self.layer
        );
        if self.notices_cancel {
            out.push_str("    noticesCancel: true\n");
        }
        for line in &self.store {
            let _ = writeln!(out, "    {line}");
        }
    }

    fn write_clients(&self, out: &mut String) {
        let rate = self.capacity() * self.load;
        let first = self.fronts.first().map_or("store", |front| front.name);
        // Others alone never ask for more than half of the capacity: the policies under test could do nothing about that.
        let (share, policy) = self.others.map_or((0.0, None), |(share, name)| {
            (share.min(0.5 / self.load), Some(name))
        });
        out.push_str("clients:\n");
        for (name, part, policy) in [("ours", 1.0 - share, None), ("others", share, policy)] {
            if part <= 0.0 {
                continue;
            }
            let _ = writeln!(
                out,
                "  {name}:\n    calls: {}\n    deadline: {}",
                self.way(first, policy),
                time(self.deadline)
            );
            if let Some(think) = self.think {
                let users = whole((self.users(think) * part).round()).max(1);
                let _ = writeln!(
                    out,
                    "    users: {users}\n    think: {{exponential: {}}}",
                    time(think)
                );
                continue;
            }
            let clients = whole((f64::from(self.clients) * part).round()).max(1);
            let _ = writeln!(out, "    clients: {clients}");
            if self.stages.is_empty() {
                let _ = writeln!(out, "    rate: {:.2}", rate * part);
            } else {
                let _ = writeln!(out, "    rate:\n      - {{at: 0s, rate: {:.2}}}", rate * part);
                for (at, times) in &self.stages {
                    let _ = writeln!(
                        out,
                        "      - {{at: {}, rate: {:.2}}}",
                        time(*at),
                        rate * part * times
                    );
                }
            }
        }
    }

    /// Users who would together ask for the load if every answer came at once.
    fn users(&self, think: f64) -> f64 {
        (self.capacity() * self.load * (think + self.work)).max(1.0)
    }

    fn way(&self, to: &str, policy: Option<&str>) -> String {
        let mut out = format!("{{to: {to}");
        if let Some(network) = &self.network {
            let _ = write!(out, ", network: {network}");
        }
        if let Some(timeout) = self.attempt_timeout {
            let _ = write!(out, ", attemptTimeout: {}", time(timeout));
        }
        if let Some(policy) = policy {
            let _ = write!(out, ", policy: {policy}");
        }
        out.push('}');
        out
    }
}

/// What clients of others do: plain retries, or none.
const OTHERS: &[&str] = &["immediate", "istio", "fixed", "aws-legacy", "none"];

/// One, two or three layers.
fn fronts(random: &mut Stream, work: f64) -> Vec<Front> {
    let count = match random.uniform() {
        it if it < 0.5 => 0,
        it if it < 0.8 => 1,
        _ => 2,
    };
    let names: &[&str] = if count == 2 {
        &["gateway", "front"]
    } else {
        &["front"]
    };
    (0..count)
        .map(|index| Front {
            name: names[index],
            replicas: whole(log(random, 1.0, 12.0)).max(1),
            work: (work * log(random, 0.05, 0.5)).max(0.0005),
            blocking: random.with_probability(0.5).then(|| log(random, 3.0, 15.0)),
            layer: random.with_probability(0.5),
        })
        .collect()
}

fn log(random: &mut Stream, low: f64, high: f64) -> f64 {
    random.between(low.ln(), high.ln()).exp()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index of a short list"
)]
fn below(random: &mut Stream, count: usize) -> usize {
    (random.uniform() * count as f64) as usize
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small count that is not negative"
)]
fn whole(number: f64) -> u32 {
    number as u32
}

/// A duration as a scenario writes it.
pub(super) fn time(seconds: f64) -> String {
    if seconds >= 1.0 {
        format!("{seconds:.2}s")
    } else if seconds >= 0.001 {
        format!("{:.2}ms", seconds * 1e3)
    } else {
        format!("{:.1}us", seconds * 1e6)
    }
}

/// A share as a scenario writes it.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}
