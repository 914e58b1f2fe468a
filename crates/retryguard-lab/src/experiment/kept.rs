//! Whether a run offered the load that it says, on a machine that can carry it.

use std::time::Duration;

use crate::{load::Measurements, scale::TimeScale};

/// While nothing is broken an order is 120 ms of work. A machine on which half of them take longer than this, as described,
/// is busy with other things, and what it shows under a fault would be its own slowness.
const CALM: Duration = Duration::from_millis(600);

/// While nothing is broken, this share of the orders is paid at the least.
const CALM_SUCCESS: f64 = 0.98;

/// Why a run says nothing about the system; none where it does.
pub(super) fn why_not(measured: &Measurements, scale: TimeScale) -> Option<String> {
    if !measured.kept {
        return Some(format!(
            "an order was sent {} ms late",
            measured.worst_lag.as_millis()
        ));
    }
    if measured.before.is_empty() {
        return None;
    }
    let median = scale.described(Duration::from_micros(measured.before.value_at_percentile(50.0)));
    if median > CALM {
        return Some(format!(
            "before the fault half of the orders took {} ms or more",
            median.as_millis()
        ));
    }
    let (sent, paid) = (measured.before.len(), measured.paid_before);
    if (paid as f64) < CALM_SUCCESS * sent as f64 {
        return Some(format!("before the fault {paid} of {sent} orders were paid"));
    }
    None
}
