//! One arm of the experiment: what switches retries, and what measures.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use retryguard_controller::reconcile::control_loop::Ended;
use retryguard_parts::{Envoy, Prometheus, free_port};

use super::super::controller::Controller;
use super::super::world::envoy;
use super::CAPACITY;
use super::load::{self, Phase, Seen};
use super::service::Limited;
use super::timeline::{Fate, Second, Timeline, Totals};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Actuator {
    Rtds,
    Admin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Scrape,
    Prometheus,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Arm {
    controller: Option<(Actuator, Source)>,
    /// The retries that the route has.
    retries: u32,
    /// The block `guard:` of the target; the defaults where it is empty.
    guard: &'static str,
    /// How many requests may wait at the service.
    queue: usize,
    /// Envoy's own retry budget, with its defaults.
    budget: bool,
    /// What the service can do, in calls a second.
    capacity: f64,
}

/// How often in a second the guard's state is asked for.
const TICKS: u64 = 10;

/// The queue of the paper's model (M/M/1/m) is finite too: here two rounds of work.
const QUEUE: usize = 16;

/// Envoy's defaults: 20 % of the requests in flight, and three at the least.
const RETRY_BUDGET: &str = "retry_budget: {budget_percent: {value: 20}, min_retry_concurrency: 3}";

impl Arm {
    /// Five retries, and no controller.
    pub(super) const WITHOUT_CONTROLLER: Self = Self {
        controller: None,
        retries: 5,
        guard: "",
        queue: QUEUE,
        budget: false,
        capacity: CAPACITY,
    };

    /// Five retries within Envoy's own retry budget, and no controller.
    pub(super) const BUDGET: Self = Self {
        budget: true,
        ..Self::WITHOUT_CONTROLLER
    };

    /// No retries at all.
    pub(super) const NONE: Self = Self {
        controller: None,
        retries: 0,
        guard: "",
        queue: QUEUE,
        budget: false,
        capacity: CAPACITY,
    };

    /// With a guard that comes back sooner than by default, for tests.
    pub(super) const fn new(actuator: Actuator, source: Source) -> Self {
        Self {
            controller: Some((actuator, source)),
            retries: 5,
            guard: "guard: {coolDown: 2s, stepFor: 2s}",
            queue: QUEUE,
            budget: false,
            capacity: CAPACITY,
        }
    }

    /// With the guard's defaults.
    pub(super) const fn with_defaults(mut self) -> Self {
        self.guard = "";
        self
    }

    /// Before a service without a queue.
    pub(super) const fn without_a_queue(mut self) -> Self {
        self.queue = 0;
        self
    }

    /// Before a service that can do so many calls a second.
    pub(super) const fn before(mut self, capacity: f64) -> Self {
        self.capacity = capacity;
        self
    }

    /// A name for a legend.
    pub(super) fn short(self) -> &'static str {
        match self.controller {
            None if self.retries == 0 => "no retries",
            None if self.budget => "Envoy's budget",
            None => "no controller",
            Some((Actuator::Rtds, Source::Scrape)) => "discovery, scraper",
            Some((Actuator::Rtds, Source::Prometheus)) => "discovery, Prometheus",
            Some((Actuator::Admin, Source::Scrape)) => "admin, scraper",
            Some((Actuator::Admin, Source::Prometheus)) => "admin, Prometheus",
        }
    }

    /// Sets it up.
    pub(super) async fn start(self) -> World {
        let service = Limited::start(self.capacity, self.queue).await;
        let port = free_port();
        let retries = format!("num_retries: {}", self.retries);
        let envoy = envoy(service.port, port, |text| {
            let text = text.replace("num_retries: 5", &retries);
            if self.budget {
                assert!(text.contains("max_retries: 4096"), "the breaker of the bootstrap");
                text.replace("max_retries: 4096", RETRY_BUDGET)
            } else {
                text
            }
        });
        let prometheus = match self.controller {
            Some((_, Source::Prometheus)) => Some(scraping(&envoy)),
            _ => None,
        };
        let controller = match self.configuration(&envoy, port, prometheus.as_ref()) {
            Some(text) => Some(Controller::start(&text).await),
            None => None,
        };
        World {
            service,
            envoy,
            _prometheus: prometheus,
            controller,
        }
    }

    /// Runs the load through it.
    pub(super) async fn run(self, phases: &[Phase], seed: u64) -> Timeline {
        let world = self.start().await;
        let seen: Vec<Arc<Seen>> = phases.iter().map(|_| Arc::default()).collect();
        let load = tokio::spawn({
            let (url, phases, seen) = (world.envoy.url(), phases.to_vec(), seen.clone());
            let fault = Arc::clone(&world.service.fault);
            async move { load::run(url, &phases, seed, seen, fault).await }
        });
        let lasts: Duration = phases.iter().map(|phase| phase.lasts).sum();
        let mut line = Timeline::default();
        let mut ticks = tokio::time::interval(Duration::from_millis(1_000 / TICKS));
        ticks.tick().await;
        for tick in 1..=lasts.as_secs() * TICKS {
            ticks.tick().await;
            let state = world.state().await;
            line.note(tick as f64 / TICKS as f64, &state);
            if tick % TICKS == 0 {
                let totals = world.totals(tick / TICKS, &seen);
                line.seconds.push(Second { totals, state });
            }
        }
        load.await.unwrap();
        line.fates = seen.iter().map(|seen| Fate::of(seen)).collect();
        world.stop().await;
        line
    }

    fn configuration(self, envoy: &Envoy, port: u16, prometheus: Option<&Prometheus>) -> Option<String> {
        let (actuator, _) = self.controller?;
        let admin = envoy.admin();
        let source = match prometheus {
            None => format!("scrape: {{addresses: [\"{admin}/stats/prometheus\"]}}"),
            Some(prometheus) => format!(
                "prometheus: {{url: \"{}\", every: 1s, window: 3s}}",
                prometheus.url()
            ),
        };
        let word = if prometheus.is_some() {
            "prometheus"
        } else {
            "scrape"
        };
        let actuator = match actuator {
            Actuator::Rtds => format!("envoy-rtds: {{listen: \"127.0.0.1:{port}\", learnFor: 1s}}"),
            Actuator::Admin => format!("envoy-admin: {{addresses: [\"{admin}\"]}}"),
        };
        Some(format!(
            "sources:\n  {source}\nactuators:\n  {actuator}\ntargets:\n  reviews:\n    {word}: {{envoy: {{}}}}\n    {}\n",
            self.guard
        ))
    }
}

