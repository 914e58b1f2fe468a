//! Two panels of lines: total time on the left, contention time on the right, over availability.

use super::Point;
use retryguard_report::chart::{Figure, Panel};

struct Series<'p> {
    name: String,
    points: Vec<&'p Point>,
}

pub(super) fn figure_9(points: &[Point]) -> String {
    let shown = series(points, &[("SP", 2), ("SP", 10), ("SP", 20), ("SP", 40)]);
    figure("Simple Proxy: connection timeout (CTO)", &shown)
}

pub(super) fn figure_10(points: &[Point]) -> String {
    let shown = series(points, &[("SP", 2), ("RP", 10), ("RP", 20), ("RP", 40)]);
    figure("Retry: maximum backoff (MBO), and the best Simple Proxy", &shown)
}

pub(super) fn figure_11(points: &[Point]) -> String {
    let shown = series(
        points,
        &[
            ("SP", 2),
            ("RP", 10),
            ("SCB", 10),
            ("SCB", 20),
            ("SCB", 40),
            ("DCB", 10),
            ("DCB", 20),
            ("DCB", 40),
        ],
    );
    figure(
        "Circuit breakers: timeout (CBTO), and the best Simple Proxy and Retry",
        &shown,
    )
}

fn series<'p>(points: &'p [Point], wanted: &[(&str, i64)]) -> Vec<Series<'p>> {
    wanted
        .iter()
        .map(|(model, value)| {
            let points: Vec<&Point> = points
                .iter()
                .filter(|p| p.model == *model && p.value == *value)
                .collect();
            let parameter = points.first().map_or("", |p| p.parameter.as_str());
            Series {
                name: format!("{model}, {parameter} = {value}"),
                points,
            }
        })
        .collect()
}

fn figure(title: &str, shown: &[Series<'_>]) -> String {
    Figure {
        title,
        panels: vec![
            panel("expected total time", shown, |p| p.total),
            panel("expected contention time", shown, |p| p.contention),
        ],
        names: shown.iter().map(|one| one.name.clone()).collect(),
    }
    .svg_with_marks()
}

fn panel<'t>(label: &'t str, shown: &[Series<'_>], value: fn(&Point) -> f64) -> Panel<'t> {
    let all = shown.iter().flat_map(|s| &s.points);
    let lowest = all.map(|p| p.availability).fold(f64::INFINITY, f64::min);
    let mut x_ticks = Vec::new();
    let mut tick = lowest;
    while tick < 1.05 {
        x_ticks.push((tick, format!("{tick:.1}")));
        tick += 0.1;
    }
    Panel {
        label,
        x_label: "availability of the target service",
        x_range: (lowest, 1.0),
        x_ticks,
        lines: shown
            .iter()
            .map(|one| vec![one.points.iter().map(|p| (p.availability, value(p))).collect()])
            .collect(),
    }
}
