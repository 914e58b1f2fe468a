//! What is wrong with a service by itself: its failures, its waits, its parts.

use retryguard_core::{Ratio, backoff::Jitter, breaker::Trip, budget, gate::Scope};
use std::time::Duration;

use super::{Severity, Subject, code, findings::Findings, line};
use crate::{
    compile::value,
    written::{List, Switch},
};

/// A factor below this leaves clients that failed together close together.
const LITTLE_JITTER: Ratio = Ratio::percent(10);

/// A cap above this is longer than callers wait.
const NO_CAP: Duration = Duration::from_secs(60);

/// The methods that RFC 9110 calls neither safe nor idempotent.
const NOT_IDEMPOTENT: [&str; 3] = ["POST", "PATCH", "CONNECT"];

pub(super) fn judge(subject: &Subject, findings: &mut Findings) {
    if subject.retries() {
        jitter(subject, findings);
        cap(subject, findings);
        client_errors(subject, findings);
        twice(subject, findings);
        switches(subject, findings);
        retried_again(subject, findings);
    }
    breaker(subject, findings);
    hedge(subject, findings);
    gate(subject, findings);
}

fn jitter(subject: &Subject, findings: &mut Findings) {
    let at = subject.line_of(&[line(&subject.all.jitter_factor), line(&subject.all.jitter)]);
    let (severity, message) = match subject.service.target.call.backoff.jitter {
        Jitter::None => (
            Severity::Error,
            "retries wait without jitter, so all that failed together return together",
        ),
        Jitter::Factor { high, .. } if high.parts() - Ratio::PARTS < LITTLE_JITTER.parts() => (
            Severity::Warning,
            "jitter of less than a tenth leaves those that failed together close together",
        ),
        _ => return,
    };
    findings.about(&subject.name, &code::JITTER, severity, at, message.to_owned());
}

fn cap(subject: &Subject, findings: &mut Findings) {
    let call = &subject.service.target.call;
    let at = subject.line_of(&[line(&subject.all.max_delay)]);
    let longest = call.backoff.longest(u32::from(call.retries));
    if longest > NO_CAP && call.backoff.stop_beyond.is_none() {
        let message =
            format!("the last retry waits up to {longest:.0?}, which bounds nothing that a caller waits for");
        findings.about(&subject.name, &code::CAP, Severity::Warning, at, message);
    }
    if subject.own.max_delay.is_some() {
        unreached(subject, findings, at);
    }
}

/// Only where the service itself writes the cap: one that it inherits may well be meant for others.
fn unreached(subject: &Subject, findings: &mut Findings, at: u32) {
    let call = &subject.service.target.call;
    let uncapped = retryguard_core::Backoff {
        cap: Duration::MAX,
        jitter: Jitter::None,
        ..call.backoff
    };
    let reached = uncapped.longest(u32::from(call.retries));
    if reached < call.backoff.cap && call.backoff.jitter != Jitter::Decorrelated {
        let retries = match call.retries {
            1 => "the only retry".to_owned(),
            retries => format!("the last of {retries} retries"),
        };
        let message = format!(
            "`maxDelay` of {:?} is never reached: {retries} waits {reached:?}",
            call.backoff.cap
        );
        findings.about(&subject.name, &code::CAP_UNREACHED, Severity::Note, at, message);
    }
}

fn client_errors(subject: &Subject, findings: &mut Findings) {
    let Some(list) = &subject.all.retry_on else {
        return;
    };
    for entry in list.value.0.iter().filter(|entry| entry.value.is_hopeless()) {
        let signal = entry.value;
        let message = format!(
            "retries on {signal}, which another attempt cannot help: the same request will fail again"
        );
        // A single status can have a reason of its own (a lock that is soon free); all of them cannot.
        let severity = if signal.is_single() {
            Severity::Warning
        } else {
            Severity::Error
        };
        findings.about(
            &subject.name,
            &code::CLIENT_ERROR,
            severity,
            entry.at.line,
            message,
        );
    }
}

