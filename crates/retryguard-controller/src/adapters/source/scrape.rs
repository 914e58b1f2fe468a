//! The controller's own scraper as a source of signals: for one machine, where there is no Prometheus.

use std::{collections::HashMap, time::Duration};

use reqwest::Url;
use retryguard_core::Ratio;

use crate::adapters::http::{Access, Fetch, shown};
use crate::adapters::source::exposition;
use crate::adapters::source::exposition::Line;
use crate::adapters::source::series::{Role, Tally, Term, terms};
use crate::adapters::start_error::StartError;
use crate::config::source::scrape::{ScrapeSettings, ScrapeTarget};
use crate::domain::counts::Reading;
use crate::domain::target::TargetName;
use crate::reconcile::source::{Round, Source, SourceError};

/// The most series that are remembered from round to round, over all pages.
pub const MOST_SERIES: usize = 1_000_000;

/// Scrapes pages and counts what is new in them.
pub struct Scrape {
    fetch: Fetch,
    pages: Vec<Page>,
    every: Duration,
    count: Count,
}

/// For how many rounds a series that is missing from its page is remembered. Without that, a page that was empty once would make
/// every counter look new, and the whole history of a proxy would count as one interval.
const REMEMBERED: u16 = 600;

struct Page {
    url: Url,
    last: Option<HashMap<String, LastSample>>,
}

/// A series of the last pages.
#[derive(Clone, Copy)]
struct LastSample {
    /// Its last number that can be true; none where it had none yet.
    value: Option<f64>,
    /// For how many rounds it has been missing.
    missing: u16,
}

/// What is counted, and for which targets.
struct Count {
    targets: Vec<(TargetName, Vec<Term>)>,
    /// By the metric's name.
    wanted: HashMap<&'static str, Vec<ByLabel>>,
    quantile: Ratio,
}

/// The terms of one metric whose first key is one label, by its value. A page of ten thousand targets has a line for each
/// of them, and to try every target on every line would take a hundred million comparisons.
struct ByLabel {
    label: &'static str,
    /// A target and one of its terms.
    terms: HashMap<String, Vec<(usize, usize)>>,
}

impl Scrape {
    /// Nothing is asked before the first round.
    pub(crate) fn new(
        settings: &ScrapeSettings,
        targets: Vec<(TargetName, ScrapeTarget)>,
    ) -> Result<Self, StartError> {
        let access = Access {
            token_file: settings.token_file.as_deref(),
            ca_file: settings.ca_file.as_deref(),
        };
        let fetch = Fetch::new("scrape", access)?;
        let mut pages = Vec::new();
        for address in &settings.addresses {
            let url = Url::parse(address).map_err(|error| StartError::Settings {
                what: "scrape",
                reason: format!("{address}: {error}"),
            })?;
            pages.push(Page { url, last: None });
        }
        Ok(Self {
            fetch,
            pages,
            every: settings.every,
            count: Count::new(&targets, settings.quantile),
        })
    }

    async fn round(&mut self) -> Result<Vec<Reading>, SourceError> {
        let mut tallies = self.count.tallies();
        let mut failed = None;
        let mut answered = 0;
        let room = MOST_SERIES / self.pages.len().max(1);
        // All at once: a page that hangs must not make the others late.
        let fetch = &self.fetch;
        let answers = join_all(self.pages.iter().map(|page| fetch.get(page.url.clone()))).await;
        for (page, answer) in self.pages.iter_mut().zip(answers) {
            let read = answer.and_then(|(status, text)| {
                if !status.is_success() {
                    return Err(SourceError::Refused {
                        address: shown(&page.url),
                        reason: status.to_string(),
                    });
                }
                page.take(&text, &self.count, room, &mut tallies)
            });
            match read {
                Ok(()) => answered += 1,
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if answered == 0 => Err(error),
            Some(error) => {
                tracing::warn!(target: "retryguard::controller", %error, "one page is missing");
                Ok(self.count.readings(tallies))
            }
            None => Ok(self.count.readings(tallies)),
        }
    }
}

impl Source for Scrape {
    fn name(&self) -> &'static str {
        "scrape"
    }

    fn every(&self) -> Duration {
        self.every
    }

    fn read(&mut self) -> Round<'_> {
        Box::pin(self.round())
    }

    fn compares(&self) -> bool {
        true
    }
}

