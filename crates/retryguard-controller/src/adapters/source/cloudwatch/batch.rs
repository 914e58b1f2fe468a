//! The questions of one round, within CloudWatch's limits: each metric once, at most [`MOST_QUERIES`] in a call.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, Metric as AwsMetric, MetricDataQuery, MetricStat, StatusCode};

use crate::adapters::aws::{RequestError, with_retries};
use crate::adapters::source::cloudwatch::{LOOK_BACK, Window};
use crate::config::source::cloudwatch::{CloudWatchSettings, CloudWatchTarget, Metric, Statistic};

/// The most questions in one call of `GetMetricData`.
const MOST_QUERIES: usize = 500;

/// The most values in one answer of `GetMetricData`; what is more comes in further pages.
const MOST_POINTS: i32 = 100_800;

// A whole batch fits into one answer; pages are followed all the same.
const _: () = assert!(MOST_QUERIES as u64 * (LOOK_BACK as u64) < MOST_POINTS as u64);

/// A server that always has another page must not hold us for ever.
const MOST_PAGES: usize = 100;

/// What was answered: for each metric, its values by the beginning of their period.
pub(super) type Values = HashMap<Metric, BTreeMap<i64, f64>>;

/// What was answered for one metric. A part of its values is not a reading: half of the calls beside all of the
/// rejections would be a storm that is none. One that is not answered for at all has no values, and is whole.
#[derive(Clone)]
struct Found {
    points: BTreeMap<i64, f64>,
    whole: bool,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            points: BTreeMap::new(),
            whole: true,
        }
    }
}

/// All questions of a source.
pub(super) struct Batches {
    metrics: Vec<Metric>,
    period: i32,
    quantile: String,
}

impl Batches {
    pub(super) fn new<'a>(
        targets: impl Iterator<Item = &'a CloudWatchTarget>,
        settings: &CloudWatchSettings,
    ) -> Self {
        let mut known = std::collections::HashSet::new();
        let metrics = targets
            .flat_map(|target| {
                let counts = target.calls.iter().chain(&target.rejected).chain(&target.retries);
                counts.chain(&target.delay)
            })
            // A metric of several targets, or of several roles, is asked for and paid for once.
            .filter(|metric| known.insert(*metric))
            .cloned()
            .collect();
        Self {
            metrics,
            period: i32::try_from(settings.period.as_secs()).unwrap_or(60),
            quantile: format!("p{}", trimmed(settings.quantile.as_f64() * 100.0)),
        }
    }

    pub(super) async fn ask(&self, client: &Client, window: Window) -> Result<Values, RequestError> {
        let mut values = Values::new();
        for metrics in self.metrics.chunks(MOST_QUERIES) {
            let queries: Vec<MetricDataQuery> = metrics
                .iter()
                .enumerate()
                .map(|(index, metric)| self.query(index, metric))
                .collect();
            let mut found: Vec<Found> = vec![Found::default(); metrics.len()];
            let mut page = None;
            for number in 0.. {
                if number == MOST_PAGES {
                    return Err(RequestError::Refused(format!(
                        "more than {MOST_PAGES} pages for one answer"
                    )));
                }
                let answer = with_retries(|| {
                    let (queries, page) = (queries.clone(), page.clone());
                    async move {
                        client
                            .get_metric_data()
                            .set_metric_data_queries(Some(queries))
                            .start_time(DateTime::from_secs(window.begin))
                            .end_time(DateTime::from_secs(window.end))
                            .max_datapoints(MOST_POINTS)
                            .set_next_token(page)
                            .send()
                            .await
                            .map_err(RequestError::from_sdk)
                    }
                })
                .await?;
                for result in answer.metric_data_results() {
                    let index = result
                        .id()
                        .and_then(index_of)
                        .filter(|index| *index < found.len());
                    let Some(index) = index else { continue };
                    let points = result.timestamps().iter().zip(result.values());
                    let points = points.map(|(time, value)| (time.secs(), *value));
                    found[index]
                        .points
                        .extend(points.filter(|(time, _)| window.holds(*time)));
                    // More of what was partial may be on the next page, which says so.
                    found[index].whole = !matches!(
                        result.status_code(),
                        Some(StatusCode::InternalError | StatusCode::Forbidden | StatusCode::PartialData)
                    );
                }
                page = answer
                    .next_token()
                    .map(str::to_owned)
                    .filter(|token| !token.is_empty());
                if page.is_none() {
                    break;
                }
            }
            for (metric, found) in metrics.iter().zip(found) {
                if found.whole {
                    values.insert(metric.clone(), found.points);
                } else {
                    tracing::warn!(
                        target: "retryguard::controller",
                        namespace = metric.namespace,
                        metric = metric.name,
                        "CloudWatch has failed to answer for this metric"
                    );
                }
            }
        }
        Ok(values)
    }

    fn query(&self, index: usize, metric: &Metric) -> MetricDataQuery {
        let dimensions = metric
            .dimensions
            .iter()
            .map(|(name, value)| Dimension::builder().name(name).value(value).build());
        let statistic = match metric.statistic {
            Statistic::Sum => "Sum",
            Statistic::SampleCount => "SampleCount",
            Statistic::Quantile => &self.quantile,
        };
        let asked = AwsMetric::builder()
            .namespace(&metric.namespace)
            .metric_name(&metric.name)
            .set_dimensions(Some(dimensions.collect()))
            .build();
        let stat = MetricStat::builder()
            .metric(asked)
            .period(self.period)
            .stat(statistic)
            .build();
        MetricDataQuery::builder()
            .id(format!("m{index}"))
            .metric_stat(stat)
            .return_data(true)
            .build()
    }
}

fn index_of(id: &str) -> Option<usize> {
    id.strip_prefix('m')?.parse().ok()
}

/// `99`, `99.9`: as CloudWatch writes quantiles.
fn trimmed(percent: f64) -> String {
    let text = format!("{percent:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_written_as_cloudwatch_reads_them() {
        assert_eq!(trimmed(99.0), "99");
        assert_eq!(trimmed(99.9), "99.9");
        assert_eq!(trimmed(50.0), "50");
    }

    #[test]
    fn an_answer_to_a_question_that_was_not_asked_is_left_out() {
        assert_eq!(index_of("m17"), Some(17));
        assert_eq!(index_of("q17"), None);
        assert_eq!(index_of("m-1"), None);
    }
}
