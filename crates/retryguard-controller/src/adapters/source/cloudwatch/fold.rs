//! From the values of a target's metrics to one sample: a pure function.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::adapters::source::cloudwatch::batch::Values;
use crate::adapters::source::series::whole;
use crate::config::source::cloudwatch::{CloudWatchTarget, Metric, Unit};
use crate::domain::counts::{Counts, within};

/// What became of the periods that were not read before.
#[derive(Debug, PartialEq)]
pub(super) struct PeriodSum {
    pub(super) counts: Counts,
    /// The beginning of the newest of them.
    pub(super) newest: i64,
}

/// The sum of all periods after `after` that have calls; `None` where there is none.
///
/// A signal counts only if it is there in every one of these periods.
pub(super) fn fold(target: &CloudWatchTarget, values: &Values, after: Option<i64>) -> Option<PeriodSum> {
    let of = |metric: &Metric| values.get(metric);
    let periods: BTreeSet<i64> = target
        .calls
        .iter()
        .filter_map(of)
        .flat_map(|points| points.keys().copied())
        .filter(|begin| after.is_none_or(|after| *begin > after))
        .collect();
    let mut taken: Option<PeriodSum> = None;
    for begin in periods {
        let Some(calls) = sum(&target.calls, values, begin, false) else {
            continue;
        };
        let rejected = sum(&target.rejected, values, begin, true);
        let retries = sum(&target.retries, values, begin, true);
        let delay = target.delay.as_ref().and_then(|metric| {
            let value = *of(metric)?.get(&begin)?;
            let seconds = match metric.unit {
                Unit::Milliseconds => value / 1e3,
                Unit::Seconds => value,
                Unit::Microseconds => value / 1e6,
            };
            Duration::try_from_secs_f64(seconds).ok()
        });
        let found = Counts {
            calls: whole(calls),
            rejected: rejected.map(|rejected| whole(within(rejected, calls))),
            retries: retries.map(whole),
            retries_succeeded: None,
            failed: None,
            delay,
        };
        let counts = taken
            .as_ref()
            .map_or(found, |before| both(&before.counts, &found));
        taken = Some(PeriodSum {
            counts,
            newest: begin,
        });
    }
    taken
}

/// Two periods as one. A number that one of them does not have is absent.
fn both(one: &Counts, other: &Counts) -> Counts {
    let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
    Counts {
        calls: one.calls.saturating_add(other.calls),
        rejected: sum(one.rejected, other.rejected),
        retries: sum(one.retries, other.retries),
        retries_succeeded: sum(one.retries_succeeded, other.retries_succeeded),
        failed: sum(one.failed, other.failed),
        delay: one.delay.zip(other.delay).map(|(one, other)| one.max(other)),
    }
}

/// `None` where a metric that is always written is missing, or a number cannot be true. `calls_known` says that
/// something happened in the period, so that sparse metrics without a value are zero.
fn sum(metrics: &[Metric], values: &Values, begin: i64, calls_known: bool) -> Option<f64> {
    let mut total = 0.0;
    let mut any = calls_known && !metrics.is_empty();
    for metric in metrics {
        // A metric for which CloudWatch failed is not there at all, be it sparse.
        let points = values.get(metric)?;
        match points.get(&begin) {
            Some(value) if value.is_finite() && *value >= 0.0 => {
                total += value;
                any = true;
            }
            Some(_) => return None,
            None if metric.sparse => {}
            None => return None,
        }
    }
    any.then_some(total)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::source::cloudwatch::Statistic;

    fn metric(name: &str, sparse: bool) -> Metric {
        Metric {
            namespace: "test".to_owned(),
            name: name.to_owned(),
            dimensions: BTreeMap::new(),
            statistic: Statistic::Sum,
            sparse,
            unit: Unit::Milliseconds,
        }
    }

    fn table() -> CloudWatchTarget {
        CloudWatchTarget {
            calls: vec![metric("succeeded", true), metric("throttled", true)],
            rejected: vec![metric("throttled", true)],
            retries: vec![metric("retries", false)],
            delay: Some(metric("delay", false)),
        }
    }

    fn values(all: &[(&str, &[(i64, f64)])]) -> Values {
        let sparse = |name: &str| matches!(name, "succeeded" | "throttled");
        let mut values: Values = ["succeeded", "throttled", "retries", "delay"]
            .map(|name| (metric(name, sparse(name)), BTreeMap::new()))
            .into();
        for (name, points) in all {
            values.insert(metric(name, sparse(name)), points.iter().copied().collect());
        }
        values
    }

    fn counts(all: &[(&str, &[(i64, f64)])], after: Option<i64>) -> Option<Counts> {
        Some(fold(&table(), &values(all), after)?.counts)
    }

    /// Calls and rejections, and nothing else.
    fn only(calls: u64, rejected: u64) -> Option<Counts> {
        Some(Counts {
            calls,
            rejected: Some(rejected),
            ..Counts::default()
        })
    }

    #[test]
    fn a_metric_that_counts_something_else_is_not_a_total_overload() {
        let target = CloudWatchTarget {
            calls: vec![metric("succeeded", true)],
            ..table()
        };
        let all = values(&[("succeeded", &[(60, 10.0)]), ("throttled", &[(60, 20.0)])]);
        assert!(!fold(&target, &all, None).unwrap().counts.plausible());
    }

    #[test]
    fn what_is_written_only_when_it_happens_is_zero_beside_calls() {
        assert_eq!(counts(&[("succeeded", &[(60, 40.0)])], None), only(40, 0));
    }

    /// A table that throttles everything has no latency to write.
    #[test]
    fn rejections_alone_are_calls_too() {
        assert_eq!(counts(&[("throttled", &[(60, 7.0)])], None), only(7, 7));
    }

    #[test]
    fn no_values_are_no_reading() {
        assert_eq!(counts(&[], None), None);
        assert_eq!(counts(&[("retries", &[(60, 7.0)])], None), None);
    }

    #[test]
    fn a_period_is_read_once_and_several_new_ones_are_added() {
        let both: &[(i64, f64)] = &[(60, 10.0), (120, 20.0)];
        assert_eq!(counts(&[("succeeded", both)], None).unwrap().calls, 30);
        assert_eq!(counts(&[("succeeded", both)], Some(60)).unwrap().calls, 20);
        assert_eq!(counts(&[("succeeded", both)], Some(120)), None);
    }

    #[test]
    fn numbers_that_cannot_be_true_are_no_reading() {
        for lie in [f64::NAN, -1.0, f64::INFINITY] {
            assert_eq!(counts(&[("succeeded", &[(60, lie)])], None), None);
            let beside: &[(i64, f64)] = &[(60, 10.0)];
            let lies = [
                ("succeeded", beside),
                ("delay", &[(60, lie)]),
                ("retries", &[(60, lie)]),
            ];
            assert_eq!(counts(&lies, None), only(10, 0));
        }
    }

    #[test]
    fn a_metric_that_cloudwatch_failed_to_answer_for_is_not_zero() {
        let mut all = values(&[("succeeded", &[(60, 40.0)])]);
        all.remove(&metric("throttled", true));
        assert_eq!(fold(&table(), &all, None), None);
    }

    #[test]
    fn a_delay_has_its_unit() {
        let all = values(&[("succeeded", &[(60, 1.0)]), ("delay", &[(60, 250.0)])]);
        let taken = fold(&table(), &all, None).unwrap();
        assert_eq!(taken.counts.delay, Some(Duration::from_millis(250)));
    }
}
