//! How one controller bears many targets and many Envoys.
//!
//! `cargo run --release -p retryguard-controller --features envoy --example scale -- [TARGETS] [ENVOYS]` runs the whole loop over
//! readings of its own, with Envoys that are simulated by another process and speak runtime discovery over loopback: each has
//! a connection, subscribes, and acknowledges what it gets. Prints a table: memory and processor time of the controller
//! alone, and the delay from the deciding sample until an Envoy has the switch.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use std::{
    collections::{BTreeMap, HashSet},
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::runtime::v3::runtime_discovery_service_client::RuntimeDiscoveryServiceClient;
use retryguard_controller::adapters::election::single::SingleInstance;
use retryguard_controller::clock::{sleep, unix_time};
use retryguard_controller::config::Config;
use retryguard_controller::domain::counts::{Counts, Reading};
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::control_loop::{Components, MOST_QUERIES, Query, run};
use retryguard_controller::reconcile::source::{Round, Source};
use retryguard_controller::start;
use tokio::sync::{mpsc, oneshot};
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

/// How many targets begin to be overloaded in each round.
const PER_ROUND: usize = 20;
/// How many rounds have new overloads.
const ROUNDS: usize = 10;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, port, envoys] = &arguments[..]
        && role == "envoys"
    {
        simulate(port.parse().unwrap(), envoys.parse().unwrap()).await;
        return;
    }
    let number = |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().unwrap());
    measure(number(0, 10_000), number(1, 1_000)).await;
}

/// When each target's deciding sample was read.
type Decided = Arc<Mutex<BTreeMap<String, Duration>>>;

/// Every target in every round: a hundred calls, and all of them rejected where the target is overloaded.
struct Script {
    targets: Vec<TargetName>,
    begun: Arc<Mutex<bool>>,
    round: usize,
    decided: Decided,
}

impl Source for Script {
    fn name(&self) -> &'static str {
        "scrape"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn read(&mut self) -> Round<'_> {
        if *self.begun.lock().unwrap() && self.round < ROUNDS {
            self.round += 1;
            let new = (self.round - 1) * PER_ROUND..self.round * PER_ROUND;
            let now = unix_time();
            let mut decided = self.decided.lock().unwrap();
            for target in self.targets.get(new).unwrap_or_default() {
                decided.insert(target.as_str().to_owned(), now);
            }
        }
        let overloaded = self.round * PER_ROUND;
        let readings = self.targets.iter().enumerate().map(|(place, target)| Reading {
            target: target.clone(),
            counts: Counts {
                calls: 100,
                rejected: Some(if place < overloaded { 100 } else { 0 }),
                retries: Some(0),
                ..Counts::default()
            },
            age: Duration::ZERO,
        });
        let readings = readings.collect();
        Box::pin(std::future::ready(Ok(readings)))
    }
}

async fn measure(targets: usize, envoys: usize) {
    start::raise_descriptor_limit();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut text = format!(
        "sources: {{scrape: {{addresses: ['http://127.0.0.1:1/']}}}}\n\
         actuators: {{envoy-rtds: {{listen: '127.0.0.1:{port}'}}}}\n\
         limits: {{hold: 1h, changesPerMinuteInAll: 100000}}\ntargets:\n"
    );
    for target in 0..targets {
        text.push_str(&format!(
            "  t{target:05}: {{scrape: {{envoy: {{}}}}, guard: {{samples: 1, coolDown: 1h}}}}\n"
        ));
    }
    let config = Config::parse(&text, std::path::Path::new(".")).unwrap_or_else(|wrong| panic!("{wrong}"));
    let parts = start::components(&config, false, true).await.unwrap();
    let decided = Decided::default();
    let begun = Arc::new(Mutex::new(false));
    let script = Script {
        targets: config.targets.iter().map(|target| target.name.clone()).collect(),
        begun: Arc::clone(&begun),
        round: 0,
        decided: Arc::clone(&decided),
    };
    let components = Components {
        sources: vec![Box::new(script)],
        election: Box::new(SingleInstance),
        ..parts
    };
    let (queries, received) = mpsc::channel(MOST_QUERIES);
    let (stop, stopped) = oneshot::channel::<()>();
    let controller = tokio::spawn(run(components, received, async {
        let _ = stopped.await;
    }));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["envoys", &port.to_string(), &envoys.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    until(&queries, |accepted| accepted >= envoys as u64).await;
    let idle_from = (processor_seconds(), unix_time());
    sleep(Duration::from_secs(10)).await;
    let idle = per_second(idle_from);
    let busy_from = (processor_seconds(), unix_time());
    *begun.lock().unwrap() = true;
    sleep(Duration::from_secs(ROUNDS as u64 + 1)).await;
    let last = format!("t{:05}=off", ROUNDS * PER_ROUND - 1);
    until_version(&queries, &last, envoys as u64).await;
    let busy = per_second(busy_from);
    // The other end says what it got when its input ends.
    drop(child.stdin.take());
    let mut delays = Vec::new();
    {
        let decided = decided.lock().unwrap();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let (target, at) = line.split_once(' ').unwrap();
            let at = Duration::from_micros(at.parse().unwrap());
            if let Some(sample) = decided.get(target) {
                delays.push(at.saturating_sub(*sample));
            }
        }
    }
    child.wait().unwrap();
    let memory = memory_mebibytes();
    let _ = stop.send(());
    let _ = controller.await;
    delays.sort_unstable();
    let switches = ROUNDS * PER_ROUND * envoys;
    println!(
        "| targets | Envoys | memory | processor, quiet | processor, {PER_ROUND} switches a second | delay, median | delay, worst | switches seen |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    println!(
        "| {targets} | {envoys} | {memory:.0} MiB | {:.0} % | {:.0} % | {:.0} ms | {:.0} ms | {} of {switches} |",
        idle * 100.0,
        busy * 100.0,
        delays
            .get(delays.len() / 2)
            .map_or(f64::NAN, |delay| delay.as_secs_f64() * 1e3),
        delays.last().map_or(f64::NAN, |delay| delay.as_secs_f64() * 1e3),
        delays.len()
    );
}

