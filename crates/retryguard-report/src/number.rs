//! Numbers as people read them.

use retryguard_sim::{comparison::Kind, statistics::Estimate};

/// A number of this kind, without its confidence.
pub(crate) fn plain(value: f64, kind: Kind) -> String {
    match kind {
        Kind::Count => format!("{value:.0}"),
        Kind::Ratio => format!("{value:.3}"),
        Kind::Share => format!("{:.1}%", value * 100.0),
        Kind::Millis if value >= 100.0 => format!("{value:.0}"),
        Kind::Millis => format!("{value:.1}"),
        Kind::Seconds => format!("{value:.0}"),
        Kind::Money if value == 0.0 => "0".to_owned(),
        Kind::Money if value < 0.1 => format!("{value:.5}"),
        Kind::Money => format!("{value:.3}"),
    }
}

/// A mean with its confidence, where there is one and it can be seen.
pub(crate) fn with_confidence(estimate: Option<Estimate>, kind: Kind) -> String {
    let Some(estimate) = estimate else {
        return "–".to_owned();
    };
    let mean = plain(estimate.mean, kind);
    match estimate.half_width.map(|half| plain(half, kind)) {
        Some(half) if half.chars().any(|c| ('1'..='9').contains(&c)) => format!("{mean} ±{half}"),
        _ => mean,
    }
}
