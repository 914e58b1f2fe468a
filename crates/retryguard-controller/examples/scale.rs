//! How many targets and Envoys one controller bears.
//!
//! `cargo xtask evidence controller-scale` runs it with the argument `page FILE`, and it writes that page: for each size it starts
//! itself with `TARGETS ENVOYS`, which prints one row of the table. Such a process is the controller. A third process
//! simulates the Envoys: each has a connection of its own, subscribes by runtime discovery over loopback and
//! acknowledges what it gets. It also serves the page of metrics that the controller scrapes each second, so one clock
//! measures the delay from a sample to its switch.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::runtime::v3::runtime_discovery_service_client::RuntimeDiscoveryServiceClient;
use retryguard_controller::clock::{sleep, unix_time};
use retryguard_controller::config::Config;
use retryguard_controller::reconcile::control_loop::{MOST_QUERIES, Query, run};
use retryguard_controller::start;
use tokio::sync::{mpsc, oneshot};
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

/// Targets and Envoys of each row.
const SIZES: [(u32, u32); 4] = [(100, 100), (10_000, 100), (1_000, 1_000), (10_000, 1_000)];
/// How many targets begin to be overloaded with each page.
const PER_ROUND: usize = 20;
/// How many pages have new overloads.
const ROUNDS: usize = 10;
/// How long the quiet part lasts.
const QUIET: Duration = Duration::from_secs(10);
/// The calls to each target between two pages.
const CALLS: u64 = 100;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().unwrap();
    start::raise_descriptor_limit();
    match arguments[..] {
        ["page", file] => write_page(file),
        [targets, envoys] => measure(number(targets), number(envoys)).await,
        ["envoys", port, targets, envoys] => {
            simulate(port.parse().unwrap(), number(targets), number(envoys)).await;
        }
        _ => panic!("the arguments are `page FILE` or `TARGETS ENVOYS`"),
    }
}

fn write_page(file: &str) {
    let rows: String = SIZES
        .map(|(targets, envoys)| {
            eprintln!("== scale: {targets} targets, {envoys} Envoys");
            let output = Command::new(std::env::current_exe().unwrap())
                .args([targets.to_string(), envoys.to_string()])
                .stderr(Stdio::inherit())
                .output()
                .unwrap();
            assert!(output.status.success(), "the run failed: {}", output.status);
            String::from_utf8(output.stdout).unwrap()
        })
        .concat();
    std::fs::write(file, page_text(&rows)).unwrap();
    eprintln!("== scale: {file} is written");
}

fn page_text(rows: &str) -> String {
    format!(
        "# The controller at scale\n\n\
         Written by `cargo xtask evidence controller-scale`; do not edit.\n\n\
         One controller, with all of its parts: it scrapes a page of metrics each second that has seven series of every \
         target, decides for each target, and switches through runtime discovery. The Envoys are simulated by another \
         process and speak xDS over loopback: each has a connection of its own, subscribes, and acknowledges what it gets. \
         In the quiet part nothing is switched, for ten seconds. In the busy part twenty more targets become overloaded with \
         each of ten pages, so that every Envoy is sent the whole layer anew for each change; at its end two hundred targets \
         (one hundred in the smallest run) are off.\n\n\
         Memory and processor time are those of the controller's process alone; 100 % is one core. The delay counts from the \
         moment at which the page with a target's first bad sample was handed out until one Envoy had the switch, over all \
         targets and Envoys. Everything ran on one machine with two cores that had other work to do, the simulated Envoys \
         included: the delay has their processor time in it.\n\n\
         | targets | Envoys | memory | processor, quiet | processor, busy | delay, median | delay, 99 % | delay, worst | switches seen |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n\
         {rows}\n\
         The layer is one resource of xDS and is sent whole, so a change costs as much as there are targets that are off, \
         times the number of Envoys. Beyond these sizes, `shards` gives each of several controllers a part of the targets.\n"
    )
}

fn name(target: usize) -> String {
    format!("t{target:05}")
}

