//! Policies side by side: replications of each, on all cores, with the same random numbers.

mod column;
mod paired;

use std::{
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    client_policy::ClientPolicy,
    engine::{self, Run},
    statistics::{Estimate, Proportion, Tally},
    streams::Seed,
    world::World,
};

pub use column::{COLUMNS, Column, Kind, column};
pub use paired::{is_known_within, is_significant};

/// What a policy came to, over all replications.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The policy's name.
    pub name: String,
    /// The digest of a policy of ours.
    pub digest: String,
    /// The columns, in the order of [`COLUMNS`]; `None` where a column does not apply to this world.
    pub columns: Vec<Option<Estimate>>,
    /// The value of each column in every replication.
    pub values: Vec<Option<Vec<f64>>>,
    /// The services.
    pub services: Vec<ServiceSummary>,
    /// The first replication, for the time lines.
    pub first: Run,
}

/// What a service saw, over all replications.
#[derive(Debug, Clone)]
pub struct ServiceSummary {
    /// Its name.
    pub name: String,
    /// Requests that reached it.
    pub attempts: Estimate,
    /// Requests that reached it for each that would have without any retry.
    pub amplification: Estimate,
    /// The share that it turned away.
    pub turned_away: Estimate,
    /// Its largest size.
    pub largest: Estimate,
    /// Its last size.
    pub last: Estimate,
    /// How often its autoscaler changed it.
    pub resizes: Estimate,
    /// What it cost.
    pub bill: Estimate,
}

impl Summary {
    /// The estimate of a column, by its key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Estimate> {
        let index = COLUMNS.iter().position(|column| column.key == key)?;
        self.columns[index]
    }

    /// The mean of a column, by its key; not a number where the column says nothing.
    #[must_use]
    pub fn mean(&self, key: &str) -> f64 {
        self.get(key).map_or(f64::NAN, |estimate| estimate.mean)
    }
}

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The seed.
    pub seed: Seed,
    /// Replications of each policy.
    pub replications: u32,
    /// Threads that run them; the result does not depend on their number.
    pub threads: usize,
}

/// Runs every policy in the world. `done` is called with the number of runs that have ended.
#[must_use]
pub fn compare(
    world: &World,
    client_policies: &[ClientPolicy],
    fixed: &[ClientPolicy],
    plan: &Plan,
    done: &(dyn Fn(usize) + Sync),
) -> Vec<Summary> {
    let all = replicate(
        world,
        client_policies,
        fixed,
        plan,
        0..plan.replications.max(1),
        done,
    );
    summaries(world, client_policies, &all)
}

/// Runs every policy until all differences of their goodput, two at a time, are known to within a share of the larger one
/// with 95 % confidence, and at most as often as the plan says. Says how often each has run. The result is that of
/// [`compare`] with so many replications.
#[must_use]
pub fn compare_until(
    world: &World,
    client_policies: &[ClientPolicy],
    fixed: &[ClientPolicy],
    plan: &Plan,
    share: f64,
    done: &(dyn Fn(usize) + Sync),
) -> (Vec<Summary>, u32) {
    /// Fewer replications say too little of their own spread to stop by.
    const FIRST: u32 = 5;
    let mut all: Vec<Vec<Run>> = client_policies.iter().map(|_| Vec::new()).collect();
    let (mut from, mut to) = (0, FIRST.min(plan.replications));
    loop {
        let more = replicate(world, client_policies, fixed, plan, from..to, done);
        all.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
        let found = summaries(world, client_policies, &all);
        if to >= plan.replications || is_known_within(&found, DECIDES, share) {
            return (found, to);
        }
        (from, to) = (to, (to + to.div_ceil(2)).min(plan.replications));
    }
}

/// The column that replications are stopped by.
const DECIDES: &str = "goodputPerSecond";

/// For each policy, in how many runs the world had not recovered from its first fault when the run ended: storms that last.
/// `None` where the world has no fault. Nothing else of a run is kept, so that there can be many.
#[must_use]
pub fn lasting_storms(
    world: &World,
    client_policies: &[ClientPolicy],
    fixed: &[ClientPolicy],
    plan: &Plan,
    done: &(dyn Fn(usize) + Sync),
) -> Option<Vec<Proportion>> {
    if world.faults.is_empty() {
        return None;
    }
    let lasts = |_, run: Run| run.recovery.is_none();
    let all = each(
        world,
        client_policies,
        fixed,
        plan,
        0..plan.replications.max(1),
        &lasts,
        done,
    );
    let proportion = |runs: Vec<bool>| Proportion {
        count: runs.iter().map(|lasts| u32::from(*lasts)).sum(),
        of: plan.replications.max(1),
    };
    Some(all.into_iter().map(proportion).collect())
}

