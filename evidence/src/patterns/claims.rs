//! What Mendonça et al. 2020 claim, and whether our models agree.

use std::fmt::Write as _;

use super::Point;

/// One line for each claim: `holds` or `does not hold`, the claim, and the numbers.
pub(super) fn report(points: &[Point]) -> String {
    let mut out = String::new();
    for (holds, claim, numbers) in all(points) {
        let verdict = if holds {
            "holds"
        } else {
            "does not hold for our models"
        };
        let _ = writeln!(out, "{verdict}: {claim} ({numbers})");
    }
    out
}

/// Whether a claim holds, what it says, and the numbers.
pub(super) type Claim = (bool, &'static str, String);

/// Every claim, in the published order.
pub(super) fn all(points: &[Point]) -> Vec<Claim> {
    vec![
        timeout_and_total(points),
        timeout_and_contention(points),
        retry_and_contention(points),
        retry_and_total(points),
        breaker_and_total(points, "SCB"),
        breaker_and_total(points, "DCB"),
        worst_breaker(points),
        breakers_and_contention(points),
    ]
}

fn find<'p>(points: &'p [Point], model: &str, value: i64) -> Vec<&'p Point> {
    points
        .iter()
        .filter(|p| p.model == model && p.value == value)
        .collect()
}

fn at<'p>(points: &'p [Point], model: &str, value: i64, availability: f64) -> &'p Point {
    points
        .iter()
        .find(|p| p.model == model && p.value == value && (p.availability - availability).abs() < 1e-9)
        .expect("the sweep has every configuration at every availability")
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// The largest relative difference of `a` over `b`, by availability.
fn largest(a: &[&Point], b: &[&Point], value: fn(&Point) -> f64) -> (f64, f64) {
    a.iter()
        .zip(b)
        .map(|(a, b)| (value(a) / value(b) - 1.0, a.availability))
        .max_by(|x, y| x.0.total_cmp(&y.0))
        .expect("the sweep has availabilities")
}

fn timeout_and_total(points: &[Point]) -> Claim {
    let best = find(points, "SP", 2);
    let difference = [10, 20, 40]
        .iter()
        .flat_map(|cto| find(points, "SP", *cto))
        .zip(best.iter().cycle())
        .map(|(other, best)| (other.total / best.total - 1.0).abs())
        .fold(0.0, f64::max);
    (
        difference < 0.02,
        "CTO does not change the total time of Simple Proxy",
        format!("at most {} between CTO = 2 and any other", percent(difference)),
    )
}

fn timeout_and_contention(points: &[Point]) -> Claim {
    let (short, long) = (at(points, "SP", 2, 0.5), at(points, "SP", 40, 0.5));
    let more = long.contention / short.contention - 1.0;
    (
        more > 0.02,
        "CTO changes the contention time of Simple Proxy at low availability",
        format!("CTO = 40 over CTO = 2 at AV = 0.5: {} more", percent(more)),
    )
}

fn retry_and_contention(points: &[Point]) -> Claim {
    let simple = at(points, "SP", 2, 0.5);
    let less: Vec<f64> = [10, 20, 40]
        .iter()
        .map(|mbo| 1.0 - at(points, "RP", *mbo, 0.5).contention / simple.contention)
        .collect();
    (
        less.iter().all(|less| *less > 0.30),
        "Retry cuts contention by over 30 % at low availability",
        format!(
            "at AV = 0.5: MBO = 10 by {}, 20 by {}, 40 by {}",
            percent(less[0]),
            percent(less[1]),
            percent(less[2])
        ),
    )
}

fn retry_and_total(points: &[Point]) -> Claim {
    let totals: Vec<f64> = [10, 20, 40]
        .iter()
        .map(|mbo| at(points, "RP", *mbo, 0.5).total)
        .collect();
    (
        totals[0] < totals[1] && totals[1] < totals[2],
        "a larger MBO costs total time",
        format!(
            "at AV = 0.5: {:.0}, {:.0}, {:.0}",
            totals[0], totals[1], totals[2]
        ),
    )
}

fn breaker_and_total(points: &[Point], model: &'static str) -> Claim {
    let simple = find(points, "SP", 2);
    let breaker = find(points, model, 10);
    let (most, availability) = largest(&breaker, &simple, |p| p.total);
    let within: Vec<String> = breaker
        .iter()
        .zip(&simple)
        .map(|(b, s)| format!("{} at {:.1}", percent(b.total / s.total - 1.0), b.availability))
        .collect();
    let claim = if model == "SCB" {
        "the static breaker with CBTO = 10 costs under 5 % of total time"
    } else {
        "the dynamic breaker with CBTO = 10 costs under 5 % of total time"
    };
    (
        most < 0.05,
        claim,
        format!("most at AV = {availability:.1}; {}", within.join(", ")),
    )
}

fn worst_breaker(points: &[Point]) -> Claim {
    let total = |model, value| at(points, model, value, 0.5).total;
    let order = [total("SCB", 40), total("DCB", 40), total("SCB", 20)];
    (
        order[0] > order[1] && order[1] > order[2],
        "SCB with CBTO = 40 has the worst total time, then DCB with 40 and SCB with 20",
        format!("at AV = 0.5: {:.0}, {:.0}, {:.0}", order[0], order[1], order[2]),
    )
}

fn breakers_and_contention(points: &[Point]) -> Claim {
    let simple = at(points, "SP", 2, 0.5).contention;
    let worst = ["SCB", "DCB"]
        .iter()
        .flat_map(|model| [10, 20, 40].map(|value| at(points, model, value, 0.5).contention))
        .fold(0.0, f64::max);
    (
        worst < 0.8 * simple,
        "all breakers have far less contention than the best Simple Proxy at low availability",
        format!("at AV = 0.5: at most {worst:.0} against {simple:.0}"),
    )
}