impl Page {
    /// Counts what is new since the last time. The first time nothing is: a counter may have run for weeks.
    fn take(
        &mut self,
        text: &str,
        count: &Count,
        room: usize,
        tallies: &mut [Tally],
    ) -> Result<(), SourceError> {
        let nonsense = |reason: String| SourceError::Nonsense {
            address: shown(&self.url),
            reason,
        };
        let mut now: HashMap<String, LastSample> = HashMap::new();
        let mut fresh = Vec::new();
        let wanted = |name: &str| count.wanted.contains_key(name);
        exposition::lines(text, wanted, |line| {
            let found = count.matches(&line);
            // A series that stands on the page twice counts once.
            if found.is_empty() || now.contains_key(line.series) {
                return;
            }
            let before = self.last.as_ref().map(|last| last.get(line.series));
            if let Some(before) = before {
                let delta = delta(before, line.value);
                let bound = line
                    .labels
                    .iter()
                    .find(|(label, _)| *label == "le")
                    .map(|(_, value)| value.to_string());
                for (target, role) in found {
                    fresh.push((target, role, bound.clone(), delta));
                }
            }
            let value = if is_count(line.value) {
                Some(line.value)
            } else {
                before.flatten().and_then(|seen| seen.value)
            };
            now.insert(line.series.to_owned(), LastSample { value, missing: 0 });
        })
        .map_err(|broken| nonsense(format!("line {}: {}", broken.line, broken.reason)))?;
        if now.len() > room {
            return Err(nonsense(format!(
                "{} series of targets, more than {room}",
                now.len()
            )));
        }
        for (target, role, bound, delta) in fresh {
            tallies[target].add(role, bound.as_deref(), delta);
        }
        for (series, seen) in self.last.take().into_iter().flatten() {
            if seen.missing < REMEMBERED && now.len() < room {
                let missing = seen.missing + 1;
                now.entry(series).or_insert(LastSample { missing, ..seen });
            }
        }
        // A first page without any series of ours says nothing about where their counters stand.
        self.last = Some(now).filter(|now| !now.is_empty());
        Ok(())
    }
}

fn is_count(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// What a series counted since the last page; NaN where that is not known. A series that was not there before began at zero,
/// and one that has become smaller began again.
fn delta(before: Option<&LastSample>, value: f64) -> f64 {
    match before.map_or(Some(0.0), |seen| seen.value) {
        Some(before) if is_count(value) && value >= before => value - before,
        Some(_) if is_count(value) => value,
        _ => f64::NAN,
    }
}

impl Count {
    fn new(targets: &[(TargetName, ScrapeTarget)], quantile: Ratio) -> Self {
        let targets: Vec<(TargetName, Vec<Term>)> = targets
            .iter()
            .map(|(name, target)| (name.clone(), terms(&target.preset, target.delay)))
            .collect();
        let mut wanted: HashMap<&'static str, Vec<ByLabel>> = HashMap::new();
        for (target, (_, terms)) in targets.iter().enumerate() {
            for (place, term) in terms.iter().enumerate() {
                // Every preset tells its target by a label.
                let Some((label, value)) = term.keys.first() else {
                    continue;
                };
                let labels = wanted.entry(term.metric).or_default();
                let known = labels.iter().position(|known| known.label == *label);
                let known = known.unwrap_or_else(|| {
                    labels.push(ByLabel {
                        label,
                        terms: HashMap::new(),
                    });
                    labels.len() - 1
                });
                let terms = labels[known].terms.entry(value.clone()).or_default();
                terms.push((target, place));
            }
        }
        Self {
            targets,
            wanted,
            quantile,
        }
    }

    fn tallies(&self) -> Vec<Tally> {
        self.targets.iter().map(|(_, terms)| Tally::of(terms)).collect()
    }

    fn matches(&self, line: &Line<'_>) -> Vec<(usize, Role)> {
        let label = |wanted: &str| {
            let found = line.labels.iter().find(|(label, _)| *label == wanted);
            found.map(|(_, value)| value.as_ref())
        };
        let fits = |term: &Term| {
            term.keys.iter().all(|(key, value)| label(key) == Some(value))
                && term.fixed.iter().all(|(key, values)| {
                    label(key).is_some_and(|found| values.iter().any(|value| value == found))
                })
        };
        let labels = self.wanted.get(line.name).into_iter().flatten();
        labels
            .filter_map(|known| known.terms.get(label(known.label)?))
            .flatten()
            .filter(|(target, place)| fits(&self.targets[*target].1[*place]))
            .map(|(target, place)| (*target, self.targets[*target].1[*place].role))
            .collect()
    }

    fn readings(&self, tallies: Vec<Tally>) -> Vec<Reading> {
        let named = self.targets.iter().zip(tallies);
        named
            .filter_map(|((name, _), tally)| {
                let counts = tally.counts(1.0, self.quantile)?;
                Some(Reading {
                    target: name.clone(),
                    counts,
                    age: Duration::ZERO,
                })
            })
            .collect()
    }
}

/// Every future's output, in order.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, output) in &mut running {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(ready) => *output = Some(ready),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}