fn twice(subject: &Subject, findings: &mut Findings) {
    let idempotency = &subject.service.idempotency;
    if idempotency.add_keys {
        return;
    }
    if idempotency.retry_non_idempotent {
        let at = subject.line_of(&[line(&subject.all.retry_non_idempotent)]);
        let message = "requests that must not be done twice are retried without a key".to_owned();
        findings.about(&subject.name, &code::TWICE, Severity::Error, at, message);
    }
    let written = value(&subject.all.idempotency).and_then(|written| written.methods.as_ref());
    let methods = written.map(|methods| &methods.value);
    for entry in methods.map_or(&[][..], |List(entries)| entries) {
        if NOT_IDEMPOTENT.contains(&entry.value.0.as_str()) {
            let message = format!(
                "{} is listed as idempotent, and is retried without a key",
                entry.value.0
            );
            findings.about(
                &subject.name,
                &code::TWICE,
                Severity::Error,
                entry.at.line,
                message,
            );
        }
    }
}

/// What bounds the sum of all retries, and is switched off or bounds nothing.
fn switches(subject: &Subject, findings: &mut Findings) {
    let target = &subject.service.target;
    let budget_line = subject.line_of(&[line(&subject.all.budget)]);
    match target.budget {
        None => {
            let message = format!(
                "no budget: when everything fails, the target gets {} times its load",
                subject.attempts()
            );
            findings.about(
                &subject.name,
                &code::NO_BUDGET,
                Severity::Error,
                budget_line,
                message,
            );
        }
        Some(budget::Settings::Ratio { ratio, .. } | budget::Settings::Adaptive { most: ratio, .. })
            if ratio >= Ratio::ONE =>
        {
            let written = value(&subject.all.budget).and_then(Switch::on);
            let at = written.and_then(|budget| line(&budget.percent).or(line(&budget.max_percent)));
            let message = format!("a budget of {ratio} lets an outage double the load and more");
            let at = at.unwrap_or(budget_line);
            findings.about(&subject.name, &code::WIDE_BUDGET, Severity::Warning, at, message);
        }
        Some(_) => {}
    }
    if target.guard.is_none() {
        let at = subject.line_of(&[line(&subject.all.guard)]);
        let message = "no guard: retries go on while they are what overloads the target".to_owned();
        findings.about(&subject.name, &code::NO_GUARD, Severity::Warning, at, message);
    }
}

fn retried_again(subject: &Subject, findings: &mut Findings) {
    if subject.service.target.call.retry_retried && subject.service.calls.is_empty() {
        let at = subject.line_of(&[line(&subject.all.retry_retried)]);
        let message = format!(
            "failures that a layer below has retried are retried again: {} times the attempts of that layer",
            subject.attempts()
        );
        findings.about(
            &subject.name,
            &code::RETRIED_AGAIN,
            Severity::Warning,
            at,
            message,
        );
    }
}

fn breaker(subject: &Subject, findings: &mut Findings) {
    let Some(breaker) = subject.service.target.breaker else {
        return;
    };
    let attempts = subject.attempts();
    let (needed, what) = match breaker.trip {
        Trip::Consecutive(failures) | Trip::Silence(failures) => (failures, "failures in a row"),
        Trip::Count { failures, .. } => (failures, "failures"),
        Trip::Rate { minimum_calls, .. } => (minimum_calls, "calls"),
    };
    if attempts >= needed {
        let written = value(&subject.all.breaker).and_then(Switch::on);
        let at = written.and_then(|breaker| line(&breaker.failures).or(line(&breaker.minimum_calls)));
        let message = format!(
            "the breaker opens after {needed} {what}, and one call alone makes {attempts} attempts: a single bad \
             request can block all others"
        );
        let at = at.unwrap_or_else(|| {
            subject.line_of(&[line(&subject.all.max_retries), line(&subject.all.breaker)])
        });
        findings.about(
            &subject.name,
            &code::BREAKER_BURST,
            Severity::Warning,
            at,
            message,
        );
    }
}

fn hedge(subject: &Subject, findings: &mut Findings) {
    let target = &subject.service.target;
    if let (Some(hedge), None) = (target.hedge, target.budget) {
        let at = subject.line_of(&[line(&subject.all.hedge)]);
        let message = format!(
            "hedges without a budget: a target that has become slow gets {} times its load",
            1 + u32::from(hedge.most)
        );
        findings.about(&subject.name, &code::HEDGE_BUDGET, Severity::Error, at, message);
    }
}

fn gate(subject: &Subject, findings: &mut Findings) {
    if subject.service.target.gate.scope == Scope::Call {
        let scope = value(&subject.all.gate).and_then(|gate| line(&gate.scope));
        let message = "a Retry-After holds back only the call that met it; all the others go on".to_owned();
        findings.about(
            &subject.name,
            &code::GATE,
            Severity::Warning,
            subject.line_of(&[scope]),
            message,
        );
    }
}
