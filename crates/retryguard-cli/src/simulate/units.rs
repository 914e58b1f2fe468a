//! A draw in units of work, and their results joined.

use std::{fs, path::Path};

use anyhow::{Context, bail};
use retryguard_report::tournament::{self, Units};
use retryguard_sim::{comparison::Plan, conduct::Conduct};

use super::{Arguments, print, progress::Progress, show};

/// Runs the unit that the command line names, or prints the plan.
pub(super) fn run(
    arguments: &Arguments,
    units: u32,
    conducts: &[Conduct],
    plan: &Plan,
    worlds: u32,
) -> anyhow::Result<()> {
    if !(1..=worlds).contains(&units) {
        bail!("--units is {units}; give a number from 1 to {worlds}, the number of worlds");
    }
    if arguments.json || arguments.csv {
        bail!("--json and --csv belong to `retryguard simulate merge DIR`, which has the whole result");
    }
    let all = Units {
        worlds,
        units,
        ablation: arguments.ablate,
    };
    let (Some(unit), Some(folder)) = (arguments.unit, &arguments.out) else {
        return print(&all.text(conducts.len(), plan.replications));
    };
    if unit >= units {
        bail!("--unit is {unit}; the plan has the units 0 to {}", units - 1);
    }
    let runs = all.worlds_of(unit).len() * conducts.len() * plan.replications as usize;
    let progress = Progress::new(runs);
    let text = all.run(unit, conducts, plan, &|| progress.step());
    progress.finish();
    let path = folder.join(all.file(unit));
    store(folder, &path, &text)?;
    print(&format!("wrote {}\n", path.display()))
}

/// Writes a file whole or not at all, so that a unit that is killed leaves nothing that looks like a result.
fn store(folder: &Path, path: &Path, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let unfinished = path.with_extension(format!("{}.part", std::process::id()));
    fs::write(&unfinished, text)
        .and_then(|()| fs::rename(&unfinished, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Joins the results of a folder.
pub(super) fn merge(arguments: &Arguments) -> anyhow::Result<()> {
    let Some(folder) = &arguments.folder else {
        bail!("give the folder that the units were written into: retryguard simulate merge DIR");
    };
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read the folder {}", folder.display()))?
            .path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("unit-") && name.ends_with(".json") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.push((name, text));
        }
    }
    files.sort();
    let (result, ablation) =
        tournament::merge(&files).map_err(|wrong| anyhow::anyhow!("{}: {wrong}", folder.display()))?;
    show(arguments, &result, ablation)
}
