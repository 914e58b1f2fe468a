//! What the operator sees.

use std::fmt::Write as _;

use retryguard_core::{
    Instant,
    guard::{Mode, Settings, State},
};
use serde_json::{Value, json};

use crate::domain::state::{Observed, RetryState};
use crate::reconcile::reconciler::{Binding, ManagedTarget, Reconciler};

impl Reconciler {
    /// Everything, as JSON. `unix_now` is the wall clock at `now`, so that `since` can be read by people.
    #[must_use]
    pub fn status(&self, now: Instant, unix_now: u64) -> Value {
        let targets: Vec<Value> = self
            .targets
            .iter()
            .map(|target_entry| self.target(target_entry, now, unix_now))
            .collect();
        let actuators: Vec<Value> = self
            .actuators
            .iter()
            .map(|actuator| {
                json!({
                    "name": actuator.name,
                    "changes": actuator.changes,
                    "changesFailed": actuator.changes_failed,
                    "error": actuator.error,
                    "strays": actuator.orphans.keys().map(crate::domain::target::TargetName::as_str).collect::<Vec<_>>(),
                })
            })
            .collect();
        let sources: Vec<Value> = self
            .sources
            .iter()
            .map(|(name, source_state)| {
                json!({
                    "name": name,
                    "rounds": source_state.rounds,
                    "roundsFailed": source_state.rounds_failed,
                    "refused": source_state.refused,
                    "secondsSinceLastRound": source_state.last_round.map(|at| now.since(at).as_secs()),
                    "error": source_state.error,
                })
            })
            .collect();
        json!({
            "leads": self.leads(now),
            "term": self.election.term.map(|term| term.number),
            "leader": self.election.leader,
            "leadError": self.election.error,
            "runningSeconds": now.since(self.started).as_secs(),
            "sources": sources,
            "actuators": actuators,
            "targets": targets,
        })
    }

    fn target(&self, target_entry: &ManagedTarget, now: Instant, unix_now: u64) -> Value {
        let guard = &target_entry.guard;
        let desired = guard.desired();
        let settings = guard.guard().map(retryguard_core::guard::Guard::settings);
        let last = guard.last();
        json!({
            "target": target_entry.name.as_str(),
            "source": target_entry.source,
            "signal": settings.map(|settings| settings.signal.as_str()),
            "value": last.and_then(|seen| seen.value),
            "calls": last.map(|seen| seen.calls),
            "secondsSinceData": last.map(|seen| now.since(seen.at).as_secs()),
            "offAbove": settings.map(|settings| thresholds(settings).0),
            "onBelow": settings.map(|settings| thresholds(settings).1),
            "state": word(desired),
            "share": share(desired),
            "gain": guard.gain().map(|gain| json!({"value": gain.value, "error": gain.error})),
            "holding": guard.holds(&self.limits, now),
            "reason": guard.reason(),
            "since": unix_now.saturating_sub(now.since(guard.since()).as_secs()),
            "actuators": target_entry.bindings.iter().map(|binding| self.binding_status(binding)).collect::<Vec<_>>(),
        })
    }

    fn binding_status(&self, binding: &Binding) -> Value {
        let held = match &binding.held {
            None => "unknown",
            Some(Observed::Managed(desired)) => word(*desired),
            Some(Observed::Overridden(_)) => "theirs",
        };
        json!({
            "name": self.actuators[binding.actuator].name,
            "holds": held,
            "losses": binding.losses.iter().map(|loss| loss.0.as_str()).collect::<Vec<_>>(),
            "error": binding.error,
        })
    }

