//! Wall time, compared within one run.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::{Caller, Subject, clock};

/// What a call of one subject takes, as one caller sees it.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Nanoseconds a call, with one thread.
    pub alone: f64,
    /// Nanoseconds a call, with as many threads on one target as asked for.
    pub together: f64,
}

/// Times every subject in turn, round after round, so that the noise of the machine falls on all alike, and
/// takes the median of the rounds.
#[must_use]
pub fn time(subjects: &[Subject], rounds: usize, calls: u64, threads: usize) -> Vec<Timing> {
    let mut callers: Vec<Vec<Caller>> = subjects
        .iter()
        .map(|subject| {
            let target = (subject.target)();
            (0..threads.max(1)).map(|_| target()).collect()
        })
        .collect();
    let mut alone = vec![Vec::new(); subjects.len()];
    let mut together = vec![Vec::new(); subjects.len()];
    for _ in 0..rounds {
        for (index, callers) in callers.iter_mut().enumerate() {
            alone[index].push(per_call(run(&mut callers[..1], calls), calls));
            together[index].push(per_call(run(callers, calls), calls));
        }
    }
    alone
        .into_iter()
        .zip(together)
        .map(|(alone, together)| Timing {
            alone: median(alone),
            together: median(together),
        })
        .collect()
}

/// Lets every caller make its calls at the same time, and says how long that took from the first to begin to
/// the last to end.
fn run(callers: &mut [Caller], calls: u64) -> Duration {
    let missing = AtomicUsize::new(callers.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = callers
            .iter_mut()
            .map(|caller| {
                let missing = &missing;
                scope.spawn(move || {
                    // A tenth first, for caches, branch predictors and lazily made state.
                    caller(calls / 10);
                    meet(missing);
                    let began = clock::now();
                    caller(calls);
                    (began, clock::now())
                })
            })
            .collect();
        let spans: Vec<(Instant, Instant)> = threads
            .into_iter()
            .map(|thread| thread.join().expect("a caller does not panic"))
            .collect();
        let first = spans.iter().map(|(began, _)| *began).min();
        let last = spans.iter().map(|(_, ended)| *ended).max();
        last.zip(first)
            .map_or(Duration::ZERO, |(last, first)| last - first)
    })
}

/// Waits for the others without sleeping: a thread that has to be woken would begin after the others have
/// ended.
fn meet(missing: &AtomicUsize) {
    missing.fetch_sub(1, Ordering::AcqRel);
    while missing.load(Ordering::Acquire) > 0 {
        std::hint::spin_loop();
    }
}

fn per_call(time: Duration, calls: u64) -> f64 {
    time.as_nanos() as f64 / calls as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
