//! The trade-off: every setting by its time and its contention, and the line of those that nothing beats.

use retryguard_report::chart::{Figure, Panel, Piece, ticks};

use crate::search::{Candidate, Found, more};

pub(crate) fn svg(found: &Found, more_time: f64, without: &str) -> String {
    let place = |candidate: &Candidate| {
        (
            more(candidate.total, found.plain.total),
            candidate.contention / found.plain.contention * 100.0,
        )
    };
    let front = front(found.all.iter().map(place).collect());
    // Settings that cost several times what is allowed are not worth the room, nor is room without settings.
    let most = (4.0 * more_time).max(15.0);
    let times = found.all.iter().map(|candidate| place(candidate).0);
    let high = 1.05 * times.filter(|time| *time <= most).fold(more_time, f64::max);
    let (written, tuned) = (place(&found.written), place(&found.tuned));
    let low = front.first().map_or(0.0, |point| point.0).min(0.0);
    let inside = |point: &(f64, f64)| point.0 >= low && point.0 <= high;
    let marks = |points: Vec<(f64, f64)>| -> Vec<Piece> {
        points
            .into_iter()
            .filter(inside)
            .map(|point| vec![point])
            .collect()
    };
    let dots = marks(found.all.iter().map(place).collect());
    let heights = || dots.iter().flatten().map(|point| point.1);
    let (lowest, tallest) = (heights().fold(100.0, f64::min), heights().fold(100.0, f64::max));
    let mut names = vec![
        "a setting".to_owned(),
        "the best for its time".to_owned(),
        "time allowed".to_owned(),
        without.to_owned(),
        "tuned (passes lint)".to_owned(),
    ];
    let mut lines = vec![
        dots,
        vec![front.into_iter().filter(inside).collect()],
        vec![vec![(more_time, lowest), (more_time, tallest)]],
        marks(vec![(0.0, 100.0)]),
        marks(vec![tuned]),
    ];
    names.push(match inside(&written) {
        true => "as written".to_owned(),
        false => format!("as written: off to the right, {:.0} % more time", written.0),
    });
    lines.push(marks(vec![written]));
    Figure {
        title: "Contention against total time, means over the availabilities",
        panels: vec![Panel {
            label: &format!("contention, % of that {without}"),
            x_label: "extra total time, %",
            x_range: (low, high),
            x_ticks: ticks(low, high),
            lines,
        }],
        names,
    }
    .svg_near()
}

/// For each amount of extra time the least contention.
fn front(mut points: Vec<(f64, f64)>) -> Piece {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut least = f64::INFINITY;
    points.retain(|point| {
        let better = point.1 < least;
        least = least.min(point.1);
        better
    });
    points
}
