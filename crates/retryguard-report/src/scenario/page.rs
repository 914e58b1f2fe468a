//! The report in a folder: a page that stands alone, the same for a repository, its pictures, and the numbers.

use std::fmt::Write as _;

use super::{Outcome, csv, json, pictures, table};
use crate::{chart::escaped, table::pipes};

/// Every file by its name.
pub(super) fn files(outcome: &Outcome, path: &str) -> Vec<(String, String)> {
    let pictures = pictures::all(outcome);
    let mut files = vec![
        ("index.html".to_owned(), html(outcome, path, &pictures)),
        ("README.md".to_owned(), markdown(outcome, path, &pictures)),
        ("result.json".to_owned(), format!("{:#}\n", json::of(outcome))),
        ("result.csv".to_owned(), csv::of(outcome)),
    ];
    files.extend(pictures);
    files
}

fn command(outcome: &Outcome, path: &str) -> String {
    format!(
        "retryguard simulate {path} --seed {} --replications {} --out …",
        outcome.seed, outcome.replications
    )
}

/// Tables with their titles: one, or one for each value of a sweep.
fn tables(outcome: &Outcome) -> Vec<(String, Vec<Vec<String>>)> {
    if outcome.sweep.is_empty() {
        return vec![("Numbers".to_owned(), table::rows(outcome, &outcome.policies))];
    }
    let key = outcome
        .scenario
        .sweep
        .as_ref()
        .map_or("", |sweep| sweep.key.as_str());
    outcome
        .sweep
        .iter()
        .map(|(value, summaries)| (format!("{key} = {value}"), table::rows(outcome, summaries)))
        .collect()
}

fn notes(outcome: &Outcome) -> Vec<String> {
    outcome
        .scenario
        .source
        .as_ref()
        .map_or_else(Vec::new, |source| source.notes.clone())
}

fn services(outcome: &Outcome) -> Vec<Vec<String>> {
    let head = [
        "policy",
        "service",
        "requests",
        "amplif.",
        "turned away",
        "largest size",
        "last size",
        "resizes",
        "bill",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for summary in &outcome.policies {
        for service in &summary.services {
            rows.push(vec![
                summary.name.clone(),
                service.name.clone(),
                format!("{:.0}", service.attempts.mean),
                format!("{:.3}", service.amplification.mean),
                format!("{:.1}%", 100.0 * service.turned_away.mean),
                format!("{:.0}", service.largest.mean),
                format!("{:.0}", service.last.mean),
                format!("{:.1}", service.resizes.mean),
                format!("{:.5}", service.bill.mean),
            ]);
        }
    }
    rows
}

fn focus(outcome: &Outcome) -> String {
    let world = &outcome.scenario.world;
    format!(
        "Attempts and amplification are those at {}; ± is the half width of the 95 % confidence interval over {} \
         replication(s).",
        world.services[world.focus].name, outcome.replications
    )
}

fn markdown(outcome: &Outcome, path: &str, pictures: &[(String, String)]) -> String {
    let scenario = &outcome.scenario;
    let mut out = format!("# {}\n\n{}\n\n", scenario.name, scenario.claim.trim());
    let _ = writeln!(
        out,
        "Written by `{}`; do not edit. {}\n",
        command(outcome, path),
        focus(outcome)
    );
    for (title, rows) in tables(outcome) {
        let _ = writeln!(out, "## {title}\n\n{}", pipes(&rows));
    }
    for note in notes(outcome) {
        let _ = writeln!(out, "- {}", note.trim());
    }
    let _ = writeln!(out, "\n## Over time\n");
    for (name, _) in pictures {
        let _ = writeln!(out, "![{0}]({name})\n", name.trim_end_matches(".svg"));
    }
    let _ = writeln!(out, "## Services\n\n{}", pipes(&services(outcome)));
    out
}

fn html(outcome: &Outcome, path: &str, pictures: &[(String, String)]) -> String {
    let scenario = &outcome.scenario;
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{0}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>\n\
         :root {{ color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.5; }}\n\
         body {{ max-width: 1400px; margin: 2rem auto; padding: 0 1rem; background: Canvas; color: CanvasText; }}\n\
         svg {{ max-width: 100%; height: auto; }} .wide {{ overflow-x: auto; margin: 1rem 0; }} .wide svg {{ min-width: 790px; }}\n\
         table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.8rem; }}\n\
         td, th {{ padding: 0.2rem 0.8rem 0.2rem 0; text-align: right; white-space: nowrap; }}\n\
         td:first-child, th:first-child {{ text-align: left; }} tr.source {{ opacity: 0.7; font-style: italic; }}\n\
         th {{ border-bottom: 1px solid currentColor; }}\n\
         </style>\n<h1>{0}</h1>\n<p>{1}</p>\n<p>Written by <code>{2}</code>. {3}</p>\n",
        escaped(&scenario.name),
        escaped(scenario.claim.trim()),
        escaped(&command(outcome, path)),
        escaped(&focus(outcome)),
    );
    for (title, rows) in tables(outcome) {
        let _ = writeln!(out, "<h2>{}</h2>", escaped(&title));
        html_table(&mut out, &rows);
    }
    let notes = notes(outcome);
    if !notes.is_empty() {
        out.push_str("<ul>\n");
        for note in notes {
            let _ = writeln!(out, "<li>{}</li>", escaped(note.trim()));
        }
        out.push_str("</ul>\n");
    }
    for (_, picture) in pictures {
        let _ = writeln!(out, "<div class=\"wide\">{picture}</div>");
    }
    out.push_str("<h2>Services</h2>\n");
    html_table(&mut out, &services(outcome));
    out.push_str("<h2>Policies</h2>\n<ul>\n");
    for summary in &outcome.policies {
        let digest = if summary.digest.is_empty() {
            "a foreign policy"
        } else {
            &summary.digest
        };
        let _ = writeln!(
            out,
            "<li>{}: <code>{}</code></li>",
            escaped(&summary.name),
            escaped(digest)
        );
    }
    out.push_str("</ul>\n</html>\n");
    out
}

fn html_table(out: &mut String, rows: &[Vec<String>]) {
    out.push_str("<div class=\"wide\"><table>\n");
    for (index, row) in rows.iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        // A row of the source is indented in its first cell.
        let class = if row[0].starts_with(' ') {
            " class=\"source\""
        } else {
            ""
        };
        let _ = write!(out, "<tr{class}>");
        for cell in row {
            let _ = write!(out, "<{tag}>{}</{tag}>", escaped(cell.trim()));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}
