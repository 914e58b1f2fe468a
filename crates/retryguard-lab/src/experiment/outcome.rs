use serde::{Deserialize, Serialize};

use super::{Driven, Figures, Phases};
use crate::name::Name;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The configuration's letter.
    pub configuration: String,
    /// The fault's name.
    pub fault: String,
    /// `embedded` or `real`.
    pub stores: String,
    /// The factor on all durations.
    pub scale: f64,
    /// The seed.
    pub seed: u64,
    /// The digest of the policy as it stands in its file.
    pub digest: String,
    /// The times of its parts.
    pub phases: Phases,
    /// The machine's load average when it began.
    pub load_average: f64,
    /// How much later than intended an order was sent at the worst, as it passed, in milliseconds.
    pub worst_lag_ms: f64,
    /// Why the load was not kept, where it was not.
    pub not_kept: Option<String>,
    /// What was measured while the fault lasted; none where the load was not kept.
    pub figures: Option<Figures>,
    /// The time line.
    #[serde(default)]
    pub seconds: Vec<Second>,
}

/// A described second of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Orders that were to be sent in it.
    pub sent: u64,
    /// Those of them that were paid, whenever that was.
    pub paid: u64,
    /// Those of them that were shed.
    pub shed: u64,
    /// Requests that arrived at the service in focus.
    pub arrived: u64,
    /// Whether the breaker towards it was open at the end of the second.
    pub open: bool,
    /// The share of retries towards it that the guard held back then.
    pub held_back: f64,
}

impl Driven {
    /// The time line.
    pub(super) fn seconds(&self, focus: Name) -> Vec<Second> {
        self.samples
            .windows(2)
            .enumerate()
            .map(|(second, pair)| {
                let slice = self.measured.slices.get(second).copied().unwrap_or_default();
                let edge = pair[1].reading.edge(Name::Orders, focus);
                let arrived = |place: usize| pair[place].reading.service(focus).arrived;
                Second {
                    sent: slice.sent,
                    paid: slice.paid,
                    shed: slice.shed,
                    arrived: arrived(1).saturating_sub(arrived(0)),
                    open: edge.is_some_and(|edge| edge.open),
                    held_back: edge.map_or(0.0, |edge| edge.held_back),
                }
            })
            .collect()
    }
}
