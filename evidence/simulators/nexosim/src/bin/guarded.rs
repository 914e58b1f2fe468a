//! Clients that protect themselves, in nexosim: one model with a guard, a budget and a breaker for each client, on one thread. The
//! same world as in `guarded_simpy.py`. Prints the events a second, the attempts of a call and the share of calls that failed.

use std::collections::VecDeque;
use std::time::Duration;

use bench_nexosim::{Random, nanos, processor_seconds};
use nexosim::model::{Context, Model, schedulable};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

/// Retries are at most a fifth of the calls of the last ten seconds; one more is allowed every ten seconds.
#[derive(Serialize, Deserialize)]
struct Budget {
    calls: VecDeque<f64>,
    retries: VecDeque<f64>,
    reserve: f64,
}

impl Budget {
    fn withdraw(&mut self, now: f64) -> bool {
        for times in [&mut self.calls, &mut self.retries] {
            while times.front().is_some_and(|at| *at <= now - 10.0) {
                times.pop_front();
            }
        }
        if (self.retries.len() + 1) as f64 <= 0.2 * self.calls.len() as f64 {
            self.retries.push_back(now);
            return true;
        }
        if now - self.reserve >= 10.0 {
            self.reserve = now;
            return true;
        }
        false
    }
}

/// Opens for five seconds once four fifths of at least 20 attempts of the last ten seconds have failed; then one probe.
#[derive(Default, Serialize, Deserialize)]
struct Breaker {
    ends: VecDeque<(f64, bool)>,
    failures: usize,
    opened: Option<f64>,
    probing: bool,
}

impl Breaker {
    fn allows(&mut self, now: f64) -> bool {
        match self.opened {
            None => true,
            Some(opened) if now - opened < 5.0 || self.probing => false,
            Some(_) => {
                self.probing = true;
                true
            }
        }
    }

    fn on_end(&mut self, failed: bool, now: f64) {
        if self.opened.is_some() {
            self.probing = false;
            self.opened = failed.then_some(now);
            return;
        }
        self.ends.push_back((now, failed));
        self.failures += usize::from(failed);
        while let Some((_, failed)) = self.ends.pop_front_if(|(at, _)| *at <= now - 10.0) {
            self.failures -= usize::from(failed);
        }
        if self.ends.len() >= 20 && self.failures as f64 >= 0.8 * self.ends.len() as f64 {
            self.opened = Some(now);
            self.ends.clear();
            self.failures = 0;
        }
    }
}

/// Algorithm 1: retries are off after five seconds in a row with more than a fifth rejected, on after five with fewer.
#[derive(Serialize, Deserialize)]
struct Guard {
    second: u64,
    ended: u32,
    rejected: u32,
    low: u32,
    high: u32,
    on: bool,
}

impl Guard {
    fn on_end(&mut self, rejected: bool, now: f64) {
        if now as u64 != self.second {
            self.sample();
            self.second = now as u64;
        }
        self.ended += 1;
        self.rejected += u32::from(rejected);
    }

    fn sample(&mut self) {
        if self.ended > 0 {
            let share = f64::from(self.rejected) / f64::from(self.ended);
            self.low = if share < 0.2 { self.low + 1 } else { 0 };
            self.high = if share > 0.2 { self.high + 1 } else { 0 };
            if self.low >= 5 {
                self.on = true;
            } else if self.high >= 5 {
                self.on = false;
            }
        }
        (self.ended, self.rejected) = (0, 0);
    }
}

#[derive(Serialize, Deserialize)]
struct Client {
    budget: Budget,
    breaker: Breaker,
    guard: Guard,
}

impl Client {
    fn new() -> Self {
        Self {
            budget: Budget { calls: VecDeque::new(), retries: VecDeque::new(), reserve: -10.0 },
            breaker: Breaker::default(),
            guard: Guard { second: 0, ended: 0, rejected: 0, low: 0, high: 0, on: true },
        }
    }
}

/// What happened, for the comparison with the others.
#[derive(Clone, Copy)]
struct Counts {
    calls: u64,
    attempts: u64,
    departures: u64,
    failed: u64,
}

/// An attempt of a client, by its number.
type Attempt = (u32, u32);

#[derive(Serialize, Deserialize)]
struct World {
    random: Random,
    clients: Vec<Client>,
    busy: u32,
    waiting: VecDeque<Attempt>,
}

