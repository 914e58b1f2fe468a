//! What retries brought.

use retryguard_sim::comparison::Summary;

/// Additional successes for each additional request, against no retries at all; nothing where no more were sent.
pub(crate) fn gain(summary: &Summary, none: &Summary) -> Option<f64> {
    let calls = none.mean("calls");
    let more = summary.mean("attempts") - none.mean("attempts");
    // A handful of requests says nothing.
    if more < 20.0 || calls <= 0.0 {
        return None;
    }
    Some((summary.mean("successRate") - none.mean("successRate")) * calls / more)
}

/// The same in words. Where a policy holds first attempts back, there are none to speak of.
pub(crate) fn gain_words(summary: &Summary, none: Option<&Summary>) -> String {
    let fewer = none.map_or(0.0, |none| {
        1.0 - summary.mean("attempts") / none.mean("attempts").max(1.0)
    });
    match none.and_then(|none| gain(summary, none)) {
        None if fewer > 0.01 => format!("none; {:.0} % fewer", 100.0 * fewer),
        None => "hardly any was sent".to_owned(),
        Some(gain) if gain > 0.05 => format!("brought {gain:.2} successes"),
        Some(gain) if gain < -0.05 => format!("cost {:.2} successes", -gain),
        Some(_) => "brought nothing".to_owned(),
    }
}
