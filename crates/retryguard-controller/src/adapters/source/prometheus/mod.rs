//! A Prometheus server as a source of signals.
//!
//! Counters are asked for as increases over a window, which the server corrects for restarts and which are
//! missing by themselves when the newest data is older than the window. Targets of one kind share their
//! questions: a thousand targets of a mesh are asked for with four.

mod answer;
pub mod history;

use std::{collections::HashMap, fmt::Write as _, time::Duration};

use reqwest::Url;

use crate::adapters::http::{Access, Fetch, excerpt, shown};
use crate::adapters::source::series::{Role, Tally, Term, terms, whole};
use crate::adapters::start_error::StartError;
use crate::config::source::prometheus::{Find, PrometheusSettings, PrometheusTarget, Queries};
use crate::domain::counts::{Counts, Reading, within};
use crate::domain::target::TargetName;
use crate::reconcile::source::{Round, Source, SourceError};

use answer::Point;

/// Queries a Prometheus server.
pub struct Prometheus {
    fetch: Fetch,
    url: Url,
    settings: PrometheusSettings,
    ready: Vec<(TargetName, Vec<Term>)>,
    questions: Vec<Question>,
    free: Vec<(TargetName, Queries)>,
}

/// One question for many targets.
struct Question {
    query: String,
    asks: QueryKind,
    /// The labels that tell targets apart.
    keys: Vec<&'static str>,
    /// The targets, by the values of those labels.
    targets: HashMap<Vec<String>, Vec<usize>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum QueryKind {
    Count(Role),
    /// How old the newest data is, in seconds.
    Age,
}

impl Prometheus {
    /// Nothing is asked before the first round.
    pub(crate) fn new(
        settings: &PrometheusSettings,
        targets: Vec<(TargetName, PrometheusTarget)>,
    ) -> Result<Self, StartError> {
        let access = Access {
            token_file: settings.token_file.as_deref(),
            ca_file: settings.ca_file.as_deref(),
        };
        let fetch = Fetch::new("prometheus", access)?;
        let bad = |reason: String| StartError::Settings {
            what: "prometheus",
            reason,
        };
        let url = Url::parse(&format!("{}/api/v1/query", settings.url.trim_end_matches('/')))
            .map_err(|error| bad(format!("{}: {error}", settings.url)))?;
        let (mut ready, mut free) = (Vec::new(), Vec::new());
        for (name, target) in targets {
            match target.find {
                Find::Preset(preset) => ready.push((name, terms(&preset, target.delay))),
                Find::Queries(queries) => free.push((name, queries)),
            }
        }
        let questions = questions(&ready, settings.window);
        Ok(Self {
            fetch,
            url,
            settings: settings.clone(),
            ready,
            questions,
            free,
        })
    }

    async fn round(&mut self) -> Result<Vec<Reading>, SourceError> {
        let mut readings = self.ask_ready().await?;
        for (name, queries) in &self.free {
            // One wrong expression must not blind the others.
            match self.ask_free(queries).await {
                Ok(found) => readings.extend(found.map(|counts| Reading {
                    target: name.clone(),
                    counts,
                    age: Duration::ZERO,
                })),
                Err(error @ SourceError::Unreachable { .. }) => return Err(error),
                Err(error) => {
                    tracing::warn!(target: "retryguard::controller", service = %name, %error, "no data");
                }
            }
        }
        Ok(readings)
    }

    async fn ask_ready(&self) -> Result<Vec<Reading>, SourceError> {
        let mut tallies: Vec<Tally> = self.ready.iter().map(|(_, terms)| Tally::of(terms)).collect();
        let mut ages = vec![None; self.ready.len()];
        for question in &self.questions {
            for point in self.ask(&question.query).await? {
                let values: Option<Vec<String>> = question
                    .keys
                    .iter()
                    .map(|key| point.labels.get(*key).cloned())
                    .collect();
                let targets = values.and_then(|values| question.targets.get(&values));
                for target in targets.into_iter().flatten() {
                    match question.asks {
                        QueryKind::Count(role) => {
                            let bound = point.labels.get("le").map(String::as_str);
                            tallies[*target].add(role, bound, point.value);
                        }
                        QueryKind::Age => {
                            ages[*target] = Duration::try_from_secs_f64(point.value.max(0.0)).ok();
                        }
                    }
                }
            }
        }
        let named = self.ready.iter().zip(tallies).zip(ages);
        let readings = named.filter_map(|(((name, _), tally), age)| {
            let counts = tally.counts(self.scale(), self.settings.quantile)?;
            Some(Reading {
                target: name.clone(),
                counts,
                age: age?,
            })
        });
        Ok(readings.collect())
    }

    async fn ask_free(&self, queries: &Queries) -> Result<Option<Counts>, SourceError> {
        let Some(calls) = self.ask_one(Some(&queries.calls)).await? else {
            return Ok(None);
        };
        let rejected = self.ask_one(queries.rejected.as_ref()).await?;
        let retries = self.ask_one(queries.retries.as_ref()).await?;
        let delay = self.ask_one(queries.delay.as_ref()).await?;
        let delay = delay.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let scaled = |count: f64| whole(count * self.scale());
        Ok(Some(Counts {
            calls: scaled(calls),
            rejected: rejected.map(|rejected| scaled(within(rejected, calls))),
            retries: retries.map(scaled),
            retries_succeeded: None,
            failed: None,
            delay,
        }))
    }

