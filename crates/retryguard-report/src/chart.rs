//! Lines over a common axis as SVG, in one panel or in two side by side.
//!
//! Colours are chosen to be read on light and dark grounds alike; the text takes the reader's own colour scheme.

use std::fmt::Write as _;

/// A picture.
pub struct Figure<'t> {
    /// What stands above it.
    pub title: &'t str,
    /// One or two panels, each with the same lines in the same order.
    pub panels: Vec<Panel<'t>>,
    /// The names of the lines.
    pub names: Vec<String>,
}

/// A pair of axes.
pub struct Panel<'t> {
    /// What the vertical axis measures.
    pub label: &'t str,
    /// What the horizontal axis measures.
    pub x_label: &'t str,
    /// Both ends of the horizontal axis.
    pub x_range: (f64, f64),
    /// Where the horizontal axis is marked, and with what.
    pub x_ticks: Vec<(f64, String)>,
    /// The lines, each in one piece or in several.
    pub lines: Vec<Vec<Piece>>,
}

/// Points that are joined. One alone is a mark.
pub type Piece = Vec<(f64, f64)>;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 260.0;
const TOP: f64 = 62.0;
const LEFT: f64 = 70.0;
/// Mid-tones that keep a contrast of three to one on white and on near-black.
const COLOURS: [&str; 8] = [
    "#d1495b", "#2a7fd4", "#2a9d5c", "#b8860b", "#9b5de5", "#e07a1f", "#0f8b8d", "#8d6e63",
];
const DASHES: [&str; 4] = ["none", "7 4", "2 3", "9 3 2 3"];

impl Figure<'_> {
    /// The picture as the text of an SVG file. Vertical axes begin at zero.
    pub fn svg(&self) -> String {
        self.drawn(false, true)
    }

    /// The same with vertical axes that begin near the lowest point: for values that lie close together, compared with each other rather than
    /// with nothing.
    pub fn svg_near(&self) -> String {
        self.drawn(false, false)
    }

    /// The same with a mark of its own shape on every point of a line: for many lines of few points that run close to each other.
    pub fn svg_with_marks(&self) -> String {
        self.drawn(true, true)
    }

    fn drawn(&self, marks: bool, zero: bool) -> String {
        let rows = self.names.len().div_ceil(4);
        let legend = TOP + HEIGHT + 58.0;
        let height = legend + 22.0 * rows as f64 + 8.0;
        let title = escaped(self.title);
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
        let (lefts, width): (&[f64], f64) = match self.panels.len() {
            0 | 1 => (&[LEFT], 750.0),
            _ => (&[LEFT, 490.0], 330.0),
        };
        for (panel, left) in self.panels.iter().zip(lefts) {
            panel.draw(&mut out, *left, width, marks, zero);
        }
        for (place, name) in self.names.iter().enumerate() {
            let x = LEFT + 195.0 * (place % 4) as f64;
            let y = legend + 22.0 * (place / 4) as f64;
            let pieces = self.panels.first().and_then(|panel| panel.lines.get(place));
            let marked =
                pieces.is_some_and(|line| !line.is_empty() && line.iter().all(|piece| piece.len() == 1));
            let sample = if marked {
                mark(x + 17.0, y, place)
            } else {
                format!(
                    "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" {}/>{}",
                    x + 34.0,
                    stroke(place),
                    if marks {
                        shape(x + 17.0, y, place)
                    } else {
                        String::new()
                    }
                )
            };
            let _ = writeln!(
                out,
                "{sample}\n<text x=\"{}\" y=\"{}\">{}</text>",
                x + 42.0,
                y + 4.0,
                escaped(name)
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

impl Panel<'_> {
    fn draw(&self, out: &mut String, left: f64, width: f64, marks: bool, zero: bool) {
        let all = self.lines.iter().flatten().flatten().map(|(_, y)| *y);
        let highest = all.clone().fold(0.0, f64::max);
        let lowest = match zero {
            true => 0.0,
            false => all.fold(highest, f64::min),
        };
        // Values that are all but equal are not drawn apart.
        let step = nice_step((highest - lowest).max(highest / 100.0) / 5.0);
        let first = (lowest / step).floor();
        let steps = (highest / step).ceil().max(first + 1.0);
        let (from, to) = self.x_range;
        let x = |value: f64| left + (value - from) / (to - from) * width;
        let y = |value: f64| TOP + HEIGHT - (value - first * step) / ((steps - first) * step) * HEIGHT;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"48\" text-anchor=\"middle\" font-weight=\"600\">{}</text>",
            left + width / 2.0,
            escaped(self.label)
        );
        let mut number = first;
        while number <= steps {
            let tick = number * step;
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{left}\" y1=\"{0:.1}\" x2=\"{1}\" y2=\"{0:.1}\"/>\
                 <text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
                y(tick),
                left + width,
                left - 8.0,
                y(tick) + 4.0,
                short(tick)
            );
            number += 1.0;
        }
        for (tick, text) in &self.x_ticks {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                x(*tick),
                TOP + HEIGHT + 18.0,
                escaped(text)
            );
        }
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{left}\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\"/>\
             <text x=\"{2}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>",
            TOP + HEIGHT,
            left + width,
            left + width / 2.0,
            TOP + HEIGHT + 36.0,
            escaped(self.x_label)
        );
        for (place, line) in self.lines.iter().enumerate() {
            for piece in line {
                if let [(at, value)] = piece.as_slice() {
                    let _ = writeln!(out, "{}", mark(x(*at), y(*value), place));
                    continue;
                }
                let path: Vec<String> = piece
                    .iter()
                    .map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)))
                    .collect();
                let _ = writeln!(out, "<polyline points=\"{}\" {}/>", path.join(" "), stroke(place));
                for (at, value) in piece.iter().filter(|_| marks) {
                    let _ = writeln!(out, "{}", shape(x(*at), y(*value), place));
                }
            }
        }
    }
}

