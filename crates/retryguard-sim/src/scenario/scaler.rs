//! The keys of an autoscaler.

use retryguard_policy::reading::{Mistakes, Node};

use super::block::{Block, share};
use crate::world::{Hpa, Limits, Metric, Scaler, TargetTracking};

pub(super) fn scaler(node: &Node, mistakes: &mut Mistakes) -> Option<Scaler> {
    if super::block::is_off(node, "autoscaler", mistakes) {
        return None;
    }
    let mut block = Block::open(node, "autoscaler", mistakes)?;
    let tracking = block.take("targetTracking");
    let hpa = block.take("hpa");
    let at = block.at();
    block.close(mistakes);
    match (tracking, hpa) {
        (Some(node), None) => target_tracking(node, mistakes).map(Scaler::TargetTracking),
        (None, Some(node)) => horizontal(node, mistakes).map(Scaler::Hpa),
        _ => {
            mistakes.add(
                at,
                "no autoscaler, or two",
                "write `targetTracking:` or `hpa:` under it",
            );
            None
        }
    }
}

fn limits(block: &mut Block<'_>, usual: Limits, mistakes: &mut Mistakes) -> Limits {
    let least = block.number("least", 0.0..=1e9, mistakes).unwrap_or(usual.least);
    let most = block.number("most", 0.0..=1e9, mistakes).unwrap_or(usual.most);
    if least > most {
        mistakes.add(block.at(), "`least` is above `most`", "swap them");
    }
    Limits {
        least,
        most: most.max(least),
    }
}

fn target_tracking(node: &Node, mistakes: &mut Mistakes) -> Option<TargetTracking> {
    let mut block = Block::open(node, "targetTracking", mistakes)?;
    let usual = TargetTracking::default();
    let rules = TargetTracking {
        target: block.share("target", mistakes).unwrap_or(usual.target).max(0.01),
        period: block.duration("period", mistakes).unwrap_or(usual.period),
        up_after: block
            .count("upAfter", 1..=1000, mistakes)
            .unwrap_or(usual.up_after),
        down_after: block
            .count("downAfter", 1..=1000, mistakes)
            .unwrap_or(usual.down_after),
        down_margin: block.share("downMargin", mistakes).unwrap_or(usual.down_margin),
        lag: block.duration("lag", mistakes).unwrap_or(usual.lag),
        burst_counts: block.flag("burstCounts", mistakes).unwrap_or(usual.burst_counts),
        early_decreases: block
            .count("earlyDecreases", 0..=1000, mistakes)
            .unwrap_or(usual.early_decreases),
        limits: limits(&mut block, usual.limits, mistakes),
    };
    refuse_no_period(&block, rules.period, mistakes);
    block.close(mistakes);
    Some(rules)
}

fn horizontal(node: &Node, mistakes: &mut Mistakes) -> Option<Hpa> {
    const METRICS: &[(&str, Metric)] = &[
        ("utilisation", Metric::Utilisation),
        ("requestsPerReplica", Metric::RequestsPerReplica),
        ("inFlight", Metric::InFlight),
    ];
    let mut block = Block::open(node, "hpa", mistakes)?;
    let usual = Hpa::default();
    let metric = block.word("metric", METRICS, mistakes).unwrap_or(usual.metric);
    let target = block.take("target").and_then(|node| match metric {
        Metric::Utilisation => share(node, "target", 0.01..=1.0, mistakes),
        _ => super::block::number(node, "target", 0.001..=1e9, mistakes),
    });
    let up_share = block
        .take("upShare")
        .and_then(|node| share(node, "upShare", 0.0..=100.0, mistakes));
    let rules = Hpa {
        metric,
        target: target.unwrap_or(usual.target),
        period: block.duration("period", mistakes).unwrap_or(usual.period),
        tolerance: block.share("tolerance", mistakes).unwrap_or(usual.tolerance),
        up_pods: block
            .count("upPods", 0..=1_000_000, mistakes)
            .unwrap_or(usual.up_pods),
        up_share: up_share.unwrap_or(usual.up_share),
        up_window: block.duration("upWindow", mistakes).unwrap_or(usual.up_window),
        down_share: block.share("downShare", mistakes).unwrap_or(usual.down_share),
        down_window: block
            .duration("downWindow", mistakes)
            .unwrap_or(usual.down_window),
        ready_after: block
            .duration("readyAfter", mistakes)
            .unwrap_or(usual.ready_after),
        limits: limits(&mut block, usual.limits, mistakes),
    };
    refuse_no_period(&block, rules.period, mistakes);
    block.close(mistakes);
    Some(rules)
}

fn refuse_no_period(block: &Block<'_>, period: std::time::Duration, mistakes: &mut Mistakes) {
    if period.as_millis() == 0 {
        mistakes.add(block.at(), "`period` is nothing", "write at least 1ms");
    }
}
