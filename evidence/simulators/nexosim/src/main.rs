//! The queue of the benchmark in nexosim: one model that schedules its own events, on one thread.

use std::time::{Duration, SystemTime};

use nexosim::model::{Context, Model, schedulable};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Queue {
    state: u64,
    inside: u32,
}

#[Model]
impl Queue {
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.state;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    fn exponential(&mut self, mean: f64) -> Duration {
        nanos(-mean * (1.0 - self.uniform()).ln())
    }

    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        cx.schedule_event(Duration::from_nanos(1), schedulable!(Self::arrive), 0).unwrap();
    }

    #[nexosim(schedulable)]
    async fn arrive(&mut self, attempt: u32, cx: &Context<Self>) {
        if attempt == 0 {
            let gap = self.exponential(1.0 / 1.5);
            cx.schedule_event(gap, schedulable!(Self::arrive), 0).unwrap();
        }
        if self.inside < 50 {
            self.inside += 1;
            if self.inside == 1 {
                let time = self.exponential(1.0);
                cx.schedule_event(time, schedulable!(Self::depart), ()).unwrap();
            }
        } else if attempt < 3 {
            let wait = self.uniform() * f64::from(1_u32 << attempt);
            cx.schedule_event(nanos(wait), schedulable!(Self::arrive), attempt + 1).unwrap();
        }
        COUNT.with(|count| count.set(count.get() + 1));
    }

    #[nexosim(schedulable)]
    async fn depart(&mut self, _: (), cx: &Context<Self>) {
        self.inside -= 1;
        if self.inside > 0 {
            let time = self.exponential(1.0);
            cx.schedule_event(time, schedulable!(Self::depart), ()).unwrap();
        }
        COUNT.with(|count| count.set(count.get() + 1));
    }
}

thread_local! {
    static COUNT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn nanos(seconds: f64) -> Duration {
    Duration::from_nanos(((seconds * 1e9) as u64).max(1))
}

fn main() {
    let events: f64 = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(1e6);
    let mailbox = Mailbox::new();
    let model = Queue { state: 1, inside: 0 };
    let bench = SimInit::with_num_threads(1).add_model(model, mailbox, "queue");
    let mut simulation = bench.init(MonotonicTime::EPOCH).unwrap();
    let began = processor_seconds();
    simulation.step_until(Duration::from_secs_f64(events / 1.5 / 3.4)).unwrap();
    let took = processor_seconds() - began;
    println!("nexosim {:.0}", COUNT.with(|count| count.get()) as f64 / took);
}

/// The time that this thread has had a processor, in seconds; the time of day where the system does not tell.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().map(str::parse::<f64>);
    if let Some(Ok(nanos)) = nanos {
        return nanos / 1e9;
    }
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