    /// The same numbers in Prometheus' text format.
    #[must_use]
    pub fn metrics(&self, now: Instant) -> String {
        let mut page = Page::default();
        page.family(
            "retryguard_controller_leads",
            "gauge",
            "1 while this controller acts.",
        );
        page.line(
            "retryguard_controller_leads",
            &[],
            f64::from(u8::from(self.leads(now))),
        );
        page.family(
            "retryguard_controller_target_state",
            "gauge",
            "0 on, 1 off, 2 ramping.",
        );
        for target_entry in &self.targets {
            let state = match target_entry.guard.desired() {
                RetryState::Original => 0.0,
                RetryState::Off => 1.0,
                RetryState::Part { .. } => 2.0,
            };
            page.line(
                "retryguard_controller_target_state",
                &[("target", target_entry.name.as_str())],
                state,
            );
        }
        page.family(
            "retryguard_controller_target_share",
            "gauge",
            "The share of retries that is let through, from 0 to 1.",
        );
        for target_entry in &self.targets {
            let labels = [("target", target_entry.name.as_str())];
            page.line(
                "retryguard_controller_target_share",
                &labels,
                share(target_entry.guard.desired()),
            );
        }
        page.family(
            "retryguard_controller_signal",
            "gauge",
            "The last reading of a target's signal.",
        );
        for target_entry in &self.targets {
            let guard = target_entry.guard.guard().map(|guard| guard.settings().signal);
            if let (Some(signal), Some(value)) =
                (guard, target_entry.guard.last().and_then(|seen| seen.value))
            {
                let labels = [
                    ("target", target_entry.name.as_str()),
                    ("signal", signal.as_str()),
                ];
                page.line("retryguard_controller_signal", &labels, value);
            }
        }
        page.family(
            "retryguard_controller_holding",
            "gauge",
            "1 while a target has no fresh data and its last decision holds.",
        );
        for target_entry in &self.targets {
            let holds = f64::from(u8::from(target_entry.guard.holds(&self.limits, now)));
            page.line(
                "retryguard_controller_holding",
                &[("target", target_entry.name.as_str())],
                holds,
            );
        }
        page.family(
            "retryguard_controller_blind",
            "gauge",
            "1 while this controller leads and a target has had no fresh data for longer than a decision holds.",
        );
        for target_entry in &self.targets {
            let blind = self.leads(now) && target_entry.guard.is_blind(&self.limits, now);
            page.line(
                "retryguard_controller_blind",
                &[("target", target_entry.name.as_str())],
                f64::from(u8::from(blind)),
            );
        }
        page.family(
            "retryguard_controller_decisions_total",
            "counter",
            "Changes of a target's desired state, by the new state and by why: above, below, quiet, productive, unproductive, measure, test, recovered, no-data, other.",
        );
        for target in &self.targets {
            for ((to, reason), number) in &target.decided {
                let labels = [("target", target.name.as_str()), ("to", *to), ("reason", *reason)];
                page.line("retryguard_controller_decisions_total", &labels, count(*number));
            }
        }
        self.parts(&mut page);
        page.text
    }

    fn parts(&self, page: &mut Page) {
        page.family(
            "retryguard_controller_changes_total",
            "counter",
            "Changes asked of an actuator, by result.",
        );
        for actuator in &self.actuators {
            let made = actuator.changes - actuator.changes_failed;
            for (result, number) in [("made", made), ("failed", actuator.changes_failed)] {
                let labels = [("actuator", actuator.name), ("result", result)];
                page.line("retryguard_controller_changes_total", &labels, count(number));
            }
        }
        page.family(
            "retryguard_controller_rounds_total",
            "counter",
            "Rounds over a source, by result.",
        );
        for (source, source_state) in &self.sources {
            let read = source_state.rounds - source_state.rounds_failed;
            for (result, number) in [("read", read), ("failed", source_state.rounds_failed)] {
                let labels = [("source", *source), ("result", result)];
                page.line("retryguard_controller_rounds_total", &labels, count(number));
            }
        }
        page.family(
            "retryguard_controller_readings_refused_total",
            "counter",
            "Readings that were left out, by why: stale, missing, nonsense.",
        );
        for (source, source_state) in &self.sources {
            for (reason, number) in &source_state.refused {
                let labels = [("source", *source), ("reason", *reason)];
                page.line(
                    "retryguard_controller_readings_refused_total",
                    &labels,
                    count(*number),
                );
            }
        }
    }
}

/// The word used in the status: as the guard's states.
fn word(desired: RetryState) -> &'static str {
    match desired {
        RetryState::Original => State::On.as_str(),
        RetryState::Off => State::Off.as_str(),
        RetryState::Part { step, .. } => State::Ramping { step }.as_str(),
    }
}

fn share(desired: RetryState) -> f64 {
    match desired {
        RetryState::Original => 1.0,
        RetryState::Off => 0.0,
        RetryState::Part { share, .. } => share.as_f64(),
    }
}

fn thresholds(guard: &Settings) -> (f64, f64) {
    match guard.mode {
        Mode::Algorithm1 { threshold, .. } => (threshold.as_f64(), threshold.as_f64()),
        Mode::Hysteresis(rules) => (rules.off_above.as_f64(), rules.on_below.as_f64()),
        // A mode that this page does not know shows no threshold rather than a wrong one.
        _ => (f64::NAN, f64::NAN),
    }
}

fn count(number: u64) -> f64 {
    number as f64
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{open}{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
