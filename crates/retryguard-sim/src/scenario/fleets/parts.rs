//! The parts of a fleet: how it retries, when it fails, what is expected of it and what is shown.

use std::time::Duration;

use retryguard_core::{
    Backoff, Instant, Ratio,
    backoff::{Growth, Jitter},
    time::nanos,
};
use retryguard_policy::reading::{Body, Mistakes, Node, wrong};

use super::{Block, Claim, Failures, FleetDefaults, number};

/// The bounds of a factor that jitters; those of the slides unless others are given.
pub(super) fn factor(block: &mut Block<'_>, mistakes: &mut Mistakes) -> (Ratio, Ratio) {
    let usual = (Ratio::percent(50), Ratio::percent(150));
    let Some(node) = block.take("factor") else {
        return usual;
    };
    if let Body::List(items) = &node.body
        && let [low, high] = items.as_slice()
    {
        let mut ratio = |node| number(node, "factor", 0.0..=1000.0, mistakes).and_then(Ratio::from_f64);
        if let (Some(low), Some(high)) = (ratio(low), ratio(high)) {
            if low > Ratio::ZERO && low < high {
                return (low, high);
            }
            mistakes.add(
                node.at,
                "a factor that runs backwards or reaches zero",
                "write the smaller one first, above 0",
            );
        }
    } else {
        wrong(node, "factor", "two numbers, such as [0.5, 1.5]", mistakes);
    }
    usual
}

pub(super) fn retry(node: &Node, mistakes: &mut Mistakes) -> Option<Backoff> {
    let mut block = Block::open(node, "retry", mistakes)?;
    let delay = block
        .need("delay", "the first wait, such as 10s", mistakes)
        .is_some();
    let initial = block.duration("delay", mistakes);
    let multiplier = block.number("multiplier", 1.0..=100.0, mistakes).unwrap_or(1.0);
    let cap = block.duration("cap", mistakes);
    let stop_beyond = block.duration("stopBeyond", mistakes);
    let (low, high) = factor(&mut block, mistakes);
    let jitters = [
        ("none", Jitter::None),
        ("factor", Jitter::Factor { low, high }),
        ("full", Jitter::Full),
        ("equal", Jitter::Equal),
        ("decorrelated", Jitter::Decorrelated),
    ];
    let jitter = block.word("jitter", &jitters, mistakes).unwrap_or(Jitter::None);
    let at = block.at();
    block.close(mistakes);
    let initial = initial.filter(|_| delay)?;
    if initial < Duration::from_millis(1) {
        mistakes.add(at, "retries without a wait", "write a `delay` of at least 1ms");
        return None;
    }
    let growth = if multiplier > 1.0 {
        Growth::Exponential(Ratio::from_f64(multiplier)?)
    } else {
        Growth::Constant
    };
    Some(Backoff {
        growth,
        initial,
        cap: cap.unwrap_or(FOR_EVER),
        jitter,
        stop_beyond,
    })
}

/// Longer than any run.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

pub(super) fn failures(node: &Node, mistakes: &mut Mistakes) -> Vec<Failures> {
    items(
        node,
        "failures",
        "a list, each entry with `share`, `from` and `until`",
        mistakes,
    )
    .iter()
    .filter_map(|item| {
        let mut block = Block::open(item, "failures", mistakes)?;
        let share = block.need("share", "the share of requests that fail, such as 25%", mistakes);
        let share = share.and_then(|_| block.share("share", mistakes));
        let from = block.duration("from", mistakes).unwrap_or_default();
        let until = block.duration("until", mistakes);
        block.close(mistakes);
        Some(Failures {
            from: Instant::ZERO.after(from),
            until: until.map_or(Instant::NEVER, |until| Instant::ZERO.after(until)),
            share: share?,
        })
    })
    .collect()
}

pub(super) fn expectations(node: &Node, mistakes: &mut Mistakes) -> Vec<Claim> {
    items(
        node,
        "expect",
        "a list, each entry with `from`, `until`, `rate` and `within`",
        mistakes,
    )
    .iter()
    .filter_map(|item| {
        let mut block = Block::open(item, "expect", mistakes)?;
        let from = block.duration("from", mistakes).unwrap_or_default();
        let until = block.duration("until", mistakes);
        let rate = block.number("rate", 0.0..=1e9, mistakes);
        let within = block.number("within", 0.0..=1e9, mistakes);
        let at = block.at();
        block.close(mistakes);
        let (Some(until), Some(rate), Some(within)) = (until, rate, within) else {
            mistakes.add(at, "half an expectation", "write `until`, `rate` and `within`");
            return None;
        };
        if until <= from {
            mistakes.add(at, "an expectation of no time", "let `from` come before `until`");
        }
        Some(Claim {
            from: Instant::ZERO.after(from),
            until: Instant::ZERO.after(until),
            rate,
            within,
        })
    })
    .collect()
}

pub(super) fn shown(
    block: &mut Block<'_>,
    usual: FleetDefaults,
    mistakes: &mut Mistakes,
) -> ((Instant, Instant), Duration) {
    let whole = (Instant::ZERO, Instant::ZERO.after(usual.duration));
    let Some(mut inner) = block
        .take("plot")
        .and_then(|node| Block::open(node, "plot", mistakes))
    else {
        return (whole, usual.step);
    };
    let from = inner.duration("from", mistakes).unwrap_or_default();
    let until = inner.duration("until", mistakes).unwrap_or(usual.duration);
    let step = inner.duration("step", mistakes).unwrap_or(usual.step);
    let at = inner.at();
    inner.close(mistakes);
    if step < usual.step || !nanos(step).is_multiple_of(nanos(usual.step)) {
        mistakes.add(
            at,
            "a plot finer than the steps of the fleet",
            "write a multiple of `step`",
        );
    }
    if until <= from {
        mistakes.add(at, "a plot of no time", "let `from` come before `until`");
    }
    let shown = (
        Instant::ZERO.after(from),
        Instant::ZERO.after(until.min(usual.duration)),
    );
    (shown, step)
}

pub(super) fn items<'n>(node: &'n Node, key: &str, wanted: &str, mistakes: &mut Mistakes) -> &'n [Node] {
    match &node.body {
        Body::List(items) => items,
        _ => {
            wrong(node, key, wanted, mistakes);
            &[]
        }
    }
}