async fn status(queries: &mpsc::Sender<Query>) -> serde_json::Value {
    let (send, answer) = oneshot::channel();
    queries.send(Query::Status(send)).await.unwrap();
    let mut status = answer.await.unwrap();
    status["actuators"][0]["details"].take()
}

async fn until(queries: &mpsc::Sender<Query>, enough: impl Fn(u64) -> bool) {
    for _ in 0..600 {
        if enough(status(queries).await["accepted"].as_u64().unwrap_or(0)) {
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
    panic!("the Envoys never came");
}

async fn until_version(queries: &mpsc::Sender<Query>, part: &str, envoys: u64) {
    for _ in 0..600 {
        let details = status(queries).await;
        let all = details["accepted"].as_u64() == Some(envoys);
        if all
            && details["version"]
                .as_str()
                .is_some_and(|version| version.contains(part))
        {
            return;
        }
        sleep(Duration::from_millis(250)).await;
    }
    panic!("the last switch never came");
}

/// Envoys, until the input ends; then each switch that each of them got, with its time.
async fn simulate(port: u16, envoys: usize) {
    start::raise_descriptor_limit();
    let seen: Arc<Mutex<Vec<(String, Duration)>>> = Arc::default();
    for number in 0..envoys {
        tokio::spawn(envoy(port, number, Arc::clone(&seen)));
    }
    tokio::task::spawn_blocking(|| std::io::stdin().lines().count())
        .await
        .unwrap();
    let mut out = std::io::stdout().lock();
    for (target, at) in seen.lock().unwrap().iter() {
        writeln!(out, "{target} {}", at.as_micros()).unwrap();
    }
}

async fn envoy(port: u16, number: usize, seen: Arc<Mutex<Vec<(String, Duration)>>>) {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    loop {
        let Ok(channel) = endpoint.connect().await else {
            sleep(Duration::from_millis(500)).await;
            continue;
        };
        let (ask, requests) = mpsc::channel(4);
        let first = DiscoveryRequest {
            node: Some(Node {
                id: format!("envoy-{number}"),
                ..Node::default()
            }),
            resource_names: vec!["retryguard".to_owned()],
            ..DiscoveryRequest::default()
        };
        ask.send(first).await.unwrap();
        let mut client = RuntimeDiscoveryServiceClient::new(channel);
        let Ok(answers) = client.stream_runtime(ReceiverStream::new(requests)).await else {
            sleep(Duration::from_millis(500)).await;
            continue;
        };
        let mut answers = answers.into_inner();
        let mut off: HashSet<String> = HashSet::new();
        while let Ok(Some(answer)) = answers.message().await {
            let now = unix_time();
            for word in answer.version_info.split(' ') {
                if let Some(target) = word.strip_suffix("=off")
                    && off.insert(target.to_owned())
                {
                    seen.lock().unwrap().push((target.to_owned(), now));
                }
            }
            let acknowledged = DiscoveryRequest {
                resource_names: vec!["retryguard".to_owned()],
                version_info: answer.version_info,
                response_nonce: answer.nonce,
                ..DiscoveryRequest::default()
            };
            if ask.send(acknowledged).await.is_err() {
                break;
            }
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// The processor time of this process so far.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    // User and system time, in ticks of 10 ms.
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

fn per_second((processor, at): (f64, Duration)) -> f64 {
    (processor_seconds() - processor) / unix_time().saturating_sub(at).as_secs_f64()
}

fn memory_mebibytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
