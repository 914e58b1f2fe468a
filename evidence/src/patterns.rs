//! Resiliency patterns, model-checked: the sweep of Mendonça, Aderaldo, Cámara and Garlan (ICSA 2020), its three figures, its table,
//! and its claims beside what our models say.

mod chart;
mod claims;
mod models;
mod table;

use anyhow::Context;
use rayon::prelude::*;
use retryguard_model::{Constants, Model, Options, Properties, Value};
use serde_json::json;

use crate::output::{self, print};
use models::{PATTERNS, Pattern, TIMES};

/// The availabilities of Table I.
const AVAILABILITIES: &[f64] = &[0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// One configuration at one availability.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    model: String,
    parameter: String,
    value: i64,
    availability: f64,
    total: f64,
    contention: f64,
}

/// Where the pages are.
const FOLDER: &str = "docs/evidence/resiliency-patterns";

/// Solves every instance and writes the pages.
pub(crate) fn write(json: bool) -> anyhow::Result<()> {
    let (points, seconds) = sweep(PATTERNS, AVAILABILITIES, str::to_owned)?;
    let (others, other_seconds) = sweep(PATTERNS, AVAILABILITIES, models::with_long_counters)?;
    let difference = largest_difference(&points, &others);
    let csv = table::write(&points);
    // The figures are drawn from the table as it is written, so that the digits beyond it cannot move a line.
    let rounded = table::read(&csv)?;
    let mut written = vec![("table.csv".to_owned(), csv)];
    written.extend(files(&rounded));
    output::write(&xtask::pages::root().join(FOLDER), &written)?;
    print(&if json {
        format!("{:#}\n", as_json(&rounded))
    } else {
        format!(
            "{}\n{} instances in {seconds:.1} s; with counters to 9999 that stop at their end: {other_seconds:.1} s, and the largest \
             relative difference of a value is {difference:.1e}\n",
            claims::report(&rounded),
            points.len(),
        )
    })
}

fn largest_difference(points: &[Point], others: &[Point]) -> f64 {
    let pairs = points.iter().zip(others);
    pairs
        .flat_map(|(a, b)| [a.total / b.total - 1.0, a.contention / b.contention - 1.0])
        .map(f64::abs)
        .fold(0.0, f64::max)
}

fn as_json(points: &[Point]) -> serde_json::Value {
    let claims: Vec<_> = claims::all(points)
        .into_iter()
        .map(|(holds, claim, numbers)| json!({"claim": claim, "holds": holds, "numbers": numbers}))
        .collect();
    let points: Vec<_> = points
        .iter()
        .map(|point| {
            json!({
                "model": point.model,
                "parameter": point.parameter,
                "value": point.value,
                "availability": point.availability,
                "totalTime": point.total,
                "contentionTime": point.contention,
            })
        })
        .collect();
    json!({"claims": claims, "points": points})
}

/// Everything that is made from the table.
fn files(points: &[Point]) -> Vec<(String, String)> {
    vec![
        ("figure-9.svg".to_owned(), chart::figure_9(points)),
        ("figure-10.svg".to_owned(), chart::figure_10(points)),
        ("figure-11.svg".to_owned(), chart::figure_11(points)),
        (
            "README.md".to_owned(),
            table::readme(points, &claims::report(points)),
        ),
    ]
}