    /// One number; `None` where the server has none, or one that cannot be true.
    async fn ask_one(&self, query: Option<&String>) -> Result<Option<f64>, SourceError> {
        let Some(query) = query else { return Ok(None) };
        let query = query.replace("$window", &format!("{}ms", self.settings.window.as_millis()));
        let points = self.ask(&query).await?;
        match points.as_slice() {
            [] => Ok(None),
            [point] => Ok(Some(point.value).filter(|value| value.is_finite() && *value >= 0.0)),
            _ => Err(SourceError::Nonsense {
                address: shown(&self.url),
                reason: format!(
                    "{} series instead of one number; put `sum(…)` around `{}`",
                    points.len(),
                    excerpt(&query)
                ),
            }),
        }
    }

    async fn ask(&self, query: &str) -> Result<Vec<Point>, SourceError> {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair("query", query);
        let (status, text) = self.fetch.get(url).await?;
        answer::points(&text).map_err(|reason| match reason {
            answer::AnswerError::Refused(reason) => SourceError::Refused {
                address: shown(&self.url),
                reason: excerpt(&reason),
            },
            answer::AnswerError::Nonsense(reason) => SourceError::Nonsense {
                address: shown(&self.url),
                reason: format!("{reason} (status {status})"),
            },
        })
    }

    /// Windows overlap: a call is in several of them, and must count as one.
    fn scale(&self) -> f64 {
        (self.settings.every.as_secs_f64() / self.settings.window.as_secs_f64()).min(1.0)
    }
}

impl Source for Prometheus {
    fn name(&self) -> &'static str {
        "prometheus"
    }

    fn every(&self) -> Duration {
        self.settings.every
    }

    fn read(&mut self) -> Round<'_> {
        Box::pin(self.round())
    }
}

/// The questions that all targets need, each of them once.
fn questions(targets: &[(TargetName, Vec<Term>)], window: Duration) -> Vec<Question> {
    let mut places: HashMap<(String, QueryKind), usize> = HashMap::new();
    let mut all: Vec<Question> = Vec::new();
    for (target, (_, terms)) in targets.iter().enumerate() {
        for term in terms {
            let mut add = |query: String, asks: QueryKind| {
                let place = *places.entry((query.clone(), asks)).or_insert_with(|| {
                    all.push(Question {
                        query,
                        asks,
                        keys: term.keys.iter().map(|(key, _)| *key).collect(),
                        targets: HashMap::new(),
                    });
                    all.len() - 1
                });
                let values = term.keys.iter().map(|(_, value)| value.clone()).collect();
                all[place].targets.entry(values).or_default().push(target);
            };
            add(increase(term, window), QueryKind::Count(term.role));
            if term.role == Role::Attempts {
                add(age(term), QueryKind::Age);
            }
        }
    }
    all
}

fn increase(term: &Term, window: Duration) -> String {
    let mut by = term.keys.iter().map(|(key, _)| *key).collect::<Vec<_>>();
    if matches!(term.role, Role::Bucket(_)) {
        by.push("le");
    }
    let (selector, window) = (selector(term), window.as_millis());
    format!("sum by ({}) (increase({selector}[{window}ms]))", by.join(", "))
}

fn age(term: &Term) -> String {
    let by: Vec<&str> = term.keys.iter().map(|(key, _)| *key).collect();
    format!(
        "time() - max by ({}) (timestamp({}))",
        by.join(", "),
        selector(term)
    )
}

fn selector(term: &Term) -> String {
    let mut text = String::from(term.metric);
    for (index, (label, values)) in term.fixed.iter().enumerate() {
        let open = if index == 0 { '{' } else { ',' };
        // Writing to a string does not fail. The values are words and codes of ours.
        let _ = match values.as_slice() {
            [one] => write!(text, "{open}{label}=\"{one}\""),
            several => write!(text, "{open}{label}=~\"{}\"", several.join("|")),
        };
    }
    if !term.fixed.is_empty() {
        text.push('}');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::preset::Preset;

    /// A thousand targets of one mesh cost as many questions as one.
    #[test]
    fn targets_of_one_kind_share_their_questions() {
        let target = |number: usize| {
            let preset = Preset::Istio {
                service: format!("service-{number}"),
                namespace: "default".to_owned(),
                caller: None,
                codes: vec!["503".to_owned()],
            };
            (TargetName::new(&number.to_string()), terms(&preset, false))
        };
        let window = Duration::from_secs(30);
        let one = questions(&[target(0)], window);
        let thousand: Vec<_> = (0..1_000).map(target).collect();
        assert_eq!(questions(&thousand, window).len(), one.len());
        let texts: Vec<&str> = one.iter().map(|question| question.query.as_str()).collect();
        assert_eq!(
            texts[0],
            "sum by (destination_service_name, destination_service_namespace) \
             (increase(istio_requests_total{reporter=\"destination\"}[30000ms]))"
        );
        assert_eq!(texts.len(), 5);
    }
}
