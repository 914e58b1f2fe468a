//! Wall time, compared within one run.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{Caller, Subject, clock};

/// What a call of one subject takes, as one caller sees it; not a number where no round was undisturbed.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Nanoseconds a call, with one thread.
    pub alone: f64,
    /// Nanoseconds a call, with as many threads on one target as asked for.
    pub together: f64,
    /// How many rounds of all threads were undisturbed.
    pub rounds: usize,
}

/// How long one round of one subject may take.
const ROUND: Duration = Duration::from_millis(20);

/// Times every subject in turn, round after round, so that the noise of the machine falls on all alike, and
/// takes the median of the rounds that were undisturbed.
#[must_use]
pub fn time(subjects: &[Subject], rounds: usize, calls: u64, threads: usize) -> Vec<Timing> {
    let mut callers: Vec<Vec<Caller>> = subjects
        .iter()
        .map(|subject| {
            let target = (subject.target)();
            (0..threads.max(1)).map(|_| target()).collect()
        })
        .collect();
    // A round is short, so that subjects whose calls take long make fewer of them in each.
    let calls: Vec<u64> = callers
        .iter_mut()
        .map(|callers| {
            const FEW: u64 = 100;
            callers[0](FEW);
            let began = clock::now();
            callers[0](FEW);
            let nanos = (clock::now() - began).as_nanos() / u128::from(FEW);
            let fit = ROUND.as_nanos() / nanos.max(1);
            calls.min(u64::try_from(fit).unwrap_or(calls)).max(FEW)
        })
        .collect();
    let mut alone = vec![Vec::new(); subjects.len()];
    let mut together = vec![Vec::new(); subjects.len()];
    for _ in 0..rounds {
        for (index, callers) in callers.iter_mut().enumerate() {
            alone[index].extend(run(&mut callers[..1], calls[index]));
            together[index].extend(run(callers, calls[index]));
        }
    }
    alone
        .into_iter()
        .zip(together)
        .map(|(alone, together)| Timing {
            alone: median(alone),
            rounds: together.len(),
            together: median(together),
        })
        .collect()
}

/// Lets every caller make its calls at the same time, and says how many nanoseconds a call took; `None` for
/// a disturbed round. On a busy machine threads take turns on a core, and then they do not meet at the
/// target: such a round would say that sharing it costs nothing.
fn run(callers: &mut [Caller], calls: u64) -> Option<f64> {
    let missing = AtomicUsize::new(callers.len());
    let runs: Vec<Run> = std::thread::scope(|scope| {
        let threads: Vec<_> = callers
            .iter_mut()
            .map(|caller| scope.spawn(|| Run::of(caller, calls, &missing)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a caller does not panic"))
            .collect()
    });
    let longest = runs.iter().map(Run::took).max()?;
    let last_to_begin = runs.iter().map(|run| run.began).max()?;
    let first_to_end = runs.iter().map(|run| run.ended).min()?;
    let shared = first_to_end.saturating_duration_since(last_to_begin);
    let undisturbed = runs.iter().all(|run| run.waited * 10 <= longest) && shared * 10 >= longest * 8;
    undisturbed.then(|| longest.as_nanos() as f64 / calls as f64)
}

/// How many threads call one target at once.
pub const CROWDS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// How many calls a microsecond all threads together make on one target, for each of [`CROWDS`]: the best of some rounds,
/// because other work on the machine only ever slows them down. With more threads than cores, threads are interrupted while
/// they hold what the others need, and that is part of what is measured.
#[must_use]
pub fn crowds(subject: &Subject, rounds: usize, calls: u64) -> [f64; CROWDS.len()] {
    let target = (subject.target)();
    let mut best = [0.0; CROWDS.len()];
    for _ in 0..rounds {
        for (best, threads) in best.iter_mut().zip(CROWDS) {
            let mut callers: Vec<Caller> = (0..threads).map(|_| target()).collect();
            *best = crowd(&mut callers, calls).max(*best);
        }
    }
    best
}

/// Shares the calls out among the callers. The time runs from the first that begins to the last that ends, by their own
/// clocks: a thread that only watches may be woken when they have ended.
fn crowd(callers: &mut [Caller], calls: u64) -> f64 {
    let each = (calls / callers.len() as u64).max(1);
    let all = each * callers.len() as u64;
    let barrier = Barrier::new(callers.len());
    let runs: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let threads: Vec<_> = callers
            .iter_mut()
            .map(|caller| {
                scope.spawn(|| {
                    caller(each / 10);
                    barrier.wait();
                    let began = clock::now();
                    caller(each);
                    (began, clock::now())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a caller does not panic"))
            .collect()
    });
    let began = runs.iter().map(|(began, _)| *began).min();
    let ended = runs.iter().map(|(_, ended)| *ended).max();
    let took = began
        .zip(ended)
        .map_or(Duration::ZERO, |(began, ended)| ended - began);
    all as f64 / took.as_secs_f64() / 1e6
}

/// What one thread saw.
struct Run {
    began: Instant,
    ended: Instant,
    /// How long it was ready to run and did not get a core.
    waited: Duration,
}

impl Run {
    fn of(caller: &mut Caller, calls: u64, missing: &AtomicUsize) -> Self {
        // A tenth first, for caches, branch predictors and lazily made state.
        caller(calls / 10);
        meet(missing);
        let before = waited_for_a_core();
        let began = clock::now();
        caller(calls);
        let ended = clock::now();
        Self {
            began,
            ended,
            waited: waited_for_a_core().saturating_sub(before),
        }
    }

    fn took(&self) -> Duration {
        self.ended - self.began
    }
}

/// Waits for the others without sleeping: a thread that has to be woken would begin after the others have
/// ended.
fn meet(missing: &AtomicUsize) {
    missing.fetch_sub(1, Ordering::AcqRel);
    while missing.load(Ordering::Acquire) > 0 {
        std::hint::spin_loop();
    }
}

/// How long this thread has waited for a core so far, by Linux's scheduler; elsewhere always zero.
fn waited_for_a_core() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread that took the time was woken late, and a round looked a hundred times as fast as it was.
    #[test]
    fn a_crowd_is_not_faster_than_its_callers() {
        const TAKES: Duration = Duration::from_millis(2);
        for threads in [1, 2, 8] {
            let mut callers: Vec<Caller> = (0..threads)
                .map(|_| {
                    let caller: Caller = Box::new(|calls| {
                        let until = clock::now() + TAKES * u32::try_from(calls).expect("few calls");
                        while clock::now() < until {
                            std::hint::spin_loop();
                        }
                    });
                    caller
                })
                .collect();
            let rate = crowd(&mut callers, threads);
            let most = threads as f64 / TAKES.as_secs_f64() / 1e6;
            assert!(rate <= most, "{threads}: {rate} calls a microsecond");
        }
    }
}
