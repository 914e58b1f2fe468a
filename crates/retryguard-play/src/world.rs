//! The world behind the sliders, as a scenario file.

use std::fmt::Write as _;

use serde_json::Value;

/// The service's capacity in calls a second, before anything is lost.
pub(crate) const CAPACITY: f64 = 100.0;

/// How long a run is, and when its fault begins and ends, in seconds.
pub(crate) const LENGTH: u32 = 60;
/// See [`LENGTH`].
pub(crate) const FAULT: (u32, u32) = (15, 30);

/// What the sliders say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct World {
    /// Offered calls, in percent of the capacity.
    load: f64,
    /// The share that fails at random, in percent.
    errors: f64,
    /// Whether these look like overload (503) or like a fault (500).
    overload: bool,
    /// The share of the capacity that the fault takes, in percent.
    lost: f64,
    /// By how much the fault slows the service down.
    slow: f64,
    /// Places to wait for a worker.
    queue: u32,
    /// Clients, each with a state of its own.
    clients: u32,
    /// How long a call may take, in milliseconds.
    deadline: u32,
}

/// A slider: key, least, most, usual.
pub(crate) const SLIDERS: [(&str, f64, f64, f64); 7] = [
    ("load", 10.0, 300.0, 80.0),
    ("errors", 0.0, 90.0, 0.0),
    ("lost", 0.0, 100.0, 80.0),
    ("slow", 1.0, 20.0, 1.0),
    ("queue", 0.0, 1000.0, 100.0),
    ("clients", 1.0, 1000.0, 20.0),
    ("deadline", 100.0, 30_000.0, 2000.0),
];

impl World {
    /// Reads the sliders; what is missing or out of range is brought into it, so that a shared link cannot ask for a world
    /// that takes minutes.
    pub(crate) fn read(value: &Value) -> Self {
        let slider = |key: &str| {
            let (_, least, most, usual) = SLIDERS
                .into_iter()
                .find(|slider| slider.0 == key)
                .unwrap_or(SLIDERS[0]);
            let given = value[key].as_f64().filter(|given| given.is_finite());
            given.unwrap_or(usual).clamp(least, most)
        };
        let whole = |key: &str| -> u32 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "within the slider's range"
            )]
            let whole = slider(key).round() as u32;
            whole
        };
        Self {
            load: slider("load"),
            errors: slider("errors"),
            overload: value["errorKind"].as_str() == Some("overload"),
            lost: slider("lost"),
            slow: slider("slow"),
            queue: whole("queue"),
            clients: whole("clients"),
            deadline: whole("deadline"),
        }
    }

    /// The scenario, with these lines under `policies`.
    pub(crate) fn scenario(&self, policies: &str) -> String {
        let mut out = format!(
            "# From the playground. Run it with `retryguard simulate FILE`.\n\
             claim: A service for {CAPACITY:.0} calls a second meets {:.0} % of that.\n\
             duration: {LENGTH}s\nstep: 1s\nservices:\n  service:\n    workers: 10\n    queue: {}\n    \
             time: {{exponential: 100ms}}\n",
            self.load, self.queue
        );
        if self.errors > 0.0 {
            let kind = if self.overload { "overload" } else { "fault" };
            let _ = writeln!(out, "    errors: {}%\n    errorKind: {kind}", self.errors);
        }
        let _ = writeln!(
            out,
            "clients:\n  people:\n    calls: service\n    rate: {}\n    clients: {}\n    deadline: {}ms",
            self.load * CAPACITY / 100.0,
            self.clients,
            self.deadline
        );
        let (from, until) = FAULT;
        let mut faults = Vec::new();
        if self.lost >= 100.0 {
            faults.push("outage: true".to_owned());
        } else if self.lost > 0.0 {
            faults.push(format!("capacity: {}%", 100.0 - self.lost));
        }
        if self.slow > 1.0 {
            faults.push(format!("slow: {}", self.slow));
        }
        if !faults.is_empty() {
            out.push_str("faults:\n");
        }
        for fault in faults {
            let _ = writeln!(
                out,
                "  - {{service: service, {fault}, from: {from}s, until: {until}s}}"
            );
        }
        let _ = write!(out, "policies:\n{policies}");
        out
    }
}
