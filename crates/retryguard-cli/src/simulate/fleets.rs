//! A file of fleets, run: every fleet beside what its source claims of it.

mod figure;
mod page;
mod print;

use std::fs;

use anyhow::bail;
use rayon::prelude::*;
use retryguard_sim::{
    comparison::Kind,
    fleet::{Claim, Series},
    scenario::{Fleets, Plan},
    statistics::{Estimate, Tally},
    streams::Seed,
};

use super::{Arguments, progress::Progress};

/// A file of fleets with its results.
struct Outcome {
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

/// What is printed for a file of fleets; `None` where the file is something else.
pub(super) fn simulate(arguments: &Arguments) -> anyhow::Result<Option<String>> {
    // A file that cannot be read is told where worlds are read.
    let Some(text) = fs::read_to_string(&arguments.file)
        .ok()
        .filter(|text| Fleets::stand_in(text))
    else {
        return Ok(None);
    };
    let name = arguments
        .file
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let mut file = Fleets::parse(&text, &name)
        .map_err(|mistakes| anyhow::anyhow!("{} has mistakes:\n{mistakes}", arguments.file.display()))?;
    if !arguments.policies.is_empty() {
        choose(&mut file, &arguments.policies)?;
    }
    if arguments.replications == Some(0) {
        bail!("--replications is 0; give at least 1");
    }
    let outcome = run(file, arguments.seed, arguments.replications);
    if let Some(folder) = &arguments.out {
        super::write(folder, &page::files(&outcome, &arguments.file.to_string_lossy()))?;
    }
    Ok(Some(if arguments.json {
        format!("{:#}\n", print::json(&outcome))
    } else if arguments.csv {
        print::csv(&outcome)
    } else {
        print::table(&outcome)
    }))
}

fn choose(file: &mut Fleets, wanted: &[String]) -> anyhow::Result<()> {
    if let Some(unknown) = wanted
        .iter()
        .find(|name| file.fleets.iter().all(|it| it.name != **name))
    {
        let own: Vec<&str> = file.fleets.iter().map(|it| it.name.as_str()).collect();
        bail!("there is no fleet {unknown}: the file has {}", own.join(", "));
    }
    file.fleets.retain(|it| wanted.contains(&it.name));
    Ok(())
}

fn run(file: Fleets, seed: u64, replications: Option<u32>) -> Outcome {
    let replications = replications.unwrap_or(file.replications);
    let progress = Progress::new(file.fleets.len() * replications as usize);
    let results = file
        .fleets
        .par_iter()
        .map(|plan| replicate(plan, Seed(seed), replications, &progress))
        .collect();
    progress.finish();
    Outcome {
        file,
        seed,
        replications,
        results,
    }
}

fn replicate(plan: &Plan, seed: Seed, replications: u32, progress: &Progress) -> Found {
    let mut columns = [Tally::default(); COLUMNS.len()];
    let mut claims = vec![Tally::default(); plan.expect.len()];
    let run = |number: u32| {
        let series = plan.run(seed.replication(u64::from(number)));
        progress.step();
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
