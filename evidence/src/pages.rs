//! Pages that the simulator alone makes: the same seed gives the same bytes, so a test compares them with what is committed.

use std::{fs, path::Path};

use anyhow::Context as _;
use retryguard_report::{fleets, scenario, tournament};
use retryguard_sim::{
    comparison::Plan,
    scenario::{Fleets, Scenario},
    streams::Seed,
};

/// A folder of `docs/evidence` and what it is made from.
struct Page {
    folder: &'static str,
    from: Source,
}

enum Source {
    /// A scenario file.
    Scenario(&'static str),
    /// A file of fleets.
    Fleets(&'static str),
    /// Every known policy in many worlds.
    Tournament,
}

const PAGES: &[Page] = &[
    Page {
        folder: "table1-aws",
        from: Source::Scenario("scenarios/table1-aws.yaml"),
    },
    Page {
        folder: "table1-istio",
        from: Source::Scenario("evidence/scenarios/table1-istio.yaml"),
    },
    Page {
        folder: "safe-clients",
        from: Source::Fleets("scenarios/safe-clients.yaml"),
    },
    Page {
        folder: "safe-clients/two-billion",
        from: Source::Fleets("evidence/scenarios/safe-clients-two-billion.yaml"),
    },
    Page {
        folder: "tournament",
        from: Source::Tournament,
    },
];

const SEED: u64 = 1;

/// Writes the pages whose folder has `only` in its name.
pub(crate) fn write(only: &str) -> anyhow::Result<()> {
    for page in PAGES.iter().filter(|page| page.folder.contains(only)) {
        let folder = xtask::pages::root().join("docs/evidence").join(page.folder);
        crate::output::write(&folder, &page.files()?)?;
    }
    Ok(())
}

impl Page {
    fn files(&self) -> anyhow::Result<Vec<(String, String)>> {
        Ok(match self.from {
            Source::Scenario(path) => {
                let scenario = read_scenario(path)?;
                let plan = plan(scenario.replications);
                scenario::run(scenario, &plan, &|| ()).files(path)
            }
            Source::Fleets(path) => run_fleets(path)?.files(path),
            Source::Tournament => {
                tournament::run(&retryguard_sim::tournament::policies(), &plan(1), &|| ()).files()
            }
        })
    }
}

fn run_fleets(path: &str) -> anyhow::Result<fleets::Outcome> {
    let file = Fleets::parse(&read(path)?, stem(path))
        .map_err(|mistakes| anyhow::anyhow!("{path} has mistakes:\n{mistakes}"))?;
    let replications = file.replications;
    Ok(fleets::run(file, SEED, replications, &|| ()))
}

fn read_scenario(path: &str) -> anyhow::Result<Scenario> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut load = |file: &str| read(&folder.join(file).to_string_lossy()).map_err(|error| error.to_string());
    Scenario::parse(&read(path)?, stem(path), &mut load)
        .map_err(|mistakes| anyhow::anyhow!("{path} has mistakes:\n{mistakes}"))
}

fn stem(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path).trim_end_matches(".yaml")
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(xtask::pages::root().join(path)).with_context(|| format!("cannot read {path}"))
}

fn plan(replications: u32) -> Plan {
    Plan {
        seed: Seed(SEED),
        replications,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The committed page is what its source gives. With `RETRYGUARD_REGENERATE=1` it is written anew.
    fn compare(name: &str) {
        let page = PAGES.iter().find(|page| page.folder == name).expect("a page");
        if std::env::var_os("RETRYGUARD_REGENERATE").is_some() {
            return write(name).expect("the page can be written");
        }
        let folder = xtask::pages::root().join("docs/evidence").join(name);
        let committed: BTreeMap<String, String> = fs::read_dir(&folder)
            .expect("the folder of the page")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.is_file())
            .map(|path| {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                (name, fs::read_to_string(&path).expect("a page is text"))
            })
            .collect();
        let made: BTreeMap<String, String> = page.files().expect("the page is made").into_iter().collect();
        let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            names(&made),
            names(&committed),
            "docs/evidence/{name} holds other files"
        );
        for (file, text) in &made {
            assert!(
                *text == committed[file],
                "docs/evidence/{name}/{file} is out of date: run `cargo xtask evidence pages --only {name}`"
            );
        }
    }

    fn claims_hold(path: &str) {
        let outcome = run_fleets(path).expect("the fleets run");
        assert_eq!(outcome.without_claims(), Vec::<&str>::new());
        assert_eq!(outcome.broken_claims(), Vec::<String>::new());
    }

    #[test]
    fn table_1_on_aws() {
        compare("table1-aws");
    }

    #[test]
    fn table_1_on_istio() {
        compare("table1-istio");
    }

    #[test]
    fn the_tournament() {
        compare("tournament");
    }

    #[test]
    fn every_plot_of_the_safe_clients() {
        claims_hold("scenarios/safe-clients.yaml");
        compare("safe-clients");
    }

    #[test]
    fn two_billion_devices_for_a_day() {
        claims_hold("evidence/scenarios/safe-clients-two-billion.yaml");
        compare("safe-clients/two-billion");
    }
}
