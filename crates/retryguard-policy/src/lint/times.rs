//! Deadlines, timeouts and waits that do not fit into each other.

use std::time::Duration;

use retryguard_core::call;

use super::{
    Severity, Subject, code,
    findings::Findings,
    graph::{Graph, Node},
    line,
};

pub(super) fn judge(subject: &Subject, findings: &mut Findings) {
    let call = &subject.service.target.call;
    let Some(deadline) = call.deadline else {
        let at = subject.line_of(&[line(&subject.all.deadline)]);
        let message =
            "no deadline: a call may wait without end, and keeps its place while it waits".to_owned();
        findings.about(&subject.name, &code::NO_DEADLINE, Severity::Warning, at, message);
        return;
    };
    match call.attempt_timeout {
        None if subject.retries() => {
            let at = subject.line_of(&[line(&subject.all.attempt_timeout)]);
            let message =
                format!("no `attemptTimeout`: one attempt that hangs uses up the deadline of {deadline:?}");
            findings.about(
                &subject.name,
                &code::NO_ATTEMPT_TIMEOUT,
                Severity::Note,
                at,
                message,
            );
            fits(subject, call, deadline, Duration::ZERO, findings);
        }
        None => {}
        Some(timeout) if timeout >= deadline && subject.retries() => {
            let at = subject.line_of(&[line(&subject.all.attempt_timeout)]);
            let message = format!(
                "`attemptTimeout` of {timeout:?} is not below the deadline of {deadline:?}: an attempt that times out \
                 leaves no time for a retry"
            );
            findings.about(
                &subject.name,
                &code::TIMEOUT_AT_DEADLINE,
                Severity::Warning,
                at,
                message,
            );
        }
        Some(timeout) => fits(subject, call, deadline, timeout, findings),
    }
}

/// Whether every retry can begin before the deadline, if each attempt before it took `timeout`.
fn fits(
    subject: &Subject,
    call: &call::Settings,
    deadline: Duration,
    timeout: Duration,
    findings: &mut Findings,
) {
    let needed = before_last(call, timeout).saturating_add(call.least_attempt);
    if !subject.retries() || needed <= deadline {
        return;
    }
    let fitting = (1..=call.retries).take_while(|retries| {
        let shorter = call::Settings {
            retries: *retries,
            ..*call
        };
        before_last(&shorter, timeout).saturating_add(call.least_attempt) <= deadline
    });
    let at = subject.line_of(&[
        line(&subject.all.max_retries),
        line(&subject.all.deadline),
        line(&subject.all.attempt_timeout),
    ]);
    let fit = match fitting.count() {
        0 => "none fits".to_owned(),
        1 => "only 1 fits".to_owned(),
        several => format!("only {several} fit"),
    };
    let message = format!(
        "of {} retries {fit} into the deadline of {deadline:?}: with the longest waits the last would begin after {needed:?}",
        call.retries
    );
    findings.about(&subject.name, &code::DEADLINE, Severity::Warning, at, message);
}

/// When the last retry begins, at the latest.
fn before_last(call: &call::Settings, timeout: Duration) -> Duration {
    (1..=call.retries).fold(Duration::ZERO, |sum, retry| {
        sum.saturating_add(timeout)
            .saturating_add(call.backoff.longest(u32::from(retry)))
    })
}

/// The ladder of timeouts: a service must answer before its caller has gone.
pub(super) fn judge_ladder(graph: &Graph<'_>, findings: &mut Findings) {
    for (from, to) in graph.edges() {
        if let Some(allowed) = time_of_one_attempt(from) {
            rung(from, to, allowed, findings);
        }
    }
}

/// How long the callers of this service wait for one answer.
fn time_of_one_attempt(node: &Node<'_>) -> Option<Duration> {
    let call = &node.subject.service.target.call;
    match (call.attempt_timeout, call.deadline) {
        (Some(timeout), Some(deadline)) => Some(timeout.min(deadline)),
        (timeout, deadline) => timeout.or(deadline),
    }
}

fn rung(from: &Node<'_>, to: &Node<'_>, allowed: Duration, findings: &mut Findings) {
    let call = &to.subject.service.target.call;
    let at = to.subject.line_of(&[
        line(&to.subject.all.attempt_timeout),
        line(&to.subject.all.deadline),
        Some(to.subject.line),
    ]);
    let one = time_of_one_attempt(to);
    if one.is_none_or(|one| one >= allowed) {
        let waits = one.map_or_else(|| "without an end".to_owned(), |one| format!("{one:?}"));
        let message = format!(
            "`{}` waits {waits} for one attempt at `{}`, and its own caller is gone after {allowed:?}",
            from.name, to.name
        );
        findings.add(&code::LADDER, Severity::Warning, at, message);
        return;
    }
    let Some(timeout) = call.attempt_timeout.filter(|_| call.retries > 0) else {
        return;
    };
    let needed = before_last(call, timeout).saturating_add(timeout);
    if needed > allowed {
        let at = to
            .subject
            .line_of(&[line(&to.subject.all.max_retries), Some(to.subject.line)]);
        let message = format!(
            "{} attempts at `{}` can take {needed:?}, and the caller of `{}` is gone after {allowed:?}",
            u32::from(call.retries) + 1,
            to.name,
            from.name
        );
        findings.add(&code::CALLER_TIMEOUT, Severity::Warning, at, message);
    }
}
