//! What retries brought.

use retryguard_sim::comparison::Summary;

/// Additional successes for each additional request, against no retries at all.
pub(crate) fn gain(summary: &Summary, none: &Summary) -> Option<f64> {
    let calls = none.mean("calls");
    let more = summary.mean("attempts") - none.mean("attempts");
    // A handful of requests says nothing.
    if more.abs() < 20.0 || calls <= 0.0 {
        return None;
    }
    Some((summary.mean("successRate") - none.mean("successRate")) * calls / more)
}

pub(crate) fn gain_words(gain: Option<f64>) -> String {
    match gain {
        None => "hardly any was sent".to_owned(),
        Some(gain) if gain > 0.05 => format!("brought {gain:.2} successes"),
        Some(gain) if gain < -0.05 => format!("cost {:.2} successes", -gain),
        Some(_) => "brought nothing".to_owned(),
    }
}
