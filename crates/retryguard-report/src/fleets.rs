//! A file of fleets, run: every fleet beside what its source claims of it.

mod figure;
mod page;
mod print;

use rayon::prelude::*;
use retryguard_sim::{
    comparison::Kind,
    fleet::{Claim, Series},
    scenario::{Fleets, Plan},
    statistics::{Estimate, Tally},
    streams::Seed,
};

/// A file of fleets with its results.
pub struct Outcome {
    file: Fleets,
    seed: u64,
    replications: u32,
    results: Vec<Found>,
}

/// What became of one fleet.
struct Found {
    plan: Plan,
    /// The first replication, for the picture.
    first: Series,
    /// In the order of [`COLUMNS`].
    columns: Vec<Estimate>,
    /// The claims, each with the mean that was found.
    claims: Vec<(Claim, f64)>,
}

/// A number that a run comes to.
struct Column {
    key: &'static str,
    title: &'static str,
    kind: Kind,
    of: fn(&Series) -> f64,
}

/// The keys are those of a world of services, so that one script reads both.
const COLUMNS: [Column; 7] = [
    Column {
        key: "calls",
        title: "calls",
        kind: Kind::Count,
        of: |series| series.total().first as f64,
    },
    Column {
        key: "attempts",
        title: "attempts",
        kind: Kind::Count,
        of: |series| series.total().attempts() as f64,
    },
    Column {
        key: "retriesPerCall",
        title: "retries/call",
        kind: Kind::Ratio,
        of: |series| share(series.total().retries, series.total().first),
    },
    Column {
        key: "amplification",
        title: "amplification",
        kind: Kind::Ratio,
        of: |series| share(series.total().attempts(), series.total().first),
    },
    Column {
        key: "successRate",
        title: "success",
        kind: Kind::Share,
        // Every attempt that succeeds ends a call.
        of: |series| {
            let all = series.total();
            share(all.attempts() - all.failed, all.first)
        },
    },
    Column {
        key: "rejectionRate",
        title: "rejected",
        kind: Kind::Share,
        of: |series| share(series.total().failed, series.total().attempts()),
    },
    Column {
        key: "peakRate",
        title: "peak rate",
        kind: Kind::Ratio,
        of: |series| series.rates().fold(0.0, f64::max),
    },
];

impl Outcome {
    /// The tables for a terminal, with the claims that do not hold.
    #[must_use]
    pub fn text(&self) -> String {
        print::table(self)
    }

    /// The result for other programs.
    #[must_use]
    pub fn json(&self) -> String {
        format!("{:#}\n", print::json(self))
    }

    /// The rate of each fleet over time.
    #[must_use]
    pub fn csv(&self) -> String {
        print::csv(self)
    }

    /// The report in a folder: each file with its name. `path` is that of the file of fleets, as the page shall show it.
    #[must_use]
    pub fn files(&self, path: &str) -> Vec<(String, String)> {
        page::files(self, path)
    }

    /// The claims that do not hold, each with its fleet and the value that was found.
    #[must_use]
    pub fn broken_claims(&self) -> Vec<String> {
        let broken = |found: &Found| -> Vec<String> {
            let wrong = found
                .claims
                .iter()
                .filter(|(claim, value)| !Found::holds(claim, *value));
            wrong
                .map(|(claim, value)| format!("{}: {claim:?}, found {value}", found.plan.name))
                .collect()
        };
        self.results.iter().flat_map(broken).collect()
    }

    /// The fleets of which the file claims nothing.
    #[must_use]
    pub fn without_claims(&self) -> Vec<&str> {
        let silent = self.results.iter().filter(|found| found.claims.is_empty());
        silent.map(|found| found.plan.name.as_str()).collect()
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

impl Found {
    fn holds(claim: &Claim, found: f64) -> bool {
        let verdict = retryguard_sim::fleet::Verdict {
            claim: claim.clone(),
            found,
        };
        verdict.holds()
    }

    fn held(&self) -> usize {
        self.claims
            .iter()
            .filter(|(claim, found)| Self::holds(claim, *found))
            .count()
    }
}

/// Runs every fleet of a file; `step` is called after each run.
#[must_use]
pub fn run(file: Fleets, seed: u64, replications: u32, step: &(dyn Fn() + Sync)) -> Outcome {
    let results = file
        .fleets
        .par_iter()
        .map(|plan| replicate(plan, Seed(seed), replications, step))
        .collect();
    Outcome {
        file,
        seed,
        replications,
        results,
    }
}

fn replicate(plan: &Plan, seed: Seed, replications: u32, step: &(dyn Fn() + Sync)) -> Found {
    let mut columns = [Tally::default(); COLUMNS.len()];
    let mut claims = vec![Tally::default(); plan.expect.len()];
    let run = |number: u32| {
        let series = plan.run(seed.replication(u64::from(number)));
        step();
        series
    };
    let mut count = |series: &Series| {
        for (tally, column) in columns.iter_mut().zip(&COLUMNS) {
            tally.add((column.of)(series));
        }
        for (tally, claim) in claims.iter_mut().zip(&plan.expect) {
            tally.add(claim.check(series).found);
        }
    };
    let first = run(0);
    count(&first);
    for number in 1..replications {
        count(&run(number));
    }
    Found {
        plan: plan.clone(),
        first,
        columns: columns.iter().map(Tally::estimate).collect(),
        claims: plan
            .expect
            .iter()
            .zip(&claims)
            .map(|(claim, tally)| (claim.clone(), tally.estimate().mean))
            .collect(),
    }
}

#[cfg(test)]
mod tests;
