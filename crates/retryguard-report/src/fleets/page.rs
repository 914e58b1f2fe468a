//! The report in a folder: a page that stands alone, the same page for a repository, and a picture for each fleet.

use std::fmt::Write as _;

use retryguard_sim::fleet::Claim;

use super::{Found, Outcome, figure, print::seconds};
use crate::chart::escaped;

/// Every file by its name.
pub(super) fn files(outcome: &Outcome, path: &str) -> Vec<(String, String)> {
    let mut files = vec![
        ("index.html".to_owned(), html(outcome, path)),
        ("README.md".to_owned(), page(outcome, path)),
    ];
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
    let _ = writeln!(out, "Written by `{}`. {RATES}\n", command(outcome, path));
    for found in &outcome.results {
        section(&mut out, found);
    }
    out
}

const RATES: &str = "Rates are relative to an even fleet that never retries.";

fn command(outcome: &Outcome, path: &str) -> String {
    format!("retryguard simulate {path} --seed {} --out …", outcome.seed)
}

fn html(outcome: &Outcome, path: &str) -> String {
    let file = &outcome.file;
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{0}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>\n\
         :root {{ color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.5; }}\n\
         body {{ max-width: 880px; margin: 2rem auto; padding: 0 1rem; background: Canvas; color: CanvasText; }}\n\
         svg {{ max-width: 100%; height: auto; }} .wide {{ overflow-x: auto; }} .wide svg {{ min-width: 790px; }}\n\
         td, th {{ padding: 0.1rem 1rem 0.1rem 0; text-align: left; }}\n\
         </style>\n<h1>{0}</h1>\n<p>{1}</p>\n<p>{2}</p>\n<p>Written by <code>{3}</code>. {RATES}</p>\n",
        escaped(&file.name),
        escaped(&file.claim),
        escaped(&file.source),
        escaped(&command(outcome, path)),
    );
    for found in &outcome.results {
        let plan = &found.plan;
        let _ = writeln!(
            out,
            "<h2>{}</h2>\n<p>{}</p>\n<div class=\"wide\">{}</div><table>\n<tr><th>seconds<th>claimed<th>found<th></tr>",
            escaped(&plan.title),
            escaped(&plan.claim),
            figure::svg(found)
        );
        for (claim, value) in &found.claims {
            let [when, claimed, found, verdict] = cells(claim, *value);
            let _ = writeln!(out, "<tr><td>{when}<td>{claimed}<td>{found}<td>{verdict}</tr>");
        }
        out.push_str("</table>\n");
    }
    out.push_str("</html>\n");
    out
}

/// A claim beside what was found.
fn cells(claim: &Claim, value: f64) -> [String; 4] {
    [
        format!("{}–{}", seconds(claim.from), seconds(claim.until)),
        format!("{} ± {}", claim.rate, claim.within),
        format!("{value:.4}"),
        if Found::holds(claim, value) {
            "holds"
        } else {
            "does not hold"
        }
        .to_owned(),
    ]
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
        let _ = writeln!(out, "| {} |", cells(claim, *value).join(" | "));
    }
    out.push('\n');
}
