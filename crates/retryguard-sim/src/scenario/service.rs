//! The keys of a service.

use std::time::Duration;

use retryguard_core::{FailureKind, shed};
use retryguard_policy::reading::{Body, Mistakes, Node, entries, scalar, wrong};

use super::{
    block::{Block, is_off, is_word, number},
    graph::{Names, way},
    scaler,
};
use crate::{
    distribution::Distribution,
    world::{Effects, LoadErrors, Outbox, Pool, Price, QueueOrder, Service, Shedding, Station, Step},
};

pub(super) fn services(node: &Node, names: &mut Names, mistakes: &mut Mistakes) -> Vec<Service> {
    let list = entries(node, "services", mistakes).unwrap_or_default();
    list.iter()
        .filter_map(|entry| service(&entry.key, &entry.value, names, mistakes))
        .collect()
}

fn service(name: &str, node: &Node, names: &mut Names, mistakes: &mut Mistakes) -> Option<Service> {
    let mut block = Block::open(node, name, mistakes)?;
    let station = station(&mut block, mistakes);
    let errors = block.share("errors", mistakes).unwrap_or(0.0);
    let error_kind = block
        .word("errorKind", KINDS, mistakes)
        .unwrap_or(FailureKind::Fault);
    let load_errors = block
        .take("loadErrors")
        .and_then(|node| load_errors(node, mistakes));
    let effects = block.word("effects", EFFECTS, mistakes).unwrap_or(Effects::None);
    let shedding = block
        .take("shedding")
        .map_or(Some(Shedding::Off), |node| shedding(node, mistakes));
    let parallel = block.flag("parallel", mistakes).unwrap_or(false);
    let blocking = block.flag("blocking", mistakes).unwrap_or(true);
    let pool = block.take("pool").and_then(|node| pool(node, mistakes));
    let notices_cancel = block.flag("noticesCancel", mistakes).unwrap_or(false);
    let drops_expired = block.flag("dropsExpired", mistakes).unwrap_or(true);
    let queue_order = queue_order(&mut block, station.as_ref(), mistakes);
    let rejection_time = block.duration("rejectionTime", mistakes).unwrap_or_default();
    let rejection_work = block.duration("rejectionWork", mistakes).unwrap_or_default();
    let clock_skew = block
        .distribution("clockSkew", mistakes)
        .unwrap_or(Distribution::NOTHING);
    let scaler = block
        .take("autoscaler")
        .and_then(|node| scaler::scaler(node, mistakes));
    let price = block
        .take("price")
        .and_then(|node| price(node, mistakes))
        .unwrap_or_default();
    let steps = block
        .take("calls")
        .map_or_else(Vec::new, |node| steps(name, node, names, mistakes));
    block.close(mistakes);
    Some(Service {
        name: name.to_owned(),
        station: station?,
        queue_order,
        rejection_time,
        rejection_work,
        errors,
        error_kind,
        load_errors,
        effects,
        shedding: shedding.unwrap_or(Shedding::Off),
        steps,
        parallel,
        blocking,
        pool,
        notices_cancel,
        drops_expired,
        clock_skew,
        scaler,
        price,
    })
}

const KINDS: &[(&str, FailureKind)] = &[
    ("fault", FailureKind::Fault),
    ("overload", FailureKind::Overload),
    ("timeout", FailureKind::Timeout),
    ("unreachable", FailureKind::Unreachable),
    ("disconnected", FailureKind::Disconnected),
    ("request", FailureKind::Request),
];

const EFFECTS: &[(&str, Effects)] = &[
    ("none", Effects::None),
    ("counted", Effects::Counted),
    ("keyed", Effects::Keyed),
    ("policy", Effects::ByPolicy),
];

