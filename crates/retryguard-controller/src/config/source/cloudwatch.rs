//! The keys of the source `cloudwatch`.

use std::{collections::BTreeMap, time::Duration};

use retryguard_core::Ratio;
use retryguard_policy::reading::{Block, Body, Mistakes, Node, entries, scalar};

use crate::config::Place;
use crate::config::aws::AwsAccess;
use crate::domain::limits::Limits;

/// The most dimensions of a metric, as CloudWatch has it.
pub const MOST_DIMENSIONS: usize = 30;

/// How CloudWatch is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudWatchSettings {
    /// The region or endpoint, and the credentials.
    pub reach: AwsAccess,
    /// How often it is asked. Each question about one metric is paid for.
    pub every: Duration,
    /// The grain of the metrics: a minute, unless they are high-resolution metrics of the user's own.
    pub period: Duration,
    /// How long after the end of a period its counts are taken for whole.
    pub settle: Duration,
    /// Which quantile of the delay is read.
    pub quantile: Ratio,
}

/// How a target is found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudWatchTarget {
    /// Their sum is the number of calls.
    pub calls: Vec<Metric>,
    /// Their sum is how many of them were rejected for load.
    pub rejected: Vec<Metric>,
    /// Their sum is the number of retries.
    pub retries: Vec<Metric>,
    /// A delay.
    pub delay: Option<Metric>,
}

/// One metric of CloudWatch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Metric {
    /// Its namespace, such as `AWS/Lambda`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its dimensions: all of them, for CloudWatch matches exactly.
    pub dimensions: BTreeMap<String, String>,
    /// What is asked of it.
    pub statistic: Statistic,
    /// Whether it is written only when there is something to count: without a value it is then zero.
    pub sparse: bool,
    /// For a delay: its unit.
    pub unit: Unit,
}

/// What is asked of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// The sum of its values: for counters.
    Sum,
    /// How many values it has: for a latency that is written once for each call.
    SampleCount,
    /// The quantile of the settings.
    Quantile,
}

/// The unit of a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// As Amazon's own latencies.
    Milliseconds,
    /// As most others.
    Seconds,
    /// Some of the user's own.
    Microseconds,
}

impl CloudWatchSettings {
    pub(super) fn read(mut block: Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let at = block.at();
        let reach = AwsAccess::read(&mut block, place, mistakes);
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let every = block.duration("every", second..=60 * minute, mistakes);
        let period = block.duration("period", second..=60 * minute, mistakes);
        let period = period.unwrap_or(minute);
        let settle = block.duration("settle", Duration::ZERO..=30 * minute, mistakes);
        let quantile = block.share("quantile", Ratio::percent(1)..=Ratio::percent(99), mistakes);
        block.close(mistakes);
        let seconds = period.as_secs_f64();
        let known = [1.0, 5.0, 10.0, 20.0, 30.0].contains(&seconds) || seconds % 60.0 == 0.0;
        if !known {
            mistakes.add(
                at,
                "`period` is none that CloudWatch knows",
                "write 1s, 5s, 10s, 20s, 30s or whole minutes; less than a minute only for high-resolution metrics",
            );
        }
        Some(Self {
            reach,
            every: every.unwrap_or(period),
            period,
            settle: settle.unwrap_or(minute),
            quantile: quantile.unwrap_or(Ratio::percent(99)),
        })
    }

    /// How old the newest counts are at worst when they are read.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.settle + self.period + self.every
    }

    /// The loop's usual limits are for data of the last seconds; with them, nothing of CloudWatch's would count.
    pub(in crate::config) fn check(&self, limits: &Limits, block: &Block<'_>, mistakes: &mut Mistakes) {
        let worst = self.delay();
        if limits.stale_after < worst || limits.restore_after() < 2 * worst {
            mistakes.add(
                block.at(),
                format!(
                    "CloudWatch's counts are up to {} s old, and `limits` takes no counts older than {} s and keeps a decision for {} s without any",
                    worst.as_secs(),
                    limits.stale_after.as_secs(),
                    limits.restore_after().as_secs()
                ),
                format!(
                    "write `limits: {{staleAfter: {}s, hold: {}s}}` or more",
                    worst.as_secs() + 60,
                    3 * worst.as_secs()
                ),
            );
        }
    }
}

impl CloudWatchTarget {
    pub(in crate::config) fn read(
        name: &str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let at = block.at();
        let lambda = block.block("lambda", mistakes);
        let dynamodb = block.block("dynamodb", mistakes);
        let metrics = block.block("metrics", mistakes);
        match (lambda, dynamodb, metrics) {
            (Some(block), None, None) => lambda_function(name, block, mistakes),
            (None, Some(block), None) => dynamodb_table(name, block, mistakes),
            (None, None, Some(block)) => free(block, mistakes),
            _ => {
                mistakes.add(
                    at,
                    format!("`{name}` does not say which metrics are its"),
                    "give its cloudwatch block one of lambda, dynamodb, metrics",
                );
                None
            }
        }
    }
}

