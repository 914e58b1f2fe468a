//! What multiplies along `calls`.

use retryguard_core::budget;

use super::{
    Severity, code,
    findings::Findings,
    graph::{Graph, Node},
    line,
};
use crate::{
    policy::Policy,
    written::{Document, nearest},
};

/// Above this an amplification is an error: an order of magnitude, for which no service keeps capacity.
const TOO_MUCH: u64 = 10;

/// Above this it is worth a warning: a policy of the safe defaults stays below it.
const MUCH: u64 = 4;

/// Judges the paths and gives the amplification of the worst one; that of the defaults where no service is
/// listed, and none where the calls form a cycle.
pub(super) fn judge(
    graph: &Graph<'_>,
    written: &Document,
    policy: &Policy,
    findings: &mut Findings,
) -> Option<u64> {
    let cyclic = cycles(graph, findings);
    let amplification = amplification(graph, written, policy, findings);
    (!cyclic).then_some(amplification)
}

fn amplification(graph: &Graph<'_>, written: &Document, policy: &Policy, findings: &mut Findings) -> u64 {
    unlisted(graph, findings);
    layers(graph, findings);
    let gateway = if policy.gateway_retries {
        1 + u64::from(policy.defaults.target.call.retries)
    } else {
        1
    };
    if gateway > 1 {
        gateway_over_backends(graph, written, policy, findings);
    }
    let alone = gateway * (1 + u64::from(policy.defaults.target.call.retries) + hedges(policy));
    let worst = Worst::of(graph, gateway);
    let known = worst.as_ref().map_or(0, |worst| worst.amplification);
    if alone > MUCH.max(known) {
        let message = format!("one call can become {alone} attempts at any service that is not listed");
        let at = line(&written.defaults).unwrap_or(1);
        let cure = if gateway > 1 {
            "write `gatewayRetries: false`, or lower `maxRetries` of `defaults`"
        } else {
            "lower `maxRetries` of `defaults`, or its hedges"
        };
        findings.cured(
            "defaults",
            &code::AMPLIFICATION,
            severity(alone),
            at,
            message,
            cure.to_owned(),
        );
    }
    let Some(worst) = worst else {
        return alone;
    };
    if worst.amplification > MUCH {
        let last = &graph.nodes[worst.path[worst.path.len() - 1]];
        let at = line(&last.subject.all.max_retries).unwrap_or(last.subject.line);
        let message = worst.message(graph, gateway);
        let cure = worst.cure(graph, gateway);
        findings.cured(
            last.name,
            &code::AMPLIFICATION,
            severity(worst.amplification),
            at,
            message,
            cure,
        );
    }
    worst.amplification
}

fn severity(amplification: u64) -> Severity {
    if amplification > TOO_MUCH {
        Severity::Error
    } else {
        Severity::Warning
    }
}

fn hedges(policy: &Policy) -> u64 {
    policy
        .defaults
        .target
        .hedge
        .map_or(0, |hedge| u64::from(hedge.most))
}

/// The worst path. A service that a cycle leads to stands for itself, because no bound can be given for what
/// arrives at it; the cycle has a finding of its own.
struct Worst {
    amplification: u64,
    path: Vec<usize>,
}

impl Worst {
    fn of(graph: &Graph<'_>, gateway: u64) -> Option<Self> {
        let mut best = vec![(0u64, None); graph.nodes.len()];
        let mut last: Option<usize> = None;
        let order = graph.order();
        let mut ordered = vec![false; graph.nodes.len()];
        for node in &order {
            ordered[*node] = true;
        }
        let cyclic = (0..graph.nodes.len()).filter(|node| !ordered[*node]);
        for node in order.iter().copied().chain(cyclic) {
            let callers = graph.nodes[node].callers.iter();
            let (above, via) = callers
                .filter(|_| ordered[node])
                .map(|caller| (best[*caller].0, Some(*caller)))
                .max_by_key(|(product, _)| *product)
                .unwrap_or((gateway, None));
            let attempts = u64::from(graph.nodes[node].subject.attempts());
            best[node] = (above.saturating_mul(attempts), via);
            if last.is_none_or(|last| best[node].0 > best[last].0) {
                last = Some(node);
            }
        }
        let amplification = best[last?].0;
        let mut path = Vec::new();
        let mut node = last;
        while let Some(here) = node {
            path.push(here);
            node = best[here].1;
        }
        path.reverse();
        Some(Self { amplification, path })
    }