async fn measure(targets: usize, envoys: usize) {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "envoys",
            &port.to_string(),
            &targets.to_string(),
            &envoys.to_string(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let page = said.next().unwrap().unwrap();
    let mut text = format!(
        "sources: {{scrape: {{addresses: ['{page}']}}}}\n\
         actuators: {{envoy-rtds: {{listen: '127.0.0.1:{port}'}}}}\n\
         limits: {{hold: 1h, changesPerMinuteInAll: 100000}}\ntargets:\n"
    );
    for target in 0..targets {
        let _ = writeln!(
            text,
            "  {}: {{scrape: {{envoy: {{}}}}, guard: {{samples: 1, coolDown: 1h}}}}",
            name(target)
        );
    }
    let config = Config::parse(&text, std::path::Path::new(".")).unwrap_or_else(|wrong| panic!("{wrong}"));
    let components = start::components(&config, false, true).await.unwrap();
    let (queries, received) = mpsc::channel(MOST_QUERIES);
    let (stop, stopped) = oneshot::channel::<()>();
    let controller = tokio::spawn(run(components, received, async {
        let _ = stopped.await;
    }));
    all_accept(&queries, "", envoys).await;
    // A few pages more, so that what the start costs is over.
    sleep(Duration::from_secs(3)).await;
    let quiet_from = (processor_seconds(), unix_time());
    sleep(QUIET).await;
    let quiet = per_second(quiet_from);
    let busy_from = (processor_seconds(), unix_time());
    let mut orders: ChildStdin = child.stdin.take().unwrap();
    writeln!(orders, "overload").unwrap();
    let overloaded = targets.min(ROUNDS * PER_ROUND);
    all_accept(&queries, &format!("{}=off", name(overloaded - 1)), envoys).await;
    let busy = per_second(busy_from);
    let memory = memory_mebibytes();
    drop(orders);
    let mut delays: Vec<f64> = said.map(|line| line.unwrap().parse().unwrap()).collect();
    child.wait().unwrap();
    let _ = stop.send(());
    let _ = controller.await;
    delays.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        let place = delays.len() * percent / 100;
        let last = delays.len().saturating_sub(1);
        delays.get(place.min(last)).copied().unwrap_or(f64::NAN)
    };
    println!(
        "| {targets} | {envoys} | {memory:.0} MiB | {:.0} % | {:.0} % | {:.0} ms | {:.0} ms | {:.0} ms | {} of {} |",
        quiet * 100.0,
        busy * 100.0,
        at(50),
        at(99),
        at(100),
        delays.len(),
        overloaded * envoys
    );
}

/// Waits until every Envoy has accepted a layer whose version has this part.
async fn all_accept(queries: &mpsc::Sender<Query>, part: &str, envoys: usize) {
    for _ in 0..1_200 {
        let (send, answer) = oneshot::channel();
        queries.send(Query::Status(send)).await.unwrap();
        let mut status = answer.await.unwrap();
        let details = status["actuators"][0]["details"].take();
        let version = details["version"].as_str().unwrap_or_default();
        if details["accepted"].as_u64() == Some(envoys as u64) && version.contains(part) {
            return;
        }
        sleep(Duration::from_millis(500)).await;
    }
    panic!("not every Envoy accepts `{part}`");
}

/// What the Envoys have counted, and when each target's first bad sample was handed out.
struct Metrics {
    targets: usize,
    pages: u64,
    /// Whether more targets become overloaded with each page.
    overload: bool,
    overloaded: usize,
    /// The page from which on each overloaded target is overloaded.
    since: Vec<u64>,
    handed_out: BTreeMap<String, Duration>,
}

type Shared = Arc<Mutex<Metrics>>;