fn mark(x: f64, y: f64, place: usize) -> String {
    format!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{}\"/>",
        COLOURS[place % COLOURS.len()]
    )
}

/// Open shapes, so that one does not hide another on the same point.
const SHAPES: [&str; 8] = [
    "M-4,-4H4V4H-4Z",
    "M0,-5L5,4H-5Z",
    "M-5,0A5,5 0 1 0 5,0A5,5 0 1 0 -5,0Z",
    "M0,-6L6,0L0,6L-6,0Z",
    "M-4,-4L4,4M-4,4L4,-4",
    "M0,5L5,-4H-5Z",
    "M-6,0H6M0,-6V6",
    "M-3,-6H3V6H-3Z",
];

fn shape(x: f64, y: f64, place: usize) -> String {
    format!(
        "<path transform=\"translate({x:.1},{y:.1})\" d=\"{}\" stroke=\"{}\" stroke-width=\"1.6\" fill=\"none\"/>",
        SHAPES[place % SHAPES.len()],
        COLOURS[place % COLOURS.len()]
    )
}

fn stroke(place: usize) -> String {
    format!(
        "stroke=\"{}\" stroke-width=\"2.2\" stroke-dasharray=\"{}\" fill=\"none\"",
        COLOURS[place % COLOURS.len()],
        DASHES[place % DASHES.len()]
    )
}

/// A mark without the noise of its last digits.
fn short(tick: f64) -> f64 {
    (tick * 1e9).round() / 1e9
}

/// A text as XML and HTML write it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
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

/// Round numbers between two ends, five or so, as marks of an axis.
#[must_use]
pub fn ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let step = nice_step((high - low) / 6.0);
    let mut all = Vec::new();
    let mut tick = (low / step).ceil() * step;
    while tick <= high {
        // Without the noise of its last digits, nor a minus before nothing.
        let shown = (tick * 1e6).round() / 1e6 + 0.0;
        all.push((tick, shown.to_string()));
        tick += step;
    }
    all
}
