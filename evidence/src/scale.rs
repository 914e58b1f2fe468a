//! How many targets and Envoys one controller bears, written to `docs/evidence/controller-scale.md`.

use std::process::Command;

use anyhow::{Context as _, ensure};

const PAGE: &str = "docs/evidence/controller-scale.md";

/// Targets and Envoys of each run.
const RUNS: [(u32, u32); 4] = [(100, 100), (10_000, 100), (1_000, 1_000), (10_000, 1_000)];

/// Runs the program that measures, once for each size, and writes the page.
pub(crate) fn write() -> anyhow::Result<()> {
    let mut rows = String::new();
    for (targets, envoys) in RUNS {
        eprintln!("== scale: {targets} targets, {envoys} Envoys");
        rows.push_str(&run(targets, envoys)?);
    }
    std::fs::write(PAGE, page(&rows)).with_context(|| format!("cannot write {PAGE}"))?;
    eprintln!("== scale: {PAGE} is written");
    Ok(())
}

fn page(rows: &str) -> String {
    format!(
        "# The controller at scale\n\n\
         Written by `cargo xtask evidence controller-scale`; do not edit.\n\n\
         One controller, with all of its parts: it scrapes a page of metrics each second that has seven series of every \
         target, decides for each target, and switches through runtime discovery. The Envoys are simulated by another \
         process and speak xDS over loopback: each has a connection of its own, subscribes, and acknowledges what it gets. \
         In the quiet part nothing is switched, for ten seconds. In the busy part twenty more targets become overloaded with \
         each of ten pages, so that every Envoy is sent the whole layer anew for each change; at its end two hundred targets \
         (one hundred in the smallest run) are off.\n\n\
         Memory and processor time are those of the controller's process alone; 100 % is one core. The delay counts from the \
         moment at which the page with a target's first bad sample was handed out until one Envoy had the switch, over all \
         targets and Envoys. Everything ran on one machine with two cores that had other work to do, the simulated Envoys \
         included: the delay has their processor time in it.\n\n\
         | targets | Envoys | memory | processor, quiet | processor, busy | delay, median | delay, 99 % | delay, worst | switches seen |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n\
         {rows}\n\
         The layer is one resource of xDS and is sent whole, so a change costs as much as there are targets that are off, \
         times the number of Envoys. Beyond these sizes, `shards` gives each of several controllers a part of the targets.\n"
    )
}

/// The row of this size.
fn run(targets: u32, envoys: u32) -> anyhow::Result<String> {
    let output = Command::new("cargo")
        .args([
            "run",
            "--quiet",
            "--release",
            "--package=retryguard-controller",
            "--features=envoy",
            "--example=scale",
            "--",
        ])
        .args([targets.to_string(), envoys.to_string()])
        .output()
        .context("cannot run the example `scale`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`scale` failed: {said}");
    Ok(String::from_utf8(output.stdout)?)
}
