//! The report in a folder: a page, and a picture for each fleet.

use std::fmt::Write as _;

use super::{Found, Outcome, figure, print::seconds};

/// Every file by its name.
pub(super) fn files(outcome: &Outcome, path: &str) -> Vec<(String, String)> {
    let mut files = vec![("README.md".to_owned(), page(outcome, path))];
    let pictures = outcome
        .results
        .iter()
        .map(|found| (picture(found), figure::svg(found)));
    files.extend(pictures);
    files
}

fn picture(found: &Found) -> String {
    format!("{}.svg", found.plan.name)
}

fn page(outcome: &Outcome, path: &str) -> String {
    let file = &outcome.file;
    let mut out = format!("# {}\n\n{}\n\n", file.name, file.claim);
    if !file.source.is_empty() {
        let _ = writeln!(out, "Source: {}.\n", file.source);
    }
    let _ = writeln!(
        out,
        "Written by `retryguard simulate {path} --seed {} --out …`. Rates are relative to an even fleet that never \
         retries.\n",
        outcome.seed
    );
    for found in &outcome.results {
        section(&mut out, found);
    }
    out
}

fn section(out: &mut String, found: &Found) {
    let plan = &found.plan;
    let _ = writeln!(
        out,
        "## {}\n\n{}\n\n![{}]({})\n",
        plan.title,
        plan.claim,
        plan.name,
        picture(found)
    );
    let total = found.first.total();
    let _ = writeln!(
        out,
        "{} clients: {} calls, {} retries, {} attempts failed.\n",
        plan.fleet.clients, total.first, total.retries, total.failed
    );
    if found.claims.is_empty() {
        return;
    }
    out.push_str("| seconds | claimed | found | |\n| --- | --- | --- | --- |\n");
    for (claim, value) in &found.claims {
        let _ = writeln!(
            out,
            "| {}–{} | {} ± {} | {value:.4} | {} |",
            seconds(claim.from),
            seconds(claim.until),
            claim.rate,
            claim.within,
            if Found::holds(claim, *value) {
                "holds"
            } else {
                "does not hold"
            }
        );
    }
    out.push('\n');
}