/// Every instance of the patterns, their texts written anew by `written`, and the seconds that the solver took for all of them together.
fn sweep(
    patterns: &[Pattern],
    availabilities: &[f64],
    written: impl Fn(&str) -> String,
) -> anyhow::Result<(Vec<Point>, f64)> {
    let properties =
        Properties::parse(TIMES).map_err(|e| anyhow::anyhow!(e.render("times.props", "", TIMES)))?;
    let mut instances = Vec::new();
    for pattern in patterns {
        let text = written(pattern.text);
        let model = Model::parse(&text).map_err(|e| anyhow::anyhow!(e.render(pattern.title, &text, "")))?;
        for value in pattern.values {
            for availability in availabilities {
                instances.push((pattern, model.clone(), *value, *availability));
            }
        }
    }
    let solved: Vec<(Point, f64)> = instances
        .par_iter()
        .map(|(pattern, model, value, availability)| {
            let constants = Constants::from([
                (pattern.parameter.to_owned(), Value::Int(*value)),
                ("AV".to_owned(), Value::Real(*availability)),
            ]);
            let answers = retryguard_model::check(model, &properties, &constants, &Options::default())
                .map_err(|e| anyhow::anyhow!(e.render(pattern.title, pattern.text, TIMES)))?;
            let number = |place: usize| {
                answers
                    .get(place)
                    .and_then(|answer| answer.outcome.number())
                    .context("the suite asks for two numbers")
            };
            let point = Point {
                model: pattern.short.to_owned(),
                parameter: pattern.label.to_owned(),
                value: *value,
                availability: *availability,
                total: number(0)?,
                contention: number(1)?,
            };
            let solving: f64 = answers.iter().map(|answer| answer.solve_seconds).sum();
            let building = answers.first().map_or(0.0, |answer| answer.build_seconds);
            Ok((point, building + solving))
        })
        .collect::<anyhow::Result<_>>()?;
    let seconds = solved.iter().map(|(_, seconds)| seconds).sum();
    Ok((solved.into_iter().map(|(point, _)| point).collect(), seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITTED: &str = include_str!("../../docs/evidence/resiliency-patterns/table.csv");

    fn committed(name: &str) -> &'static str {
        match name {
            "figure-9.svg" => include_str!("../../docs/evidence/resiliency-patterns/figure-9.svg"),
            "figure-10.svg" => include_str!("../../docs/evidence/resiliency-patterns/figure-10.svg"),
            "figure-11.svg" => include_str!("../../docs/evidence/resiliency-patterns/figure-11.svg"),
            "README.md" => include_str!("../../docs/evidence/resiliency-patterns/README.md"),
            other => panic!("{other} is not committed"),
        }
    }

    #[test]
    fn json_has_every_claim_and_every_point() {
        let points = table::read(COMMITTED).unwrap();
        let json = as_json(&points);
        assert_eq!(json["claims"].as_array().map(Vec::len), Some(8));
        assert!(json["claims"][0]["holds"].is_boolean());
        assert_eq!(json["points"].as_array().map(Vec::len), Some(points.len()));
        assert_eq!(json["points"][0]["totalTime"], points[0].total);
    }

    #[test]
    fn committed_figures_are_those_of_the_committed_table() {
        let points = table::read(COMMITTED).unwrap();
        for (name, text) in files(&points) {
            assert_eq!(
                text,
                committed(&name),
                "{name}: run `cargo xtask evidence patterns`"
            );
        }
    }

    /// The dynamic breaker's larger caps take seconds each, so the test asks for its smallest, at two availabilities.
    #[test]
    fn the_committed_table_is_what_the_models_say() {
        let points = table::read(COMMITTED).unwrap();
        assert_eq!(points.len(), (4 + 3 + 3 + 3) * AVAILABILITIES.len());
        let mut fresh = sweep(&PATTERNS[..3], AVAILABILITIES, str::to_owned).unwrap().0;
        let dynamic = [Pattern {
            values: &[10],
            ..PATTERNS[3]
        }];
        fresh.extend(sweep(&dynamic, &[0.5, 0.9], str::to_owned).unwrap().0);
        let long = sweep(&dynamic, &[0.5], |text| {
            let long = models::with_long_counters(text);
            assert!(long.contains("reopens < MAX_REOPEN") && long.contains("(reopens' = reopens + 1)"));
            long
        });
        fresh.extend(long.unwrap().0);
        fresh.extend(
            sweep(&PATTERNS[..3], &[0.5], models::with_long_counters)
                .unwrap()
                .0,
        );
        for point in &fresh {
            let known = points
                .iter()
                .find(|p| {
                    p.model == point.model && p.value == point.value && p.availability == point.availability
                })
                .unwrap();
            for (a, b) in [(known.total, point.total), (known.contention, point.contention)] {
                assert!((a / b - 1.0).abs() < 1e-6, "{known:?} {point:?}");
            }
        }
    }
}