#[Model]
impl World {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        for client in 0..self.clients.len() as u32 {
            // A client is met in the middle of its first pause.
            let met = self.random.uniform();
            self.pause(client, met, cx);
        }
    }

    fn think(&mut self, client: u32, cx: &Context<Self>) {
        self.pause(client, 1.0, cx);
    }

    fn pause(&mut self, client: u32, share: f64, cx: &Context<Self>) {
        let time = self.random.exponential(share * self.clients.len() as f64 / 15.0);
        cx.schedule_event(time, schedulable!(Self::call), client).unwrap();
    }

    #[nexosim(schedulable)]
    async fn call(&mut self, client: u32, cx: &Context<Self>) {
        count(|counts| counts.calls += 1);
        let now = seconds(cx);
        self.clients[client as usize].budget.calls.push_back(now);
        self.attempt((client, 0), cx);
    }

    #[nexosim(schedulable)]
    async fn retry(&mut self, attempt: Attempt, cx: &Context<Self>) {
        self.attempt(attempt, cx);
    }

    fn attempt(&mut self, attempt: Attempt, cx: &Context<Self>) {
        if !self.clients[attempt.0 as usize].breaker.allows(seconds(cx)) {
            count(|counts| counts.failed += 1);
            return self.think(attempt.0, cx);
        }
        count(|counts| counts.attempts += 1);
        if self.busy < 10 {
            self.busy += 1;
            self.work(attempt, cx);
        } else if self.waiting.len() < 49 {
            self.waiting.push_back(attempt);
        } else {
            self.ended(attempt, true, true, cx);
        }
    }

    fn work(&mut self, attempt: Attempt, cx: &Context<Self>) {
        let time = self.random.exponential(0.1);
        cx.schedule_event(time, schedulable!(Self::depart), attempt).unwrap();
    }

    #[nexosim(schedulable)]
    async fn depart(&mut self, attempt: Attempt, cx: &Context<Self>) {
        count(|counts| counts.departures += 1);
        match self.waiting.pop_front() {
            Some(next) => self.work(next, cx),
            None => self.busy -= 1,
        }
        let failed = self.random.uniform() < 0.1;
        self.ended(attempt, failed, false, cx);
    }

    fn ended(&mut self, (client, number): Attempt, failed: bool, rejected: bool, cx: &Context<Self>) {
        let now = seconds(cx);
        let own = &mut self.clients[client as usize];
        own.breaker.on_end(failed, now);
        own.guard.on_end(rejected, now);
        if !failed || number == 3 || !own.guard.on || !own.budget.withdraw(now) {
            count(|counts| counts.failed += u64::from(failed));
            return self.think(client, cx);
        }
        let wait = self.random.uniform() * f64::from(1_u32 << number);
        cx.schedule_event(nanos(wait), schedulable!(Self::retry), (client, number + 1)).unwrap();
    }
}

thread_local! {
    static COUNTS: std::cell::Cell<Counts> =
        const { std::cell::Cell::new(Counts { calls: 0, attempts: 0, departures: 0, failed: 0 }) };
}

fn count(change: impl FnOnce(&mut Counts)) {
    COUNTS.with(|cell| {
        let mut counts = cell.get();
        change(&mut counts);
        cell.set(counts);
    });
}

fn seconds(cx: &Context<World>) -> f64 {
    let now = cx.time();
    now.as_secs() as f64 + f64::from(now.subsec_nanos()) * 1e-9
}

fn main() {
    let argument = |number| std::env::args().nth(number).and_then(|it| it.parse().ok());
    let events: f64 = argument(1).unwrap_or(1e6);
    let clients = argument(2).unwrap_or(1000.0) as usize;
    let clients = (0..clients).map(|_| Client::new()).collect();
    let model = World { random: Random::new(1), clients, busy: 0, waiting: VecDeque::new() };
    let bench = SimInit::with_num_threads(1).add_model(model, Mailbox::new(), "world");
    let mut simulation = bench.init(MonotonicTime::EPOCH).unwrap();
    let began = processor_seconds();
    simulation.step_until(Duration::from_secs_f64(events / 15.0 / 2.2)).unwrap();
    let took = processor_seconds() - began;
    let counts = COUNTS.with(std::cell::Cell::get);
    println!(
        "nexosim-guarded {:.0} {:.5} {:.5}",
        (counts.attempts + counts.departures) as f64 / took,
        counts.attempts as f64 / counts.calls as f64,
        counts.failed as f64 / counts.calls as f64
    );
}