/// A page in Envoy's format: `CALLS` more calls to each target than on the page before. Each call to an overloaded target has
/// two retries, and all of its attempts are rejected.
async fn page(State(metrics): State<Shared>) -> String {
    let mut metrics = metrics.lock().unwrap();
    metrics.pages += 1;
    let before = metrics.overloaded;
    if metrics.overload && before < metrics.targets.min(ROUNDS * PER_ROUND) {
        metrics.overloaded = (before + PER_ROUND).min(metrics.targets);
        let pages = metrics.pages;
        let now_overloaded = metrics.overloaded;
        metrics.since.resize(now_overloaded, pages);
    }
    let mut text = String::with_capacity(metrics.targets * 512);
    for target in 0..metrics.targets {
        let bad_pages = metrics
            .since
            .get(target)
            .map_or(0, |since| metrics.pages - since + 1);
        let (calls, bad) = (CALLS * metrics.pages, CALLS * bad_pages);
        let label = format!("envoy_cluster_name=\"{}\"", name(target));
        for (metric, value) in [
            ("upstream_rq_total", calls + 2 * bad),
            ("upstream_rq_retry", 2 * bad),
            ("upstream_rq_retry_success", 0),
            ("upstream_rq_completed", calls),
            ("retry_upstream_rq_completed", 2 * bad),
        ] {
            let _ = writeln!(text, "envoy_cluster_{metric}{{{label}}} {value}");
        }
        for (metric, value) in [("upstream_rq", bad), ("retry_upstream_rq", 2 * bad)] {
            let _ = writeln!(
                text,
                "envoy_cluster_{metric}{{envoy_response_code=\"503\",{label}}} {value}"
            );
        }
    }
    let now = unix_time();
    for target in before..metrics.overloaded {
        metrics.handed_out.insert(name(target), now);
    }
    text
}

/// When each Envoy got each switch.
type Switches = Arc<Mutex<Vec<(String, Duration)>>>;

/// Envoys and their metrics, until the input ends; then each delay in milliseconds.
async fn simulate(port: u16, targets: usize, envoys: usize) {
    let metrics = Arc::new(Mutex::new(Metrics {
        targets,
        pages: 0,
        overload: false,
        overloaded: 0,
        since: Vec::new(),
        handed_out: BTreeMap::new(),
    }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}/metrics", listener.local_addr().unwrap());
    let app = Router::new().fallback(page).with_state(Arc::clone(&metrics));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let switches = Switches::default();
    for number in 0..envoys {
        tokio::spawn(envoy(port, number, Arc::clone(&switches)));
    }
    let orders = Arc::clone(&metrics);
    tokio::task::spawn_blocking(move || {
        for _ in std::io::stdin().lines() {
            orders.lock().unwrap().overload = true;
        }
    })
    .await
    .unwrap();
    let metrics = metrics.lock().unwrap();
    let mut out = std::io::stdout().lock();
    for (target, at) in switches.lock().unwrap().iter() {
        let sample = metrics.handed_out[target];
        writeln!(out, "{}", at.saturating_sub(sample).as_secs_f64() * 1e3).unwrap();
    }
}

/// One Envoy, which comes back as often as its stream ends.
async fn envoy(port: u16, number: usize, switches: Switches) {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    loop {
        let _ = subscribe(&endpoint, number, &switches).await;
        sleep(Duration::from_millis(500)).await;
    }
}

async fn subscribe(
    endpoint: &Endpoint,
    number: usize,
    switches: &Switches,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut client = RuntimeDiscoveryServiceClient::new(endpoint.connect().await?);
    let (ask, requests) = mpsc::channel(4);
    let wanted = DiscoveryRequest {
        resource_names: vec!["retryguard".to_owned()],
        ..DiscoveryRequest::default()
    };
    let first = DiscoveryRequest {
        node: Some(Node {
            id: format!("envoy-{number}"),
            ..Node::default()
        }),
        ..wanted.clone()
    };
    ask.send(first).await?;
    let mut answers = client
        .stream_runtime(ReceiverStream::new(requests))
        .await?
        .into_inner();
    let mut off: HashSet<String> = HashSet::new();
    while let Some(answer) = answers.message().await? {
        let now = unix_time();
        for word in answer.version_info.split(' ') {
            if let Some(target) = word.strip_suffix("=off")
                && off.insert(target.to_owned())
            {
                switches.lock().unwrap().push((target.to_owned(), now));
            }
        }
        let acknowledged = DiscoveryRequest {
            version_info: answer.version_info,
            response_nonce: answer.nonce,
            ..wanted.clone()
        };
        ask.send(acknowledged).await?;
    }
    Ok(())
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
