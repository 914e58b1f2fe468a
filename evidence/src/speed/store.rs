//! What the store costs, measured in one run and written to docs/evidence/store-benchmarks.md.

use std::{fmt::Write as _, process::Command};

use anyhow::{Context, bail};

const PAGE: &str = "docs/evidence/store-benchmarks.md";

/// Runs the programs that measure and writes the page.
pub(crate) fn write() -> anyhow::Result<()> {
    xtask::parts::databases()?;
    let mut page = String::from(
        "# What the store costs\n\n\
         Written by `cargo xtask evidence store-speed`: real servers on loopback, everybody by turns in one run, the fastest turn \
         of each. Read the ratios: the microseconds are those of one machine, and a disk or a network between program \
         and store changes them.\n",
    );
    idempotency(&figures("idempotency_speed")?, &mut page)?;
    outbox(&figures("outbox_speed")?, &mut page)?;
    std::fs::write(PAGE, page).with_context(|| format!("cannot write {PAGE}"))?;
    eprintln!("== benchmarks: {PAGE} is written");
    Ok(())
}

/// One line of a program: `group`, `name`, figure.
struct Figure {
    group: String,
    name: String,
    value: f64,
}

fn figures(example: &str) -> anyhow::Result<Vec<Figure>> {
    let output = Command::new("cargo")
        .args([
            "run",
            "--quiet",
            "--release",
            // As it is shipped: the first build of the workspace has SQLite less optimised.
            "--config=profile.release.package.libsqlite3-sys.opt-level=3",
            "--package=retryguard-store",
            "--all-features",
        ])
        .args(["--example", example])
        .output()
        .with_context(|| format!("cannot run the example {example}"))?;
    if !output.status.success() {
        bail!("{example} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| figure(line).with_context(|| format!("{example} printed {line:?}")))
        .collect()
}

fn figure(line: &str) -> Option<Figure> {
    let [group, name, value] = line.split('\t').collect::<Vec<_>>()[..] else {
        return None;
    };
    Some(Figure {
        group: group.to_owned(),
        name: name.to_owned(),
        value: value.parse().ok()?,
    })
}

fn idempotency(figures: &[Figure], page: &mut String) -> anyhow::Result<()> {
    let find = |group: &str, name: &str| {
        let found = figures
            .iter()
            .find(|figure| figure.group == group && figure.name == name);
        found
            .map(|figure| figure.value)
            .with_context(|| format!("no figure for {group}, {name}"))
    };
    let plain = find("empty handler", "plain")?;
    page.push_str(
        "\n## The idempotency layer\n\n\
         One request after the other over one connection to an axum server whose handler does nothing, which makes the \
         layer look as dear as it can. A new key costs two round trips to the store, a replay two where the store is a \
         SQL database and one in Redis.\n\n\
         | store | µs a request, new key | beside the plain handler | µs a request, replay | beside the plain handler |\n\
         | --- | ---: | ---: | ---: | ---: |\n",
    );
    writeln!(page, "| plain handler, no layer | {plain:.0} | 1.00× | – | – |")?;
    let unkeyed = find("empty handler", "no-key")?;
    writeln!(
        page,
        "| layer, request without a key | {unkeyed:.0} | {:.2}× | – | – |",
        unkeyed / plain
    )?;
    for store in ["memory", "sqlite", "redis", "postgres"] {
        let (new, replay) = (find("empty handler", store)?, find("replay", store)?);
        writeln!(
            page,
            "| {store} | {new:.0} | {:.2}× | {replay:.0} | {:.2}× |",
            new / plain,
            replay / plain
        )?;
    }
    page.push_str(
        "\nBeside a handler that writes one row in a transaction, with the key's completion in the same transaction \
         (`complete_in`): what is added is the claim, and one statement.\n\n\
         | database | µs without the layer | µs with it | ratio |\n| --- | ---: | ---: | ---: |\n",
    );
    for store in ["sqlite", "postgres"] {
        let without = find("one transaction", &format!("{store} plain"))?;
        let with = find("one transaction", store)?;
        writeln!(
            page,
            "| {store} | {without:.0} | {with:.0} | {:.2}× |",
            with / without
        )?;
    }
    Ok(())
}

fn outbox(figures: &[Figure], page: &mut String) -> anyhow::Result<()> {
    let find = |group: &str, name: &str| {
        let found = figures
            .iter()
            .find(|figure| figure.group == group && figure.name == name);
        found
            .map(|figure| figure.value)
            .with_context(|| format!("no figure for {group}, {name}"))
    };
    page.push_str(
        "\n## The outbox\n\n\
         On PostgreSQL, beside a loop written by hand (`INSERT`; then `SELECT … FOR UPDATE SKIP LOCKED`, publish and \
         `DELETE` of 200 in one transaction), which keeps no order under several workers, holds its locks while it \
         publishes, and has neither waits between tries nor parking. Writing: one event in a transaction of its own. \
         Publishing: one worker and a backlog of 4000 events of 200 bytes, to a publisher that takes no time.\n\n\
         | | events a second, written | beside the loop | events a second, published | beside the loop |\n\
         | --- | ---: | ---: | ---: | ---: |\n",
    );
    let (write, publish) = (find("write", "by hand")?, find("publish", "by hand")?);
    for (name, title) in [
        ("by hand", "loop by hand"),
        ("without keys", "outbox, events without keys"),
        ("with keys", "outbox, events of 100 keys"),
    ] {
        let (written, published) = (find("write", name)?, find("publish", name)?);
        writeln!(
            page,
            "| {title} | {:.0} | {:.2}× | {:.0} | {:.2}× |",
            1e6 / written,
            write / written,
            1e6 / published,
            publish / published
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_three_parts_and_a_figure() {
        let read = figure("replay\tredis\t12.5").unwrap();
        assert_eq!((read.group.as_str(), read.name.as_str()), ("replay", "redis"));
        assert!((read.value - 12.5).abs() < 1e-9);
        assert!(figure("replay\tredis").is_none());
        assert!(figure("replay\tredis\tmany").is_none());
    }
}
