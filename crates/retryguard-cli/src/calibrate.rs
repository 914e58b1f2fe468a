//! `retryguard calibrate`: from what was observed of a service to a scenario that behaves like it.

#[cfg(feature = "controller")]
mod prometheus;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use retryguard_sim::calibrate::{Known, Observed, calibrate, read_csv};

/// Write a scenario from what was observed of a service: a Prometheus, or a file of requests.
///
/// The scenario has the arrivals over time, the time of the work, the share that fails whatever the load, how many requests are
/// worked on at once, and the queue. The fit is written into it and to standard error: observed beside simulated. Then
/// `retryguard simulate` shows what policies do to this service, and `rate.times` in the file another load.
///
/// Requests are taken as they arrive at the service. Where many of them are retries, look at a time with few.
///
/// Exits with 0, or with 2 when there is too little to fit to.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard calibrate --csv requests.csv --service payments > payments.yaml
  retryguard simulate payments.yaml")]
#[cfg_attr(
    feature = "controller",
    command(after_help = "Examples:
  retryguard calibrate --prometheus http://127.0.0.1:9090 --service payments --out payments.yaml
  retryguard calibrate --prometheus http://prometheus:9090 --service reviews --metrics istio
  retryguard calibrate --csv requests.csv --service payments > payments.yaml
  retryguard simulate payments.yaml")
)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub(crate) struct Calibrate {
    /// The name of the service, in the metrics and in the scenario.
    #[arg(long, value_name = "NAME")]
    service: String,
    /// A file with a line for each request: the columns `time` and `duration` in seconds (or `duration_ms`), and `status`.
    #[arg(long, value_name = "FILE")]
    #[arg(group = "source")]
    csv: Option<PathBuf>,
    #[cfg(feature = "controller")]
    #[command(flatten)]
    prometheus: prometheus::Server,
    /// The length of one window; at least two scrapes of the server.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    every: Duration,
    /// How long callers wait; half as much again as the longest observed latency by default.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    deadline: Option<Duration>,
    /// How many requests the service works on at once, all replicas together, where you know it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    workers: Option<u32>,
    /// How many replicas it has; counted by Prometheus' `instance` where it is not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    replicas: Option<u32>,
    /// The file to write; standard output by default.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Calibrate {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let (observed, replicas, source) = match &self.csv {
            Some(path) => (self.read(path)?, 1, format!("the requests in {}", path.display())),
            None => self.ask()?,
        };
        let known = Known {
            service: self.service.clone(),
            deadline: self.deadline,
            workers: self.workers,
            replicas: self.replicas.unwrap_or(replicas),
            source,
        };
        let result = calibrate(&observed, &known).map_err(|error| anyhow::anyhow!("{error}"))?;
        eprint!("{}", result.table());
        crate::output::put(self.out.as_deref(), &result.scenario)
    }

    fn read(&self, path: &Path) -> anyhow::Result<Observed> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read {}; give the path of a CSV file", path.display()))?;
        read_csv(&text, self.every).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
    }

    #[cfg(feature = "controller")]
    fn ask(&self) -> anyhow::Result<(Observed, u32, String)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.prometheus.ask(&self.service, self.every))
    }

    #[cfg(not(feature = "controller"))]
    fn ask(&self) -> anyhow::Result<(Observed, u32, String)> {
        anyhow::bail!("give a file of requests: --csv FILE")
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    retryguard_policy::reading::span(text)
        .filter(|span| !span.is_zero())
        .ok_or_else(|| "write a duration such as 10s, 5m or 1h".to_owned())
}
