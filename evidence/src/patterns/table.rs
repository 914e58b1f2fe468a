//! The table of the suite, as comma-separated values and as a page.

use std::fmt::Write as _;

use anyhow::Context;

use super::Point;

const HEADER: &str = "model,parameter,value,availability,total_time,contention_time";

pub(super) fn write(points: &[Point]) -> String {
    let mut out = format!("{HEADER}\n");
    for point in points {
        let _ = writeln!(
            out,
            "{},{},{},{:.1},{:.6},{:.6}",
            point.model, point.parameter, point.value, point.availability, point.total, point.contention
        );
    }
    out
}

pub(super) fn read(text: &str) -> anyhow::Result<Vec<Point>> {
    text.lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let [model, parameter, value, availability, total, contention] = fields.as_slice() else {
                anyhow::bail!("not a line of the table: {line}");
            };
            Ok(Point {
                model: (*model).to_owned(),
                parameter: (*parameter).to_owned(),
                value: value.parse().context("value")?,
                availability: availability.parse().context("availability")?,
                total: total.parse().context("total time")?,
                contention: contention.parse().context("contention time")?,
            })
        })
        .collect()
}

pub(super) fn readme(points: &[Point], claims: &str) -> String {
    let mut out = String::from(
        "# Resiliency patterns, model-checked\n\n\
         Expected total time and expected contention time of a client that needs 100 successful requests from a target \
         service of limited availability, for four ways of calling it. The models are `models/resiliency-patterns/*.prism`, \
         written from the text, the formulas and Table I of \"Model-Based Analysis of Microservice Resiliency Patterns\" \
         (ICSA 2020). What the text leaves open is a declared constant or a comment beside the command that decides it. \
         The circuit breakers and Retry use the connection timeout of the best Simple Proxy (CTO = 2); the dynamic breaker \
         starts at MIN_TO = 5.\n\n\
         This folder is generated:\n\n\
         ```sh\n\
         cargo xtask evidence patterns\n\
         ```\n\n\
         ## The published claims\n\n",
    );
    for line in claims.lines() {
        let _ = writeln!(out, "- {line}");
    }
    out.push_str(
        "\n## Figures\n\n\
         ![Simple Proxy: CTO does not change total time, but contention](figure-9.svg)\n\n\
         ![Retry against the best Simple Proxy](figure-10.svg)\n\n\
         ![Circuit breakers against the best Simple Proxy and the best Retry](figure-11.svg)\n\n\
         ## Table\n\n\
         Total time / contention time, in the published units of time.\n\n",
    );
    let mut availabilities: Vec<f64> = points.iter().map(|p| p.availability).collect();
    availabilities.sort_by(f64::total_cmp);
    availabilities.dedup();
    out.push_str("| configuration |");
    for availability in &availabilities {
        let _ = write!(out, " AV = {availability:.1} |");
    }
    out.push_str("\n| --- |");
    out.push_str(&" --- |".repeat(availabilities.len()));
    let mut last = String::new();
    for point in points {
        let name = format!("{} {} = {}", point.model, point.parameter, point.value);
        if name != last {
            let _ = write!(out, "\n| {name} |");
            last = name;
        }
        let _ = write!(out, " {:.1} / {:.1} |", point.total, point.contention);
    }
    out.push('\n');
    out
}
