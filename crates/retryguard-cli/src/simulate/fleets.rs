//! A file of fleets: read, chosen from, run.

use std::fs;

use anyhow::{Context as _, bail};
use retryguard_report::fleets;
use retryguard_sim::scenario::Fleets;

use super::{Arguments, progress::Progress};

/// What is printed for a file of fleets; `None` where the file is something else.
pub(super) fn simulate(arguments: &Arguments) -> anyhow::Result<Option<String>> {
    // A file that cannot be read is reported where scenarios are read.
    let Some(text) = fs::read_to_string(&arguments.file)
        .ok()
        .filter(|text| Fleets::stand_in(text))
    else {
        return Ok(None);
    };
    if arguments.until_ci.is_some() || arguments.against.is_some() || arguments.storms {
        bail!("--until-ci, --against and --storms belong to a file with `services`; this one has `fleets`");
    }
    let name = arguments
        .file
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let mut file = Fleets::parse(&text, &name)
        .map_err(|mistakes| anyhow::anyhow!("{} has mistakes:\n{mistakes}", arguments.file.display()))?;
    if !arguments.policies.is_empty() {
        choose(&mut file, &arguments.policies)?;
    }
    let replications = arguments.replications.unwrap_or(file.replications);
    if replications == 0 {
        bail!("--replications is 0; give at least 1");
    }
    let progress = Progress::new(file.fleets.len() * replications as usize);
    let run = || fleets::run(file, arguments.seed, replications, &|| progress.step());
    let outcome = match arguments.threads {
        None => run(),
        Some(threads) => rayon::ThreadPoolBuilder::new()
            .num_threads(threads.into())
            .build()
            .context("cannot start the threads")?
            .install(run),
    };
    progress.finish();
    if let Some(folder) = &arguments.out {
        super::write(folder, &outcome.files(&arguments.file.to_string_lossy()))?;
    }
    Ok(Some(if arguments.json {
        outcome.json()
    } else if arguments.csv {
        outcome.csv()
    } else {
        outcome.text()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_chosen_by_name() {
        let text = "clients: 100\nfleets:\n  - {name: one, duration: 10m}\n  - {name: two, duration: 10m}\n";
        let mut file = Fleets::parse(text, "small").unwrap();
        choose(&mut file, &["two".to_owned()]).unwrap();
        assert_eq!(file.fleets.len(), 1);
        let said = choose(&mut file, &["three".to_owned()]).unwrap_err().to_string();
        assert_eq!(said, "there is no fleet three: the file has two");
    }
}
