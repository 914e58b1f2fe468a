//! What the operator sees.

use std::fmt::Write as _;

use retryguard_core::{
    Instant,
    guard::{Mode, Settings, State},
};
use serde_json::{Value, json};

use super::{Board, Row, Way};
use crate::actuator::{Held, Wish};

impl Board {
    /// Everything, as JSON. `unix_now` is the wall clock at `now`, so that `since` can be read by people.
    #[must_use]
    pub fn status(&self, now: Instant, unix_now: u64) -> Value {
        let targets: Vec<Value> = self
            .rows
            .iter()
            .map(|row| self.target(row, now, unix_now))
            .collect();
        let actuators: Vec<Value> = self
            .hands
            .iter()
            .map(|hand| {
                json!({
                    "name": hand.name,
                    "changes": hand.changes,
                    "changesFailed": hand.changes_failed,
                    "error": hand.error,
                    "strays": hand.strays.keys().map(crate::target::TargetName::as_str).collect::<Vec<_>>(),
                })
            })
            .collect();
        let sources: Vec<Value> = self
            .feeds
            .iter()
            .map(|(name, feed)| {
                json!({
                    "name": name,
                    "rounds": feed.rounds,
                    "roundsFailed": feed.rounds_failed,
                    "refused": feed.refused,
                    "secondsSinceLastRound": feed.last_round.map(|at| now.since(at).as_secs()),
                    "error": feed.error,
                })
            })
            .collect();
        json!({
            "leads": self.leads(now),
            "term": self.lead.term.map(|term| term.number),
            "leader": self.lead.leader,
            "leadError": self.lead.error,
            "runningSeconds": now.since(self.started).as_secs(),
            "sources": sources,
            "actuators": actuators,
            "targets": targets,
        })
    }

    fn target(&self, row: &Row, now: Instant, unix_now: u64) -> Value {
        let watch = &row.watch;
        let wish = watch.wish();
        let guard = watch.guard().map(retryguard_core::guard::Guard::settings);
        let last = watch.last();
        json!({
            "target": row.name.as_str(),
            "source": row.source,
            "signal": guard.map(|guard| guard.signal.as_str()),
            "value": last.and_then(|seen| seen.value),
            "calls": last.map(|seen| seen.calls),
            "secondsSinceData": last.map(|seen| now.since(seen.at).as_secs()),
            "offAbove": guard.map(|guard| thresholds(guard).0),
            "onBelow": guard.map(|guard| thresholds(guard).1),
            "state": word(wish),
            "share": share(wish),
            "holding": watch.holds(&self.limits, now),
            "reason": watch.why(),
            "since": unix_now.saturating_sub(now.since(watch.since()).as_secs()),
            "actuators": row.ways.iter().map(|way| self.way_status(way)).collect::<Vec<_>>(),
        })
    }

    fn way_status(&self, way: &Way) -> Value {
        let held = match &way.held {
            None => "unknown",
            Some(Held::Ours(wish)) => word(*wish),
            Some(Held::Theirs(_)) => "theirs",
        };
        json!({
            "name": self.hands[way.hand].name,
            "holds": held,
            "losses": way.losses.iter().map(|loss| loss.0.as_str()).collect::<Vec<_>>(),
            "error": way.error,
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
        for row in &self.rows {
            let state = match row.watch.wish() {
                Wish::Original => 0.0,
                Wish::Off => 1.0,
                Wish::Part { .. } => 2.0,
            };
            page.line(
                "retryguard_controller_target_state",
                &[("target", row.name.as_str())],
                state,
            );
        }
        page.family(
            "retryguard_controller_target_share",
            "gauge",
            "The share of retries that is let through, from 0 to 1.",
        );
        for row in &self.rows {
            let labels = [("target", row.name.as_str())];
            page.line(
                "retryguard_controller_target_share",
                &labels,
                share(row.watch.wish()),
            );
        }
        page.family(
            "retryguard_controller_signal",
            "gauge",
            "The last reading of a target's signal.",
        );
        for row in &self.rows {
            let guard = row.watch.guard().map(|guard| guard.settings().signal);
            if let (Some(signal), Some(value)) = (guard, row.watch.last().and_then(|seen| seen.value)) {
                let labels = [("target", row.name.as_str()), ("signal", signal.as_str())];
                page.line("retryguard_controller_signal", &labels, value);
            }
        }
        page.family(
            "retryguard_controller_holding",
            "gauge",
            "1 while a target has no fresh data and its last decision holds.",
        );
        for row in &self.rows {
            let holds = f64::from(u8::from(row.watch.holds(&self.limits, now)));
            page.line(
                "retryguard_controller_holding",
                &[("target", row.name.as_str())],
                holds,
            );
        }
        page.family(
            "retryguard_controller_decisions_total",
            "counter",
            "Changes of a guard's state.",
        );
        for row in &self.rows {
            let labels = [("target", row.name.as_str())];
            page.line(
                "retryguard_controller_decisions_total",
                &labels,
                count(row.decided),
            );
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
        for hand in &self.hands {
            let made = hand.changes - hand.changes_failed;
            for (result, number) in [("made", made), ("failed", hand.changes_failed)] {
                let labels = [("actuator", hand.name), ("result", result)];
                page.line("retryguard_controller_changes_total", &labels, count(number));
            }
        }
        page.family(
            "retryguard_controller_rounds_total",
            "counter",
            "Rounds over a source, by result.",
        );
        for (source, feed) in &self.feeds {
            let read = feed.rounds - feed.rounds_failed;
            for (result, number) in [("read", read), ("failed", feed.rounds_failed)] {
                let labels = [("source", *source), ("result", result)];
                page.line("retryguard_controller_rounds_total", &labels, count(number));
            }
        }
        page.family(
            "retryguard_controller_readings_refused_total",
            "counter",
            "Readings that were left out, by why: stale, missing, nonsense.",
        );
        for (source, feed) in &self.feeds {
            for (reason, number) in &feed.refused {
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
fn word(wish: Wish) -> &'static str {
    match wish {
        Wish::Original => State::On.as_str(),
        Wish::Off => State::Off.as_str(),
        Wish::Part { step, .. } => State::Ramping { step }.as_str(),
    }
}

fn share(wish: Wish) -> f64 {
    match wish {
        Wish::Original => 1.0,
        Wish::Off => 0.0,
        Wish::Part { share, .. } => share.as_f64(),
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