/// An arm that stands.
pub(super) struct World {
    pub(super) service: Limited,
    pub(super) envoy: Envoy,
    _prometheus: Option<Prometheus>,
    pub(super) controller: Option<Controller>,
}

impl World {
    /// The guard's state; "allowed" where there is none.
    pub(super) async fn state(&self) -> String {
        match &self.controller {
            Some(controller) => controller.state().await,
            None => "allowed".to_owned(),
        }
    }

    /// What has been counted so far.
    pub(super) fn totals(&self, seconds: u64, seen: &[Arc<Seen>]) -> Totals {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let sum = |count: fn(&Seen) -> &AtomicU64| seen.iter().map(|seen| read(count(seen))).sum();
        Totals {
            seconds,
            calls: sum(|seen| &seen.calls),
            succeeded: sum(|seen| &seen.succeeded),
            failed: sum(|seen| &seen.failed),
            attempts: read(&self.service.counts.attempts),
            served: read(&self.service.counts.served),
        }
    }

    pub(super) async fn stop(self) {
        if let Some(controller) = self.controller {
            assert_eq!(controller.stop().await, Ended::Restored);
        }
    }
}

/// A Prometheus that scrapes this Envoy every second.
pub(super) fn scraping(envoy: &Envoy) -> Prometheus {
    Prometheus::start(&format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: envoy\n  metrics_path: /stats/prometheus\n  \
         static_configs: [{{targets: [\"127.0.0.1:{}\"]}}]\n",
        envoy.ports().admin
    ))
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.controller {
            None if self.retries == 0 => f.write_str("no retries at all"),
            None if self.budget => write!(f, "{} retries, Envoy's retry budget", self.retries),
            None => write!(f, "{} retries, no controller", self.retries),
            Some((Actuator::Rtds, Source::Scrape)) => f.write_str("controller: discovery, own scraper"),
            Some((Actuator::Rtds, Source::Prometheus)) => f.write_str("controller: discovery, Prometheus"),
            Some((Actuator::Admin, Source::Scrape)) => f.write_str("controller: admin, own scraper"),
            Some((Actuator::Admin, Source::Prometheus)) => f.write_str("controller: admin, Prometheus"),
        }
    }
}
