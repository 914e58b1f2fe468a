//! The counts as Prometheus reads them, under the names that the described system gives its metrics.

use std::{fmt::Write as _, sync::PoisonError};

use retryguard_core::breaker::State;

use super::{BUCKETS, Counts};
use crate::name::Name;

/// Name, kind and meaning, in the order of the page.
const FAMILIES: [(&str, &str, &str); 13] = [
    (
        "http_requests_total",
        "counter",
        "Requests answered, by route, method and status.",
    ),
    ("request_duration_seconds", "histogram", "How long they took."),
    (
        "downstream_requests_total",
        "counter",
        "Attempts sent to another service.",
    ),
    (
        "downstream_errors_total",
        "counter",
        "Attempts that failed or were given up.",
    ),
    (
        "downstream_calls_total",
        "counter",
        "Calls made to another service; attempts over calls is the amplification of an edge.",
    ),
    ("retry_attempts_total", "counter", "Attempts after the first."),
    (
        "breaker_state",
        "gauge",
        "The breaker towards another service: 0 closed, 1 open, 2 half-open.",
    ),
    (
        "bulkhead_rejections_total",
        "counter",
        "Calls that the bulkhead turned away.",
    ),
    (
        "idempotency_hits_total",
        "counter",
        "Requests that were answered from the store.",
    ),
    (
        "idempotency_conflicts_total",
        "counter",
        "Requests whose key was in use or belonged to another body.",
    ),
    ("outbox_pending", "gauge", "Events that wait in the outbox."),
    (
        "load_shed_total",
        "counter",
        "Requests that the server layer refused.",
    ),
    ("station_waiting", "gauge", "Requests that wait for a worker."),
];

impl Counts {
    /// The page of one service.
    #[must_use]
    pub fn text(&self, name: Name) -> String {
        let mut page = String::new();
        for (family, kind, meaning) in FAMILIES {
            // Writing into a string cannot fail.
            let _ = writeln!(page, "# HELP {family} {meaning}\n# TYPE {family} {kind}");
            self.family(&mut page, name, family);
        }
        page
    }

    fn family(&self, page: &mut String, name: Name, family: &str) {
        let service = self.service(name);
        let mut own = |value: u64| {
            let _ = writeln!(page, "{family}{{service=\"{name}\"}} {value}");
        };
        match family {
            "http_requests_total" => self.answers(page, name),
            "request_duration_seconds" => self.durations(page, name),
            "idempotency_hits_total" => own(service.replayed.get()),
            "idempotency_conflicts_total" => own(service.conflicts.get()),
            "load_shed_total" => own(service.shed.get()),
            "outbox_pending" if name == Name::Orders => own(self.pending()),
            "station_waiting" => {
                if let Some(station) = self.station(name) {
                    own(station.load().waiting as u64);
                }
            }
            _ => self.edges_of(page, name, family),
        }
    }

    fn answers(&self, page: &mut String, name: Name) {
        let answers = &self.service(name).answers;
        for ((route, method, status), count) in &*answers.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(
                page,
                "http_requests_total{{service=\"{name}\",route=\"{route}\",method=\"{method}\",status=\"{status}\"}} {count}"
            );
        }
    }

    fn durations(&self, page: &mut String, name: Name) {
        let service = self.service(name);
        let family = "request_duration_seconds";
        let mut below = 0;
        for (bound, counter) in BUCKETS.iter().zip(&service.buckets) {
            below += counter.get();
            let seconds = *bound as f64 / 1000.0;
            let _ = writeln!(
                page,
                "{family}_bucket{{service=\"{name}\",le=\"{seconds}\"}} {below}"
            );
        }
        let all = service.answered.get().max(below);
        let sum = service.duration_micros.get() as f64 / 1e6;
        let _ = writeln!(
            page,
            "{family}_bucket{{service=\"{name}\",le=\"+Inf\"}} {all}\n{family}_sum{{service=\"{name}\"}} {sum}\n{family}_count{{service=\"{name}\"}} {all}"
        );
    }

    fn edges_of(&self, page: &mut String, name: Name, family: &str) {
        for (_, to, edge) in self.edges().filter(|(from, ..)| *from == name) {
            let value = match family {
                "downstream_requests_total" => edge.attempts.get(),
                "downstream_errors_total" => edge.failures.get(),
                "downstream_calls_total" => edge.calls.get(),
                "retry_attempts_total" => edge.retries.get(),
                "bulkhead_rejections_total" => edge.bulkhead.get(),
                "breaker_state" => match edge.handle().map(|handle| handle.status().breaker) {
                    Some(State::Open) => 1,
                    Some(State::HalfOpen) => 2,
                    Some(State::Closed) | None => 0,
                },
                _ => continue,
            };
            let _ = writeln!(page, "{family}{{service=\"{name}\",downstream=\"{to}\"}} {value}");
        }
    }
}
