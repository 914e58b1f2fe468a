//! What the store costs, measured in one run and written to docs/evidence/store-benchmarks.md.

mod growth;

use std::{fmt::Write as _, process::Command};

use anyhow::{Context, bail};

const PAGE: &str = "docs/evidence/store-benchmarks.md";

/// Runs the programs that measure and writes the page.
pub(crate) fn write() -> anyhow::Result<()> {
    xtask::parts::databases()?;
    let mut page = String::from(
        "# What the store costs\n\n\
         Written by `cargo xtask evidence store-speed`: real servers on loopback, all by turns in one run. Read the ratios: \
         the microseconds are those of one machine, and a disk or a network between program and store changes them.\n",
    );
    idempotency(&figures("idempotency_speed")?, &mut page)?;
    outbox(&figures("outbox_speed")?, &mut page)?;
    std::fs::write(PAGE, page).with_context(|| format!("cannot write {PAGE}"))?;
    eprintln!("== benchmarks: {PAGE} is written");
    Ok(())
}

/// Runs the program that fills tables and writes its page.
pub(crate) fn write_growth() -> anyhow::Result<()> {
    xtask::parts::databases()?;
    let page = growth::page(&Found(&figures("store_growth")?))?;
    std::fs::write(growth::PAGE, page).with_context(|| format!("cannot write {}", growth::PAGE))?;
    eprintln!("== benchmarks: {} is written", growth::PAGE);
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

/// The figures of one program.
struct Found<'a>(&'a [Figure]);

impl Found<'_> {
    fn get(&self, group: &str, name: &str) -> anyhow::Result<f64> {
        let found = self
            .0
            .iter()
            .find(|figure| figure.group == group && figure.name == name);
        found
            .map(|figure| figure.value)
            .with_context(|| format!("no figure for {group}, {name}"))
    }

    /// A ratio with the spread of its blocks or rounds: `1.10× (1.05–1.20)`.
    fn ratio(&self, group: &str, name: &str) -> anyhow::Result<(f64, String)> {
        let get = |what: &str| self.get(&format!("{what}: {group}"), name);
        let (ratio, low, high) = (get("ratio")?, get("low")?, get("high")?);
        Ok((ratio, format!("{ratio:.2}× ({low:.2}–{high:.2})")))
    }
}

/// Whether a goal is met, as the tables say it.
const fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "**missed**" }
}

/// The databases of effects, by the names of the program and of the tables. The last is not durable: it shows the cost beside
/// a commit that takes no time, and has no goal.
const DATABASES: [(&str, &str); 3] = [
    ("sqlite", "SQLite"),
    ("postgres", "PostgreSQL"),
    ("postgres, no disk", NO_DISK),
];
const NO_DISK: &str = "PostgreSQL, `synchronous_commit = off`";

fn goal(title: &str, goal: &str) -> String {
    if title == NO_DISK {
        "–".to_owned()
    } else {
        goal.to_owned()
    }
}

fn idempotency(figures: &[Figure], page: &mut String) -> anyhow::Result<()> {
    let found = Found(figures);
    let plain = found.get("empty handler", "plain")?;
    page.push_str(
        "\n## The idempotency layer\n\n\
         One request after the other over one connection to an axum server whose handler does nothing, which is the \
         worst case for the layer. A new key costs two round trips to the store, a replay one. All that this section compares \
         makes one request after the other by turns, in an order by chance. A ratio is that of two medians of 600 requests each; \
         beside it are the quarters of the ratios of twelve blocks of 50 requests, so that half of the blocks are between \
         the two.\n\n\
         | store | µs a request, new key | ratio to the plain handler | µs a request, replay | ratio to the plain handler |\n\
         | --- | ---: | ---: | ---: | ---: |\n",
    );
    writeln!(page, "| plain handler, no layer | {plain:.0} | 1.00× | – | – |")?;
    let unkeyed = found.get("empty handler", "no-key")?;
    writeln!(
        page,
        "| layer, request without a key | {unkeyed:.0} | {} | – | – |",
        found.ratio("empty handler", "no-key")?.1
    )?;
    for store in ["memory", "sqlite", "redis", "postgres"] {
        let (new, replay) = (found.get("empty handler", store)?, found.get("replay", store)?);
        writeln!(
            page,
            "| {store} | {new:.0} | {} | {replay:.0} | {} |",
            found.ratio("empty handler", store)?.1,
            found.ratio("replay", store)?.1
        )?;
    }
    page.push_str(
        "\nBeside a handler that writes one row in a transaction. *Two steps*: the layer claims the key in a transaction of \
         its own, and `commit` stores the response with the effect. *One transaction*: with `in_transaction(true)` the \
         layer only reads, and `commit` claims and stores at once: four round trips to PostgreSQL beside three without the layer, \
         which the test `one_more_than_the_effect_alone_and_one_for_a_replay` counts on the wire. Every commit is on the disk before it is answered. \
         The goal is 1.25×.\n\n\
         | database | µs without the layer | two steps | ratio | one transaction | ratio | goal |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    for (store, title) in DATABASES {
        let without = found.get("effect, plain", store)?;
        let two = found.get("effect, two steps", store)?;
        let one = found.get("effect, one transaction", store)?;
        let (_, two_ratio) = found.ratio("effect, two steps", store)?;
        let (ratio, one_ratio) = found.ratio("effect, one transaction", store)?;
        let goal = goal(title, &format!("1.25×: {}", met(ratio <= 1.25)));
        writeln!(
            page,
            "| {title} | {without:.0} | {two:.0} | {two_ratio} | {one:.0} | {one_ratio} | {goal} |"
        )?;
    }
    page.push_str(
        "\nA replay beside a handler that reads one row by its primary key:\n\n\
         | database | µs, plain read | µs, replay | ratio | goal |\n| --- | ---: | ---: | ---: | --- |\n",
    );
    for (store, title) in &DATABASES[..2] {
        let (read, replay) = (
            found.get("read, plain", store)?,
            found.get("read, replay", store)?,
        );
        let (ratio, text) = found.ratio("read, replay", store)?;
        let goal = met(ratio <= 1.5);
        writeln!(
            page,
            "| {title} | {read:.0} | {replay:.0} | {text} | 1.50×: {goal} |"
        )?;
    }
    Ok(())
}

