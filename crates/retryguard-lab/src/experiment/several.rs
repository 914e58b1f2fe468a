//! Several runs at once.

use tokio::task::JoinSet;

use super::{Experiment, Outcome, SweepPoint, sweep::Point};

/// The most runs at once.
pub const MOST_AT_ONCE: usize = 16;

/// Runs experiments, so many at once; the results are in the order of the experiments. `done` is called for each as it ends.
///
/// A run mostly waits. Several at once use a machine as much as one at a smaller time scale does, but each of them has
/// longer timers, beside which the machine's own delays count for less.
///
/// # Errors
/// Of the first that could not be run, or where Ctrl-C ended it; the others are given up, and nothing of them stays behind.
pub async fn run_all(
    experiments: Vec<Experiment>,
    at_once: usize,
    done: impl Fn(&Experiment, &Outcome),
) -> anyhow::Result<Vec<Outcome>> {
    in_order(
        experiments
            .into_iter()
            .map(|experiment| async move {
                let outcome = experiment.run().await?;
                Ok((experiment, outcome))
            })
            .collect(),
        at_once,
        |(experiment, outcome)| done(experiment, outcome),
    )
    .await
    .map(|all| all.into_iter().map(|(_, outcome)| outcome).collect())
}

/// Runs points of the capacity sweep in the same way.
///
/// # Errors
/// As [`run_all`].
pub async fn sweep_all(
    points: Vec<Point>,
    at_once: usize,
    done: impl Fn(&SweepPoint),
) -> anyhow::Result<Vec<SweepPoint>> {
    in_order(
        points
            .into_iter()
            .map(|point| async move { point.run().await })
            .collect(),
        at_once,
        done,
    )
    .await
}

/// Runs jobs until all have ended, one has failed, or the user interrupts. Those that are given up take their processes
/// and folders with them; what they made in a database is removed after them.
async fn in_order<T, F>(jobs: Vec<F>, at_once: usize, done: impl Fn(&T)) -> anyhow::Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>> + Send + 'static,
{
    let mut running = JoinSet::new();
    let result = tokio::select! {
        result = all_of(jobs, &mut running, at_once, done) => result,
        interrupted = crate::interrupt() => match interrupted {
            Ok(interrupted) => Err(interrupted.into()),
            Err(error) => Err(error),
        },
    };
    running.shutdown().await;
    #[cfg(feature = "real")]
    super::fleet::remove_left().await?;
    result
}

async fn all_of<T, F>(
    jobs: Vec<F>,
    running: &mut JoinSet<(usize, anyhow::Result<T>)>,
    at_once: usize,
    done: impl Fn(&T),
) -> anyhow::Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>> + Send + 'static,
{
    let mut results: Vec<Option<T>> = jobs.iter().map(|_| None).collect();
    let mut waiting = jobs.into_iter().enumerate();
    loop {
        while running.len() < at_once.clamp(1, MOST_AT_ONCE)
            && let Some((place, job)) = waiting.next()
        {
            running.spawn(async move { (place, job.await) });
        }
        let Some(ended) = running.join_next().await else {
            return Ok(results.into_iter().flatten().collect());
        };
        let (place, result) = ended?;
        let result = result?;
        done(&result);
        results[place] = Some(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<_> = (0..20_u64)
            .map(|number| async move {
                for _ in 0..(20 - number) {
                    tokio::task::yield_now().await;
                }
                Ok(number)
            })
            .collect();
        let results = in_order(jobs, 4, |_| {}).await.unwrap();
        assert_eq!(results, (0..20).collect::<Vec<_>>());
    }
}
