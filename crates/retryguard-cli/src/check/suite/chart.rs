//! Two panels of lines as SVG: total time on the left, contention time on the right, over availability.
//!
//! Colours are chosen to be read on light and dark grounds alike; the text takes the reader's own colour scheme.

use std::fmt::Write as _;

use super::Point;

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

const WIDTH: f64 = 860.0;
const PANEL: f64 = 330.0;
const HEIGHT: f64 = 260.0;
const TOP: f64 = 62.0;
const LEFTS: [f64; 2] = [70.0, 490.0];
/// Mid-tones that keep a contrast of three to one on white and on near-black.
const COLOURS: [&str; 8] = [
    "#d1495b", "#2a7fd4", "#2a9d5c", "#b8860b", "#9b5de5", "#e07a1f", "#0f8b8d", "#8d6e63",
];
const DASHES: [&str; 4] = ["none", "7 4", "2 3", "9 3 2 3"];

fn figure(title: &str, shown: &[Series<'_>]) -> String {
    let rows = shown.len().div_ceil(4);
    let legend = TOP + HEIGHT + 58.0;
    let height = legend + 22.0 * rows as f64 + 8.0;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <title>{title}</title>\n\
         <style>\n\
         svg {{ background: #ffffff; }} text {{ fill: #24292f; }} .axis {{ stroke: #57606a; }} .grid {{ stroke: #d8dee4; }}\n\
         @media (prefers-color-scheme: dark) {{ svg {{ background: #0d1117; }} text {{ fill: #e6edf3; }} .axis {{ stroke: #8b949e; }} \
         .grid {{ stroke: #30363d; }} }}\n\
         </style>\n\
         <text x=\"{}\" y=\"22\" font-size=\"15\" font-weight=\"600\" text-anchor=\"middle\">{title}</text>",
        WIDTH / 2.0
    );
    panel(&mut out, LEFTS[0], "expected total time", shown, |p| p.total);
    panel(&mut out, LEFTS[1], "expected contention time", shown, |p| {
        p.contention
    });
    for (place, one) in shown.iter().enumerate() {
        let x = 70.0 + 195.0 * (place % 4) as f64;
        let y = legend + 22.0 * (place / 4) as f64;
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" {}/>\n<text x=\"{}\" y=\"{}\">{}</text>",
            x + 34.0,
            stroke(place),
            x + 42.0,
            y + 4.0,
            one.name
        );
    }
    out.push_str("</svg>\n");
    out
}

fn stroke(place: usize) -> String {
    format!(
        "stroke=\"{}\" stroke-width=\"2.2\" stroke-dasharray=\"{}\" fill=\"none\"",
        COLOURS[place % COLOURS.len()],
        DASHES[place % DASHES.len()]
    )
}

fn panel(out: &mut String, left: f64, label: &str, shown: &[Series<'_>], value: fn(&Point) -> f64) {
    let all = || shown.iter().flat_map(|s| &s.points);
    let highest = all().map(|p| value(p)).fold(0.0, f64::max);
    let step = nice_step(highest / 5.0);
    let top = (highest / step).ceil() * step;
    let lowest = all().map(|p| p.availability).fold(f64::INFINITY, f64::min);
    let x = |availability: f64| left + (availability - lowest) / (1.0 - lowest) * PANEL;
    let y = |v: f64| TOP + HEIGHT - v / top * HEIGHT;
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"48\" text-anchor=\"middle\" font-weight=\"600\">{label}</text>",
        left + PANEL / 2.0
    );
    let mut tick = 0.0;
    while tick <= top + step / 2.0 {
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{left}\" y1=\"{0:.1}\" x2=\"{1}\" y2=\"{0:.1}\"/>\
             <text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{tick}</text>",
            y(tick),
            left + PANEL,
            left - 8.0,
            y(tick) + 4.0
        );
        tick += step;
    }
    let mut tick = lowest;
    while tick < 1.05 {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{tick:.1}</text>",
            x(tick),
            TOP + HEIGHT + 18.0
        );
        tick += 0.1;
    }
    let _ = writeln!(
        out,
        "<line class=\"axis\" x1=\"{left}\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\"/>\
         <text x=\"{2}\" y=\"{3}\" text-anchor=\"middle\">availability of the target service</text>",
        TOP + HEIGHT,
        left + PANEL,
        left + PANEL / 2.0,
        TOP + HEIGHT + 36.0
    );
    for (place, one) in shown.iter().enumerate() {
        let path: Vec<String> = one
            .points
            .iter()
            .map(|p| format!("{:.1},{:.1}", x(p.availability), y(value(p))))
            .collect();
        let _ = writeln!(out, "<polyline points=\"{}\" {}/>", path.join(" "), stroke(place));
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power)
}