    fn message(&self, graph: &Graph<'_>, gateway: u64) -> String {
        const SHOWN: usize = 8;
        let nodes: Vec<&Node<'_>> = self.path.iter().map(|node| &graph.nodes[*node]).collect();
        let mut factors: Vec<String> = Vec::new();
        if gateway > 1 {
            factors.push(format!("gateway {gateway}"));
        }
        factors.extend(
            nodes
                .iter()
                .map(|node| format!("{} {}", node.name, node.subject.attempts())),
        );
        if factors.len() > SHOWN {
            factors.truncate(SHOWN);
            factors.push("…".to_owned());
        }
        let last = nodes.last().map_or("", |node| node.name);
        let marked = marked(&nodes, gateway).map_or_else(String::new, |marked| {
            format!(
                "; {marked} where every layer runs RetryGuard and the failure is not a timeout, because a failure \
                 that was retried once is not retried above"
            )
        });
        let held = average(&nodes).map_or_else(String::new, |average| {
            format!(
                "; where every layer keeps its budget, all calls together become {average:.2} times as many"
            )
        });
        format!(
            "one call at the edge can become {} attempts at `{last}` ({}){marked}{held}",
            self.amplification,
            factors.join(" × ")
        )
    }

    /// What this path can still do: nothing is advised that the policy does already.
    fn cure(&self, graph: &Graph<'_>, gateway: u64) -> String {
        const SHOWN: usize = 4;
        let nodes: Vec<&Node<'_>> = self.path.iter().map(|node| &graph.nodes[*node]).collect();
        let mut steps = Vec::new();
        if gateway > 1 {
            steps.push("write `gatewayRetries: false`".to_owned());
        }
        let retrying: Vec<&&Node<'_>> = nodes.iter().filter(|node| node.subject.retries()).collect();
        if let Some((lowest, above)) = retrying.split_last() {
            if !above.is_empty() {
                let mut names: Vec<String> = above
                    .iter()
                    .take(SHOWN)
                    .map(|node| format!("`{}`", node.name))
                    .collect();
                if above.len() > SHOWN {
                    names.push(format!("{} more", above.len() - SHOWN));
                }
                steps.push(format!(
                    "retry at one layer only: `maxRetries: 0` on {}",
                    names.join(", ")
                ));
            }
            if lowest.subject.service.target.call.retries > 2 {
                steps.push(format!("write `maxRetries: 2` or less on `{}`", lowest.name));
            }
        }
        let hedged = |node: &&&Node<'_>| node.subject.service.target.hedge.is_some();
        if let Some(node) = nodes.iter().find(hedged) {
            steps.push(format!("write `hedge: off` on `{}`", node.name));
        }
        if steps.is_empty() {
            steps.push("lower `maxRetries` along the path".to_owned());
        }
        steps.join("; ")
    }
}

/// The attempts at the end of a path whose layers pass on a failure that a layer below has retried. Hedges are
/// sent before there is a failure, and `retryRetried` ignores the mark, so that neither has this bound.
fn marked(nodes: &[&Node<'_>], gateway: u64) -> Option<u64> {
    let plain = |node: &&Node<'_>| {
        let target = &node.subject.service.target;
        target.hedge.is_none() && !target.call.retry_retried
    };
    let retrying = nodes.iter().filter(|node| node.subject.retries()).count();
    if retrying < 2 || gateway > 1 || !nodes.iter().all(plain) {
        return None;
    }
    let lowest = nodes.iter().rev().find(|node| node.subject.retries())?;
    Some(u64::from(lowest.subject.attempts()))
}