/// The runs of each policy in these replications. Only the first keeps its time lines.
fn replicate(
    world: &World,
    client_policies: &[ClientPolicy],
    fixed: &[ClientPolicy],
    plan: &Plan,
    numbers: Range<u32>,
    done: &(dyn Fn(usize) + Sync),
) -> Vec<Vec<Run>> {
    let kept = |replication, mut run: Run| {
        if replication > 0 {
            run.lines = engine::TimeLine::default();
        }
        run
    };
    each(world, client_policies, fixed, plan, numbers, &kept, done)
}

/// What is kept of the runs of each policy in these replications.
fn each<T: Send>(
    world: &World,
    client_policies: &[ClientPolicy],
    fixed: &[ClientPolicy],
    plan: &Plan,
    numbers: Range<u32>,
    kept: &(dyn Fn(u64, Run) -> T + Sync),
    done: &(dyn Fn(usize) + Sync),
) -> Vec<Vec<T>> {
    let replications = numbers.len();
    let all = client_policies.len() * replications;
    let next = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<T>>> = Mutex::new((0..all).map(|_| None).collect());
    let work = || loop {
        // One replication of every policy before the next, so that a long list keeps all cores busy.
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= all {
            return;
        }
        let (place, policy) = (index / client_policies.len(), index % client_policies.len());
        let replication = u64::from(numbers.start) + place as u64;
        let seed = plan.seed.replication(replication);
        let result = kept(
            replication,
            engine::run(world, &client_policies[policy], fixed, seed),
        );
        results.lock().expect("no run panics while it holds the lock")[policy * replications + place] =
            Some(result);
        done(ended.fetch_add(1, Ordering::Relaxed) + 1);
    };
    std::thread::scope(|scope| {
        let threads = plan.threads.clamp(1, all.max(1));
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        work();
        for other in others {
            if let Err(panic) = other.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let results = results
        .into_inner()
        .expect("no run panics while it holds the lock");
    let mut results = results
        .into_iter()
        .map(|result| result.expect("every run has ended"));
    client_policies
        .iter()
        .map(|_| results.by_ref().take(replications).collect())
        .collect()
}

fn summaries(world: &World, client_policies: &[ClientPolicy], all: &[Vec<Run>]) -> Vec<Summary> {
    let of = client_policies.iter().zip(all);
    of.map(|(client_policy, runs)| summary(client_policy, world, runs))
        .collect()
}

fn summary(client_policy: &ClientPolicy, world: &World, runs: &[Run]) -> Summary {
    let values: Vec<Option<Vec<f64>>> = COLUMNS
        .iter()
        .map(|column| runs.iter().map(|run| (column.of)(run)).collect())
        .collect();
    let estimate = |values: &Option<Vec<f64>>| {
        let tally = values.as_ref()?.iter().copied().collect::<Tally>();
        Some(tally.estimate())
    };
    let columns = values.iter().map(estimate).collect();
    let services = (0..world.services.len())
        .map(|index| service(runs, index))
        .collect();
    Summary {
        name: client_policy.name.clone(),
        digest: client_policy.digest().to_owned(),
        columns,
        values,
        services,
        first: runs.first().cloned().expect("there is at least one replication"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn service(runs: &[Run], index: usize) -> ServiceSummary {
    let over = |value: &dyn Fn(&engine::ServiceRun) -> f64| {
        runs.iter()
            .map(|run| value(&run.services[index]))
            .collect::<Tally>()
            .estimate()
    };
    let share = |part: u64, whole: u64| {
        if whole == 0 {
            0.0
        } else {
            part as f64 / whole as f64
        }
    };
    ServiceSummary {
        name: runs[0].services[index].name.clone(),
        attempts: over(&|it| it.attempts as f64),
        amplification: over(&|it| share(it.attempts, it.originals)),
        turned_away: over(&|it| share(it.rejections, it.attempts)),
        largest: over(&|it| it.largest),
        last: over(&|it| it.last),
        resizes: over(&|it| f64::from(it.resizes)),
        bill: over(&|it| it.bill),
    }
}
