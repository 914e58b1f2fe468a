//! The tournament as a field of colours: a row for each world, a column for each policy.

use std::fmt::Write as _;

use retryguard_sim::tournament::Tournament;

use crate::chart::escaped;

const LEFT: f64 = 210.0;
const TOP: f64 = 148.0;
const WIDTH: f64 = 50.0;
const HEIGHT: f64 = 21.0;

/// Mid-tones on which the same dark numbers can be read, on white and on near-black pages: from half of what
/// could be had, over nine tenths, to all of it.
const STOPS: [(f64, [f64; 3]); 3] = [
    (0.5, [226.0, 104.0, 110.0]),
    (0.9, [236.0, 200.0, 106.0]),
    (1.0, [82.0, 178.0, 124.0]),
];

pub(super) fn heat_map(title: &str, tournament: &Tournament) -> String {
    let width = LEFT + WIDTH * tournament.policies.len() as f64 + 40.0;
    let height = TOP + HEIGHT * tournament.rows.len() as f64 + 44.0;
    let title = escaped(title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{title}</title>\n<style>\n\
         svg {{ background: #ffffff; }} text {{ fill: #24292f; }} .cell {{ fill: #1b1f24; }}\n\
         @media (prefers-color-scheme: dark) {{ svg {{ background: #0d1117; }} text {{ fill: #e6edf3; }} \
         .cell {{ fill: #1b1f24; }} }}\n</style>\n\
         <text x=\"16\" y=\"24\" font-size=\"15\" font-weight=\"600\">{title}</text>\n"
    );
    for (place, name) in tournament.policies.iter().enumerate() {
        let x = LEFT + WIDTH * (place as f64 + 0.5);
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{0}\" transform=\"rotate(-45 {x} {0})\">{1}</text>",
            TOP - 8.0,
            escaped(name)
        );
    }
    for (number, row) in tournament.rows.iter().enumerate() {
        let y = TOP + HEIGHT * number as f64;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 15.0,
            escaped(&row.world)
        );
        for (place, score) in row.scores.iter().enumerate() {
            let x = LEFT + WIDTH * place as f64;
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\
                 <text class=\"cell\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.0}</text>",
                WIDTH - 1.0,
                HEIGHT - 1.0,
                colour(score.goodput),
                x + WIDTH / 2.0,
                y + 15.0,
                100.0 * score.goodput
            );
        }
    }
    let y = TOP + HEIGHT * tournament.rows.len() as f64 + 12.0;
    for (place, share) in [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0].into_iter().enumerate() {
        let x = LEFT + WIDTH * place as f64;
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"{}\"/>\
             <text class=\"cell\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.0}</text>",
            colour(share),
            x + WIDTH / 2.0,
            y + 15.0,
            100.0 * share
        );
    }
    out.push_str("</svg>\n");
    out
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a channel of a colour lies between 0 and 255"
)]
fn colour(share: f64) -> String {
    let share = share.clamp(STOPS[0].0, STOPS[2].0);
    let (low, high) = if share < STOPS[1].0 {
        (STOPS[0], STOPS[1])
    } else {
        (STOPS[1], STOPS[2])
    };
    let part = (share - low.0) / (high.0 - low.0);
    let channel = |index: usize| (part * (high.1[index] - low.1[index]) + low.1[index]).round() as u8;
    format!("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2))
}