fn outbox(figures: &[Figure], page: &mut String) -> anyhow::Result<()> {
    let found = Found(figures);
    page.push_str(
        "\n## The outbox\n\n\
         On PostgreSQL, beside a loop written by hand (`INSERT`; then `SELECT … FOR UPDATE SKIP LOCKED`, publish and \
         `DELETE` in one transaction), which keeps no order under several workers, holds its locks while it publishes, and \
         has neither waits between tries nor parking.\n\n\
         Writing, one event in a transaction of its own:\n\n\
         | | events a second | ratio |\n| --- | ---: | ---: |\n",
    );
    let titles = [
        ("by hand", "loop by hand"),
        ("without keys", "outbox, events without keys"),
        ("with keys", "outbox, events of 100 keys"),
    ];
    for (name, title) in titles {
        let written = found.get("write", name)?;
        let ratio = if name == "by hand" {
            "1.00×".to_owned()
        } else {
            found.ratio("write", name)?.1
        };
        writeln!(page, "| {title} | {:.0} | {ratio} |", 1e6 / written)?;
    }
    page.push_str(
        "\nPublishing a backlog of 100,000 events of 200 bytes, to a publisher that takes no time, in events a second. \
         Both take as many events at once. Ratios of the medians of five rounds in an order by chance; beside them are the quarters of \
         the ratios of the rounds. The goals are 0.80× without keys and 0.50× with keys.\n\n\
         | workers | events at once | loop by hand | without keys | ratio | goal | 100 keys | ratio | goal |\n\
         | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | --- |\n",
    );
    for workers in [1, 4, 16] {
        for batch in [200, 1000] {
            let group = format!("publish {workers} {batch}");
            let hand = found.get(&group, "by hand")?;
            write!(page, "| {workers} | {batch} | {:.0} |", 1e6 / hand)?;
            for (name, least) in [("without keys", 0.8), ("with keys", 0.5)] {
                let (ratio, text) = found.ratio(&group, name)?;
                let each = 1e6 / found.get(&group, name)?;
                write!(page, " {each:.0} | {text} | {} |", met(ratio >= least))?;
            }
            page.push('\n');
        }
    }
    page.push_str(
        "\nWhat each step brought, with one worker, beside the loop by hand with 200 events at once:\n\n\
         | step | without keys | 100 keys |\n| --- | ---: | ---: |\n",
    );
    let hand = found.get("publish 1 200", "by hand")?;
    for (title, group) in [
        (
            "every key claimed and reported by itself (backlog of 10,000)",
            "publish by key",
        ),
        (
            "whole parts claimed, one statement for 200 events",
            "publish 1 200",
        ),
        (
            "whole parts claimed, one statement for 1000 events",
            "publish 1 1000",
        ),
    ] {
        let (alone, keyed) = (found.get(group, "without keys")?, found.get(group, "with keys")?);
        writeln!(page, "| {title} | {:.2}× | {:.2}× |", hand / alone, hand / keyed)?;
    }
    page.push_str(
        "\nFrom the end of the commit to the publisher, with an idle worker (200 events; the goal is 5 ms at the median):\n\n\
         | woken from | median, ms | 99th percentile, ms | goal |\n| --- | ---: | ---: | --- |\n",
    );
    for (name, title) in [
        ("same process", "the same process"),
        ("another process", "another process (`LISTEN`)"),
    ] {
        let (p50, p99) = (found.get("latency p50", name)?, found.get("latency p99", name)?);
        let goal = met(p50 <= 5e3);
        writeln!(page, "| {title} | {:.2} | {:.2} | {goal} |", p50 / 1e3, p99 / 1e3)?;
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
