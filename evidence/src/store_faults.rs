//! Faults of the store's servers and databases, in larger numbers than a test run has time for.

use std::{collections::BTreeMap, fmt::Write as _, process::Command};

use anyhow::{Context, bail};

const PAGE: &str = "docs/evidence/store-faults.md";
/// What a test prints for this page: `faults`, a title and what happened, with tabs between them.
const MARK: &str = "faults\t";

/// Runs the store's fault tests and writes the page.
pub(crate) fn write(rounds: u32, kills: u32) -> anyhow::Result<()> {
    xtask::parts::databases()?;
    let output = Command::new("cargo")
        .args([
            "test",
            "--quiet",
            "--package=retryguard-store",
            "--all-features",
            "--test=it",
            "--",
        ])
        .args(["--include-ignored", "--nocapture", "--test-threads=4"])
        .args(["idempotency::faults::", "idempotency::kills::", "outbox::kill::"])
        .env("RETRYGUARD_TEST_FAULTS", rounds.to_string())
        .env("RETRYGUARD_TEST_KILLS", kills.to_string())
        .output()
        .context("cannot run cargo")?;
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if !output.status.success() {
        bail!("a fault test failed:\n{text}\n{errors}");
    }
    let page = page(text.lines(), rounds, kills)?;
    std::fs::write(PAGE, page).with_context(|| format!("cannot write {PAGE}"))?;
    eprintln!("wrote {PAGE}");
    Ok(())
}

fn page<'a>(lines: impl Iterator<Item = &'a str>, rounds: u32, kills: u32) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    let mut sums: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
    for line in lines {
        let Some((_, rest)) = line.split_once(MARK) else {
            continue;
        };
        let (title, what) = rest.split_once('\t').context("a line without a title")?;
        let store = title.split_once(", ").map_or(
            title,
            |(store, form)| {
                if store == "outbox" { form } else { store }
            },
        );
        let sum = sums.entry(store).or_default();
        for (place, victim) in ["server killed ", "database killed "].iter().enumerate() {
            sum[place] += times(what, victim);
        }
        sum[0] += times(what, "workers killed ");
        rows.push((title, what));
    }
    if rows.is_empty() {
        bail!("the tests printed nothing for the page");
    }
    let mut page = format!(
        "# Faults of the store\n\n\
         Written by `cargo xtask evidence store-faults --rounds {rounds} --kills {kills}`. Clients send every request until it is acknowledged, \
         some of them twice at once, while servers and databases are killed (SIGKILL), connections are cut, disks are full, databases are \
         read-only, pools are exhausted, transactions deadlock and clocks jump. An independent checker decides: for \
         every key there is an order of all requests in which each answer is right, and the effects in the database are those of that \
         order. A wrong history fails the run, and no page is written. For the outbox every event that was committed is delivered, has its \
         effect once, and comes in the order of its key.\n\n\
         | store | SIGKILLs of servers and workers | of the database |\n| --- | ---: | ---: |\n"
    );
    for (store, [servers, databases]) in sums {
        let databases = match (store, databases) {
            ("SQLite", 0) => "– (a file)".to_owned(),
            (_, count) => count.to_string(),
        };
        writeln!(page, "| {store} | {servers} | {databases} |")?;
    }
    page.push_str("\n| test | what happened |\n| --- | --- |\n");
    for (title, what) in rows {
        writeln!(page, "| {title} | {what} |")?;
    }
    Ok(page)
}

/// The number in `server killed 17×`.
fn times(what: &str, victim: &str) -> u32 {
    let number = what.split_once(victim).and_then(|(_, rest)| rest.split_once('×'));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_become_rows() {
        let lines = [
            "running 1 test",
            "test a ... faults\tRedis, two steps\tread-only 1×, database killed 3×; 7 requests",
            "faults\tRedis, elsewhere\tserver killed 20×; 7 payments",
            "faults\toutbox, SQLite\tworkers killed 5×; 7 events",
            "ok",
        ];
        let page = page(lines.into_iter(), 7, 9).unwrap();
        assert!(
            page.contains("| Redis | 20 | 3 |\n| SQLite | 5 | – (a file) |\n"),
            "{page}"
        );
        assert!(
            page.ends_with("| outbox, SQLite | workers killed 5×; 7 events |\n"),
            "{page}"
        );
        assert!(page.contains("--rounds 7 --kills 9"));
        assert!(super::page([].into_iter(), 7, 9).is_err());
    }
}