/// A function is a target where others call it: throttled invocations are not among `Invocations`.
fn lambda_function(name: &str, mut block: Block<'_>, mistakes: &mut Mistakes) -> Option<CloudWatchTarget> {
    let function = block.text("function", "the name of a function", mistakes);
    block.close(mistakes);
    let dimensions = BTreeMap::from([("FunctionName".to_owned(), function.unwrap_or(name).to_owned())]);
    let metric = |name: &str, statistic, sparse| Metric {
        namespace: "AWS/Lambda".to_owned(),
        name: name.to_owned(),
        dimensions: dimensions.clone(),
        statistic,
        sparse,
        unit: Unit::Milliseconds,
    };
    let throttles = metric("Throttles", Statistic::Sum, true);
    Some(CloudWatchTarget {
        calls: vec![metric("Invocations", Statistic::Sum, true), throttles.clone()],
        rejected: vec![throttles],
        retries: Vec::new(),
        delay: Some(metric("Duration", Statistic::Quantile, false)),
    })
}

/// `ThrottledRequests` is written only when there are some, and requests that succeed are counted by their latency.
fn dynamodb_table(name: &str, mut block: Block<'_>, mistakes: &mut Mistakes) -> Option<CloudWatchTarget> {
    let table = block
        .text("table", "the name of a table", mistakes)
        .unwrap_or(name);
    let wanted = "an operation, such as PutItem";
    let operation = block.need_text("operation", wanted, mistakes);
    block.close(mistakes);
    let (operation, _) = operation?;
    let dimensions = BTreeMap::from([
        ("Operation".to_owned(), operation.to_owned()),
        ("TableName".to_owned(), table.to_owned()),
    ]);
    let metric = |name: &str, statistic, sparse| Metric {
        namespace: "AWS/DynamoDB".to_owned(),
        name: name.to_owned(),
        dimensions: dimensions.clone(),
        statistic,
        sparse,
        unit: Unit::Milliseconds,
    };
    let throttled = metric("ThrottledRequests", Statistic::Sum, true);
    let latency = "SuccessfulRequestLatency";
    Some(CloudWatchTarget {
        calls: vec![metric(latency, Statistic::SampleCount, true), throttled.clone()],
        rejected: vec![throttled],
        retries: Vec::new(),
        delay: Some(metric(latency, Statistic::Quantile, false)),
    })
}

fn free(mut block: Block<'_>, mistakes: &mut Mistakes) -> Option<CloudWatchTarget> {
    let at = block.at();
    let mut role = |key, statistic| -> Vec<Metric> {
        let Some(node) = block.take(key) else {
            return Vec::new();
        };
        let nodes: Vec<&Node> = match &node.body {
            Body::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        nodes
            .into_iter()
            .filter_map(|node| metric(node, key, statistic, mistakes))
            .collect()
    };
    let (calls, rejected) = (role("calls", Statistic::Sum), role("rejected", Statistic::Sum));
    let (retries, mut delay) = (
        role("retries", Statistic::Sum),
        role("delay", Statistic::Quantile),
    );
    block.close(mistakes);
    if calls.is_empty() || (rejected.is_empty() && retries.is_empty() && delay.is_empty()) {
        mistakes.add(
            at,
            "`metrics` has no signal",
            "write `calls` and at least one of `rejected`, `retries`, `delay`",
        );
        return None;
    }
    if delay.len() > 1 {
        mistakes.add(
            at,
            "`delay` has several metrics",
            "quantiles cannot be added: write one",
        );
    }
    Some(CloudWatchTarget {
        calls,
        rejected,
        retries,
        delay: delay.pop(),
    })
}

fn metric(node: &Node, key: &'static str, usual: Statistic, mistakes: &mut Mistakes) -> Option<Metric> {
    let mut block = Block::open(node, key, mistakes)?;
    let mut needed = |key, wanted| {
        let (text, _) = block.need_text(key, wanted, mistakes)?;
        Some(text.to_owned())
    };
    let namespace = needed("namespace", "a namespace, such as AWS/Lambda");
    let name = needed("name", "the name of a metric");
    let mut dimensions = BTreeMap::new();
    if let Some(node) = block.take("dimensions") {
        for entry in entries(node, "dimensions", mistakes).unwrap_or_default() {
            if let Some((value, _)) = scalar(&entry.value, "dimensions", "the value of a dimension", mistakes)
            {
                dimensions.insert(entry.key.clone(), value.to_owned());
            }
        }
        if dimensions.len() > MOST_DIMENSIONS {
            mistakes.add(
                node.at,
                format!("{} dimensions", dimensions.len()),
                format!("a metric of CloudWatch has at most {MOST_DIMENSIONS}"),
            );
        }
    }
    let words = [("Sum", Statistic::Sum), ("SampleCount", Statistic::SampleCount)];
    let units = [
        ("milliseconds", Unit::Milliseconds),
        ("seconds", Unit::Seconds),
        ("microseconds", Unit::Microseconds),
    ];
    let (mut statistic, mut sparse, mut unit) = (usual, false, Unit::Milliseconds);
    if usual == Statistic::Quantile {
        unit = block.word("unit", &units, mistakes).unwrap_or(unit);
    } else {
        statistic = block.word("statistic", &words, mistakes).unwrap_or(usual);
        sparse = block.flag("sparse", mistakes).unwrap_or(false);
    }
    block.close(mistakes);
    Some(Metric {
        namespace: namespace?,
        name: name?,
        dimensions,
        statistic,
        sparse,
        unit,
    })
}
