//! The queue of the benchmark in nexosim: one model that schedules its own events, on one thread.

use std::time::Duration;

use bench_nexosim::{Random, nanos, processor_seconds};
use nexosim::model::{Context, Model, schedulable};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Queue {
    random: Random,
    inside: u32,
}

#[Model]
impl Queue {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        cx.schedule_event(Duration::from_nanos(1), schedulable!(Self::arrive), 0).unwrap();
    }

    #[nexosim(schedulable)]
    async fn arrive(&mut self, attempt: u32, cx: &Context<Self>) {
        if attempt == 0 {
            let gap = self.random.exponential(1.0 / 1.5);
            cx.schedule_event(gap, schedulable!(Self::arrive), 0).unwrap();
        }
        if self.inside < 50 {
            self.inside += 1;
            if self.inside == 1 {
                let time = self.random.exponential(1.0);
                cx.schedule_event(time, schedulable!(Self::depart), ()).unwrap();
            }
        } else if attempt < 3 {
            let wait = self.random.uniform() * f64::from(1_u32 << attempt);
            cx.schedule_event(nanos(wait), schedulable!(Self::arrive), attempt + 1).unwrap();
        }
        COUNT.with(|count| count.set(count.get() + 1));
    }

    #[nexosim(schedulable)]
    async fn depart(&mut self, _: (), cx: &Context<Self>) {
        self.inside -= 1;
        if self.inside > 0 {
            let time = self.random.exponential(1.0);
            cx.schedule_event(time, schedulable!(Self::depart), ()).unwrap();
        }
        COUNT.with(|count| count.set(count.get() + 1));
    }
}

thread_local! {
    static COUNT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn main() {
    let events: f64 = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(1e6);
    let mailbox = Mailbox::new();
    let model = Queue { random: Random::new(1), inside: 0 };
    let bench = SimInit::with_num_threads(1).add_model(model, mailbox, "queue");
    let mut simulation = bench.init(MonotonicTime::EPOCH).unwrap();
    let began = processor_seconds();
    simulation.step_until(Duration::from_secs_f64(events / 1.5 / 3.4)).unwrap();
    let took = processor_seconds() - began;
    println!("nexosim {:.0}", COUNT.with(|count| count.get()) as f64 / took);
}