/// `replicas` and `workers`, or `capacity`, or `instances`.
fn station(block: &mut Block<'_>, mistakes: &mut Mistakes) -> Option<Station> {
    let at = block.at();
    let time = block
        .distribution("time", mistakes)
        .unwrap_or(Distribution::NOTHING);
    let capacity = block.take("capacity");
    let instances = block.take("instances");
    let replicas = block.count("replicas", 1..=1_000_000, mistakes);
    let workers = block.count("workers", 1..=10_000_000, mistakes);
    let queue = block.take("queue");
    let both = [
        capacity.is_some(),
        instances.is_some(),
        replicas.or(workers).is_some() || queue.is_some(),
    ];
    if both.iter().filter(|given| **given).count() > 1 {
        mistakes.add(
            at,
            "a service works in one way only",
            "keep one of `capacity`, `instances`, or `replicas`, `workers` and `queue`",
        );
        return None;
    }
    if let Some(node) = capacity {
        let mut inner = Block::open(node, "capacity", mistakes)?;
        let per_second = inner.need("perSecond", "a number", mistakes);
        let per_second = per_second.and_then(|node| number(node, "perSecond", 0.0..=1e9, mistakes));
        let burst = inner.duration("burst", mistakes).unwrap_or_default();
        inner.close(mistakes);
        return Some(Station::Capacity {
            per_second: per_second?,
            burst,
            time,
        });
    }
    if let Some(node) = instances {
        let mut inner = Block::open(node, "instances", mistakes)?;
        let most = inner.count("most", 1..=10_000_000, mistakes).unwrap_or(1000);
        let new_per_ten_seconds = inner
            .count("startPerTenSeconds", 1..=10_000_000, mistakes)
            .unwrap_or(1000);
        let start = inner
            .distribution("start", mistakes)
            .unwrap_or(Distribution::NOTHING);
        let timeout = inner
            .duration_or_off("timeout", mistakes)
            .unwrap_or(Some(Duration::from_secs(3)));
        inner.close(mistakes);
        return Some(Station::Instances {
            most,
            new_per_ten_seconds,
            start,
            time,
            timeout,
        });
    }
    let queue = match queue {
        None => None,
        Some(node) if is_word(node, &["unlimited"]) => None,
        Some(node) => {
            let (text, _) = scalar(node, "queue", "a whole number, or unlimited", mistakes)?;
            match text.parse() {
                Ok(queue) => Some(queue),
                Err(_) => {
                    wrong(node, "queue", "a whole number, or unlimited", mistakes);
                    return None;
                }
            }
        }
    };
    Some(Station::Workers {
        replicas: replicas.unwrap_or(1),
        workers: workers.unwrap_or(1),
        queue,
        time,
    })
}

/// `oldest-first`, `newest-first` or `codel`, or a block with CoDel's numbers.
fn queue_order(block: &mut Block<'_>, station: Option<&Station>, mistakes: &mut Mistakes) -> QueueOrder {
    const WANTED: &str = "oldest-first, newest-first, codel, or {codel: {target: 20ms, interval: 100ms}}";
    const WORDS: &[(&str, QueueOrder)] = &[
        ("oldest-first", QueueOrder::OldestFirst),
        ("newest-first", QueueOrder::NewestFirst),
        ("codel", CODEL),
    ];
    let Some(node) = block.take("queueOrder") else {
        return QueueOrder::OldestFirst;
    };
    if station.is_some_and(|station| !matches!(station, Station::Workers { .. })) {
        mistakes.add(
            node.at,
            "`queueOrder` means nothing where no request waits",
            "remove it, or describe the service by `workers` and `queue`",
        );
    }
    if let Some((_, order)) = WORDS.iter().find(|(word, _)| is_word(node, &[word])) {
        return *order;
    }
    let found = matches!(node.body, Body::Map(_))
        .then(|| Block::open(node, "queueOrder", mistakes))
        .flatten()
        .and_then(|mut outer| {
            let order = outer
                .need("codel", "a block such as {target: 20ms}", mistakes)
                .and_then(|node| codel(node, mistakes));
            outer.close(mistakes);
            order
        });
    if found.is_none() {
        wrong(node, "queueOrder", WANTED, mistakes);
    }
    found.unwrap_or_default()
}

/// CoDel's interval is a usual round trip; its target is a small part of it.
const CODEL: QueueOrder = QueueOrder::Codel {
    target: Duration::from_millis(20),
    interval: Duration::from_millis(100),
};

fn codel(node: &Node, mistakes: &mut Mistakes) -> Option<QueueOrder> {
    let QueueOrder::Codel { target, interval } = CODEL else {
        unreachable!("a constant")
    };
    let mut block = Block::open(node, "codel", mistakes)?;
    let target = block.duration("target", mistakes).unwrap_or(target);
    let interval = block.duration("interval", mistakes).unwrap_or(interval);
    if interval.is_zero() {
        mistakes.add(block.at(), "`interval` is nothing", "write at least 1ms");
    }
    block.close(mistakes);
    Some(QueueOrder::Codel { target, interval })
}

fn load_errors(node: &Node, mistakes: &mut Mistakes) -> Option<LoadErrors> {
    let mut block = Block::open(node, "loadErrors", mistakes)?;
    let from = block
        .take("from")
        .and_then(|node| super::block::share(node, "from", 0.0..=100.0, mistakes));
    let to = block
        .take("to")
        .and_then(|node| super::block::share(node, "to", 0.0..=100.0, mistakes));
    let most = block.share("most", mistakes);
    let at = block.at();
    block.close(mistakes);
    match (from, to, most) {
        (Some(from), Some(to), Some(most)) if from < to => Some(LoadErrors { from, to, most }),
        _ => {
            mistakes.add(
                at,
                "`loadErrors` is incomplete",
                "write {from: 80%, to: 150%, most: 50%}, `from` below `to`",
            );
            None
        }
    }
}