/// What the budgets let through on average, if every layer has one of a known share.
fn average(nodes: &[&Node<'_>]) -> Option<f64> {
    nodes.iter().try_fold(1.0, |product, node| {
        let share = match node.subject.service.target.budget? {
            budget::Settings::Ratio { ratio, .. } => ratio,
            budget::Settings::Adaptive { most, .. } => most,
            budget::Settings::Quota { .. } => return None,
        };
        let own = 1.0 + share.as_f64();
        Some(product * own.min(f64::from(node.subject.attempts())))
    })
}

/// Whether there is a cycle.
fn cycles(graph: &Graph<'_>, findings: &mut Findings) -> bool {
    let cycles = graph.cycles();
    for cycle in &cycles {
        let mut names: Vec<&str> = cycle.iter().take(8).map(|node| graph.nodes[*node].name).collect();
        names.push(if cycle.len() > 8 { "…" } else { names[0] });
        let subject = graph.nodes[cycle[0]].subject;
        let at = line(&subject.all.calls).unwrap_or(subject.line);
        let message = format!("the calls go round in a circle: {}", names.join(" → "));
        findings.add(&code::CYCLE, Severity::Error, at, message);
    }
    !cycles.is_empty()
}

/// The most unlisted names that are compared with the listed ones: the work grows with the product of both.
const COMPARED: usize = 100;

fn unlisted(graph: &Graph<'_>, findings: &mut Findings) {
    for (index, (from, to)) in graph.edges().filter(|(_, to)| !to.listed).enumerate() {
        let at = line(&from.subject.all.calls).unwrap_or(from.subject.line);
        let meant = (index < COMPARED)
            .then(|| meant(graph, from.name, to.name))
            .flatten();
        let (severity, near) = match meant {
            Some(near) => (
                if near.len().min(to.name.len()) < SHORT {
                    Severity::Note
                } else {
                    Severity::Warning
                },
                format!("; did you mean `{near}`?"),
            ),
            None => (Severity::Note, String::new()),
        };
        let message = format!(
            "calls `{}`, which is not listed and takes the defaults{near}",
            to.name
        );
        findings.about(from.name, &code::UNLISTED, severity, at, message);
    }
}

/// Shorter names are all alike: one letter that differs is a hint, and not a reason to warn.
const SHORT: usize = 4;

/// The listed service that `called` is probably a misspelling of. Names that differ in their digits are meant to differ, and names of
/// one letter always differ.
fn meant<'a>(graph: &Graph<'a>, caller: &str, called: &str) -> Option<&'a str> {
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let own = letters(called);
    let listed = graph
        .nodes
        .iter()
        .filter(|node| node.listed)
        .map(|node| node.name);
    let others = listed.filter(|name| *name != caller && name.len() > 1 && letters(name) != own);
    nearest(called, others).filter(|_| called.len() > 1)
}

/// Two layers of one path that both retry.
fn layers(graph: &Graph<'_>, findings: &mut Findings) {
    for (from, to) in graph.edges() {
        if !(from.subject.retries() && to.subject.retries()) {
            continue;
        }
        let at = line(&from.subject.all.calls).unwrap_or(from.subject.line);
        let (upper, lower) = (from.subject.attempts(), to.subject.attempts());
        let message = format!(
            "calls to `{}` are retried, and so are its own calls to `{}`: {upper} × {lower} attempts",
            from.name, to.name
        );
        findings.add(&code::LAYERS, Severity::Warning, at, message);
        if from.subject.service.target.call.retry_retried {
            let at = from.subject.line_of(&[line(&from.subject.all.retry_retried)]);
            let message = format!(
                "a failure that `{}` has retried at `{}` is retried again above it: {} attempts at `{}` instead of {lower}",
                from.name,
                to.name,
                upper * lower,
                to.name
            );
            findings.add(&code::RETRIED_AGAIN, Severity::Error, at, message);
        }
    }
}

fn gateway_over_backends(graph: &Graph<'_>, written: &Document, policy: &Policy, findings: &mut Findings) {
    let retrying = graph.nodes.iter().filter(|node| node.subject.retries()).count();
    if retrying == 0 && !graph.nodes.is_empty() {
        return;
    }
    let behind = if graph.nodes.is_empty() {
        "every service behind it retries as well".to_owned()
    } else {
        format!(
            "{retrying} of {} services behind it retry as well",
            graph.nodes.len()
        )
    };
    let message = format!(
        "the gateway makes {} attempts, and {behind}: all their attempts are multiplied",
        1 + policy.defaults.target.call.retries
    );
    findings.add(
        &code::GATEWAY,
        Severity::Error,
        line(&written.gateway_retries).unwrap_or(1),
        message,
    );
}
