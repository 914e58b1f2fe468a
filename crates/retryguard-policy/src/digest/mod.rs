//! A name for what a policy says.
//!
//! Every number of the compiled form is written out in a fixed order and hashed. The form is taken apart
//! field by field, so that a field that is added to the machines does not compile until it is in the digest.

mod line;
mod parts;

use sha2::{Digest, Sha256};

use crate::policy::{EXEMPT, FULL_TIMEOUT, Policy, Service, Trust};
use line::Lines;

/// Hexadecimal digits of a digest. Half of the hash: enough to tell all policies of the world apart, and short
/// enough for a label.
const DIGITS: usize = 32;

pub(crate) fn of(policy: &Policy) -> String {
    let Policy {
        defaults,
        services,
        gateway_retries,
        remote_period,
        digest: _,
    } = policy;
    let mut lines = Lines::default();
    lines.add("gatewayRetries", gateway_retries);
    lines.span("remotePeriod", *remote_period);
    service(&mut lines, defaults);
    for (name, own) in services {
        lines.add("service", format!("{name:?}"));
        service(&mut lines, own);
    }
    let hash = Sha256::digest(lines.text().as_bytes());
    let mut hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(DIGITS);
    hex
}

fn service(lines: &mut Lines, service: &Service) {
    let Service {
        name: _,
        target,
        classifier,
        idempotency,
        replay_limit,
        criticality,
        period,
        server,
        server_deadline,
        server_full_timeout,
        tags,
        body_timeout,
        server_trust,
        server_holds_bodies,
        server_exempt,
        calls,
    } = service;
    parts::target(lines, target);
    parts::classifier(lines, classifier);
    parts::idempotency(lines, idempotency);
    lines.add("replayLimit", replay_limit);
    lines.add("criticality", criticality);
    lines.maybe_span("period", *period);
    parts::server(lines, *server);
    lines.maybe_span("serverDeadline", *server_deadline);
    lines.list("calls", calls);
    // Only where they are not the defaults: a policy without these keys keeps the name under which it was measured.
    if !tags {
        lines.add("tags", tags);
    }
    if *body_timeout != target.call.attempt_timeout.or(target.call.deadline) {
        lines.maybe_span("bodyTimeout", *body_timeout);
    }
    if *server_full_timeout != Some(FULL_TIMEOUT) {
        lines.maybe_span("serverFullTimeout", *server_full_timeout);
    }
    if *server_trust != Trust::default() {
        lines.add("serverTrust", format_args!("{server_trust:?}"));
    }
    if !server_holds_bodies {
        lines.add("serverHoldsBodies", server_holds_bodies);
    }
    if *server_exempt != EXEMPT {
        lines.list("serverExempt", server_exempt);
    }
}