fn shedding(node: &Node, mistakes: &mut Mistakes) -> Option<Shedding> {
    if is_off(node, "shedding", mistakes) {
        return Some(Shedding::Off);
    }
    if is_word(node, &["policy"]) {
        return Some(Shedding::ByPolicy);
    }
    if is_word(node, &["layer"]) {
        return Some(Shedding::Layer);
    }
    if !matches!(node.body, Body::Map(_)) {
        wrong(
            node,
            "shedding",
            "off, policy, layer, or a block such as {inFlight: 200}",
            mistakes,
        );
        return None;
    }
    let mut block = Block::open(node, "shedding", mistakes)?;
    let usual = shed::Settings::default();
    let rule = shed::Settings {
        in_flight: block
            .count("inFlight", 1..=u32::MAX, mistakes)
            .unwrap_or(usual.in_flight),
        queue_time: block.duration("queueTime", mistakes).unwrap_or(usual.queue_time),
        retry_after: block
            .duration("retryAfter", mistakes)
            .unwrap_or(usual.retry_after),
        ..usual
    };
    block.close(mistakes);
    Some(Shedding::By(rule))
}

fn pool(node: &Node, mistakes: &mut Mistakes) -> Option<Pool> {
    let mut block = Block::open(node, "pool", mistakes)?;
    let size = block.need("size", "a whole number", mistakes);
    let size = size.and_then(|node| super::block::count(node, "size", 1..=1_000_000, mistakes));
    let per_target = block
        .word("per", &[("service", false), ("target", true)], mistakes)
        .unwrap_or(false);
    block.close(mistakes);
    Some(Pool {
        size: size?,
        per_target,
    })
}

fn price(node: &Node, mistakes: &mut Mistakes) -> Option<Price> {
    let mut block = Block::open(node, "price", mistakes)?;
    let mut read = |key| block.number(key, 0.0..=1e9, mistakes).unwrap_or(0.0);
    let price = Price {
        per_million_requests: read("millionRequests"),
        per_instance_second: read("instanceSecond"),
        per_capacity_hour: read("capacityHour"),
        per_replica_hour: read("replicaHour"),
    };
    block.close(mistakes);
    Some(price)
}

fn steps(name: &str, node: &Node, names: &mut Names, mistakes: &mut Mistakes) -> Vec<Step> {
    match &node.body {
        Body::List(items) => items
            .iter()
            .filter_map(|item| step(name, item, names, mistakes))
            .collect(),
        _ => step(name, node, names, mistakes).into_iter().collect(),
    }
}

/// One call: a service's name, or a block with `to` or `split`.
fn step(name: &str, node: &Node, names: &mut Names, mistakes: &mut Mistakes) -> Option<Step> {
    let Body::Map(keys) = &node.body else {
        let edge = names.edge(name, node, mistakes)?;
        return Some(Step {
            choices: vec![(1.0, Some(edge))],
            times: 1,
            optional: false,
            outbox: None,
        });
    };
    let splits = keys.iter().any(|entry| entry.key == "split");
    let mut block = Block::open(node, "calls", mistakes)?;
    let times = block.count("times", 1..=1000, mistakes).unwrap_or(1);
    let optional = block.flag("optional", mistakes).unwrap_or(false);
    let outbox = block.take("outbox").and_then(|node| outbox(node, mistakes));
    let choices = if splits {
        let ways = block.take("split");
        let way = way(&mut block, mistakes);
        let mut choices = Vec::new();
        for entry in entries(ways?, "split", mistakes)? {
            let weight = number(&entry.value, "a weight", 0.0..=1e9, mistakes)?;
            let edge = if entry.key == "none" {
                None
            } else {
                let to = names.service(&entry.key, entry.at, mistakes)?;
                Some(names.add(name, to, way.clone()))
            };
            choices.push((weight, edge));
        }
        choices
    } else {
        vec![(1.0, Some(names.edge_of(name, &mut block, mistakes)?))]
    };
    block.close(mistakes);
    Some(Step {
        choices,
        times,
        optional,
        outbox,
    })
}

/// `policy` or `always`, or a block with more.
fn outbox(node: &Node, mistakes: &mut Mistakes) -> Option<Outbox> {
    const BY: &[(&str, bool)] = &[("policy", false), ("always", true)];
    let usual = Outbox::default();
    let Body::Map(_) = node.body else {
        let found = BY.iter().find(|(word, _)| is_word(node, &[word]));
        if found.is_none() {
            wrong(
                node,
                "outbox",
                "policy, always, or a block such as {by: policy, poll: 200ms}",
                mistakes,
            );
        }
        return found.map(|(_, always)| Outbox {
            always: *always,
            ..usual
        });
    };
    let mut block = Block::open(node, "outbox", mistakes)?;
    let found = Outbox {
        always: block.word("by", BY, mistakes).unwrap_or(usual.always),
        poll: block.duration("poll", mistakes).unwrap_or(usual.poll),
        batch: block
            .count("batch", 1..=1_000_000, mistakes)
            .unwrap_or(usual.batch),
        redelivered: block.share("redelivered", mistakes).unwrap_or(usual.redelivered),
    };
    if found.poll.as_millis() == 0 {
        mistakes.add(block.at(), "`poll` is nothing", "write at least 1ms");
    }
    if found.redelivered >= 1.0 {
        mistakes.add(
            block.at(),
            "`redelivered` is everything, so that nothing is ever delivered",
            "write a share below 100%",
        );
    }
    block.close(mistakes);
    Some(found)
}
