//! What a million keys and a million events change, written to docs/evidence/store-growth.md.

use std::fmt::Write as _;

use super::{Found, met};

const STORES: [&str; 2] = ["sqlite", "postgres"];
/// As the program says them.
const LOOKS: u32 = 6;
const MINUTES: u32 = 60;

pub(super) const PAGE: &str = "docs/evidence/store-growth.md";

pub(super) fn page(found: &Found<'_>) -> anyhow::Result<String> {
    let mut page = String::from(
        "# The store with a million rows\n\n\
         Written by `cargo xtask evidence store-growth`: real databases on loopback. Read the ratios: the times are those of one \
         machine and its disk.\n",
    );
    latencies(found, &mut page)?;
    clean_up(found, &mut page)?;
    sizes(found, &mut page)?;
    Ok(page)
}

fn latencies(found: &Found<'_>, page: &mut String) -> anyhow::Result<()> {
    page.push_str(
        "\n## Requests\n\n\
         The same steps by turns in an empty database and in one with a million keys (half of them no longer kept) and a million \
         events (half published, half parked); medians of 500 in microseconds. *New key*: claim and completion. *Event*: written, claimed \
         and reported.\n\n\
         | database | step | empty | grown | ratio | goal |\n| --- | --- | ---: | ---: | ---: | --- |\n",
    );
    for store in STORES {
        for step in ["new key", "replay", "event"] {
            let empty = found.get(&format!("{step}, empty"), store)?;
            let grown = found.get(&format!("{step}, grown"), store)?;
            let ratio = grown / empty;
            writeln!(
                page,
                "| {store} | {step} | {empty:.0} | {grown:.0} | {ratio:.2}× | below 1.50×: {} |",
                met(ratio < 1.5)
            )?;
        }
    }
    Ok(())
}

fn clean_up(found: &Found<'_>, page: &mut String) -> anyhow::Result<()> {
    page.push_str(
        "\n## Clean-up\n\nThe clean-up of the layer and of the worker deletes in batches, and pauses for 5 ms after each, on SQLite for four times as long as the batch took. Batches begin with ten rows; \
         they grow to a thousand while they take less than 2.5 ms, and shrink to ten where they take more than 5 ms. Requests by turns alone and \
         beside a clean-up of the grown tables that goes on for as long as they do, in milliseconds. No request failed. SQLite has one writer, so \
         that a request waits for the batch before it; PostgreSQL locks only the rows that are deleted. *Longest batch* has the time that the batch waited for \
         a connection.\n\n\
         | database | what | median alone | beside | 99th percentile alone | beside | longest request beside | longest batch | rows deleted a second |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for store in STORES {
        for what in ["keys", "events"] {
            let get = |group: &str| found.get(&format!("{what}, {group}"), store);
            writeln!(
                page,
                "| {store} | {what} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} |",
                get("p50 alone")? / 1e3,
                get("p50 beside")? / 1e3,
                get("p99 alone")? / 1e3,
                get("p99 beside")? / 1e3,
                get("longest beside")? / 1e3,
                get("longest batch")? / 1e3,
                get("deleted a second")?,
            )?;
        }
    }
    Ok(())
}

fn sizes(found: &Found<'_>, page: &mut String) -> anyhow::Result<()> {
    write!(
        page,
        "\n## Sizes\n\nHow far tables grow: two clients write keys and two write events for {MINUTES} minutes, each with a pause of 10 ms after a row. \
         Each row is kept for 20 s and then deleted by the usual clean-up. Sizes in MB, *compact* after a full vacuum. PostgreSQL has its \
         default autovacuum; SQLite uses freed pages again.\n\n\
         | database | what | rows written | rows left |"
    )?;
    for look in 1..=LOOKS {
        write!(page, " {} min |", look * MINUTES / LOOKS)?;
    }
    page.push_str(" compact |\n| --- | --- | ---: | ---: |");
    page.push_str(&" ---: |".repeat(LOOKS as usize + 1));
    page.push('\n');
    for (store, kinds) in [
        ("sqlite", &[("tables", "file")][..]),
        ("postgres", &[("tables", "tables"), ("indexes", "indexes")]),
    ] {
        for (kind, title) in kinds {
            let (written, left) = (found.get("rows written", store)?, found.get("rows left", store)?);
            write!(page, "| {store} | {title} | {written:.0} | {left:.0} |")?;
            for look in 1..=LOOKS {
                let bytes = found.get(&format!("{kind}, look {look}"), store)?;
                write!(page, " {:.1} |", bytes / 1e6)?;
            }
            let compact = found.get(&format!("{kind}, compact"), store)?;
            writeln!(page, " {:.1} |", compact / 1e6)?;
        }
    }
    Ok(())
}
