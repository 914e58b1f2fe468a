//! Three controllers share the targets of one Envoy by leases in Redis, PostgreSQL or Kubernetes. They are killed and paused, and
//! every write to Envoy is compared with the lease of that moment.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use http::{Method, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use retryguard_controller::clock::Clock;
use retryguard_controller::config::Config;
use retryguard_controller::domain::shard::Shard;
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::control_loop::MOST_QUERIES;
use retryguard_controller::reconcile::shards::run_shards;
use retryguard_controller::start;
use retryguard_core::Instant;
use retryguard_parts::{Envoy, Postgres, Process, Redis, free_port};
use sqlx::{Connection as _, PgConnection};
use tokio::sync::mpsc;

use crate::envoy::world::{Down, client, envoy, pause, until};
use crate::kubernetes::cluster::Cluster;

const VARIABLE: &str = "RETRYGUARD_TEST_SHARDS";
const SHARDS: usize = 3;
/// The length of a lease.
const TERM: Duration = Duration::from_secs(6);
const TARGETS: usize = 6;

/// No test: one of the controllers.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_of_its_own() {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let config = Config::parse(&text, Path::new(".")).unwrap();
    let shards = start::shards(&config, false, false).await.unwrap();
    let (_queries, received) = mpsc::channel(MOST_QUERIES);
    run_shards(shards, received, std::future::pending()).await;
}

fn name(target: usize) -> String {
    format!("target-{target}")
}

fn shard_of(target: &str) -> usize {
    let name = TargetName::new(target);
    let owns = |number: &usize| {
        Shard {
            number: *number,
            of: SHARDS,
        }
        .owns(&name)
    };
    (0..SHARDS).find(owns).unwrap()
}

/// What all targets have counted.
#[derive(Default)]
struct Traffic {
    overloaded: bool,
    calls: u64,
    rejected: u64,
}

/// A write to Envoy's runtime.
#[derive(Debug, Clone)]
struct Write {
    controller: String,
    target: String,
    /// Whether the writer had the lease of the target's shard before and after the write.
    held: bool,
}

/// Where the leases are.
enum Leases {
    Redis(Redis),
    Postgres(Postgres),
    Kubernetes(Cluster),
}

impl Leases {
    /// The block of the configuration.
    fn written(&self) -> String {
        match self {
            Self::Redis(redis) => format!("redis: {{url: '{}', name: test, term: 6s}}", redis.url()),
            Self::Postgres(postgres) => {
                format!("postgres: {{url: '{}', name: test, term: 6s}}", postgres.url())
            }
            Self::Kubernetes(cluster) => {
                let namespace = &cluster.namespace;
                format!("kubernetes: {{namespace: {namespace}, name: test, term: 6s}}")
            }
        }
    }

    /// The holder that the lease of a shard names. A Lease in Kubernetes names a lost holder until it is taken.
    async fn holder(&self, shard: usize) -> Option<String> {
        match self {
            Self::Redis(redis) => {
                let client = redis::Client::open(redis.url()).ok()?;
                let mut connection = client.get_multiplexed_async_connection().await.ok()?;
                redis::cmd("GET")
                    .arg(format!("{{retryguard:test-{shard}}}:leader"))
                    .query_async(&mut connection)
                    .await
                    .ok()?
            }
            Self::Postgres(postgres) => {
                let mut connection = PgConnection::connect(&postgres.url()).await.ok()?;
                sqlx::query_scalar(
                    "SELECT holder FROM retryguard_lead WHERE name = $1 AND ends > clock_timestamp()",
                )
                .bind(format!("test-{shard}"))
                .fetch_optional(&mut connection)
                .await
                .ok()?
            }
            Self::Kubernetes(cluster) => {
                let leases: kube::Api<Lease> =
                    kube::Api::namespaced(cluster.client.clone(), &cluster.namespace);
                let lease = leases.get_opt(&format!("test-{shard}")).await.ok()??;
                lease.spec?.holder_identity
            }
        }
    }
}

/// Stands between the controllers and Envoy, and has a path of its own for each controller.
#[derive(Clone)]
struct Between {
    envoy: String,
    leases: Arc<Leases>,
    writes: Arc<Mutex<Vec<Write>>>,
    traffic: Arc<Mutex<Traffic>>,
}

impl Between {
    /// The controllers that hold each shard; one that is dead and whose lease has not ended counts. A holder's name begins with
    /// the name of its machine, and each controller here has a machine's name of its own.
    async fn holders(&self) -> Vec<Option<String>> {
        let mut all = Vec::new();
        for shard in 0..SHARDS {
            let holder = self.leases.holder(shard).await;
            let controller = holder.and_then(|holder| {
                let (controller, _) = holder.split_once('.')?;
                Some(controller.to_owned())
            });
            all.push(controller);
        }
        all
    }

    async fn holds(&self, controller: &str, shard: usize) -> bool {
        self.holders().await[shard].as_deref() == Some(controller)
    }

    fn page(&self) -> String {
        let traffic = self.traffic.lock().unwrap();
        let mut text = String::new();
        for target in 0..TARGETS {
            let label = format!("envoy_cluster_name=\"{}\"", name(target));
            for metric in ["upstream_rq_total", "upstream_rq_completed"] {
                let _ = writeln!(text, "envoy_cluster_{metric}{{{label}}} {}", traffic.calls);
            }
            let _ = writeln!(text, "envoy_cluster_upstream_rq_retry{{{label}}} 0");
            let _ = writeln!(
                text,
                "envoy_cluster_upstream_rq{{envoy_response_code=\"503\",{label}}} {}",
                traffic.rejected
            );
        }
        text
    }

    /// The targets whose retries Envoy holds back, wholly or in part.
    async fn switched(&self) -> Option<usize> {
        let answer = client().get(format!("{}/runtime", self.envoy)).send().await;
        let text = answer.ok()?.text().await.ok()?;
        let held =
            (0..TARGETS).filter(|target| text.contains(&format!("retryguard.{}.share", name(*target))));
        Some(held.count())
    }
}

async fn relay(State(between): State<Between>, request: Request) -> impl IntoResponse {
    let uri = request.uri().to_string();
    let Some((controller, rest)) = uri.trim_start_matches('/').split_once('/') else {
        return (StatusCode::OK, between.page());
    };
    let target = (0..TARGETS)
        .map(name)
        .find(|target| rest.contains(target.as_str()));
    let write = target.filter(|_| request.method() == Method::POST);
    let mut held = true;
    if let Some(target) = &write {
        held = between.holds(controller, shard_of(target)).await;
    }
    let method = request.method().clone();
    let answer = client()
        .request(method, format!("{}/{rest}", between.envoy))
        .send()
        .await;
    if let Some(target) = write {
        held &= between.holds(controller, shard_of(&target)).await;
        between.writes.lock().unwrap().push(Write {
            controller: controller.to_owned(),
            target,
            held,
        });
    }
    match answer {
        Ok(answer) => (answer.status(), answer.text().await.unwrap_or_default()),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()),
    }
}

struct World {
    between: Between,
    address: String,
    controllers: BTreeMap<String, Process>,
    started: usize,
    _envoy: Envoy,
}

impl World {
    async fn start(leases: Leases) -> Self {
        let service = Down::start().await;
        let envoy = tokio::task::block_in_place(|| envoy(service.port, free_port(), |text| text));
        let between = Between {
            envoy: envoy.admin(),
            leases: Arc::new(leases),
            writes: Arc::default(),
            traffic: Arc::default(),
        };
        let traffic = Arc::clone(&between.traffic);
        tokio::spawn(async move {
            loop {
                {
                    let mut traffic = traffic.lock().unwrap();
                    traffic.calls += 10;
                    traffic.rejected += if traffic.overloaded { 10 } else { 0 };
                }
                pause(100).await;
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(relay).with_state(between.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self {
            between,
            address,
            controllers: BTreeMap::new(),
            started: 0,
            _envoy: envoy,
        }
    }

    /// One more controller, with a name that none had before.
    fn launch(&mut self) {
        let controller = format!("controller-{}", self.started);
        self.started += 1;
        let mut text = format!(
            "sources: {{scrape: {{addresses: ['{0}/']}}}}\n\
             actuators: {{envoy-admin: {{addresses: ['{0}/{controller}']}}}}\n\
             limits: {{resync: 2s, timeout: 2s, changesPerMinute: 600}}\n\
             leaderElection: {{shards: {SHARDS}, {1}}}\ntargets:\n",
            self.address,
            self.between.leases.written()
        );
        for target in 0..TARGETS {
            let _ = writeln!(
                text,
                "  {}: {{scrape: {{envoy: {{}}}}, guard: {{samples: 2, minimumCalls: 5, coolDown: 1s, stepFor: 1s}}}}",
                name(target)
            );
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "shards::a_controller_of_its_own"])
            .env(VARIABLE, text)
            .env("HOSTNAME", format!("{controller}.test"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Leases::Kubernetes(cluster) = &*self.between.leases {
            command.env("KUBECONFIG", cluster.server.kubeconfig());
        }
        let process = tokio::task::block_in_place(|| Process::start(command).unwrap());
        self.controllers.insert(controller, process);
    }

    /// The longest time, in leases, for which a shard that `lost` held stayed without another holder. The lost holder's leases have up
    /// to a whole term left.
    async fn taken_over(&self, lost: &str) -> f64 {
        let lost_at = Clock::start();
        self.all_held(Some(lost)).await;
        lost_at.now().since(Instant::ZERO).as_secs_f64() / TERM.as_secs_f64()
    }

    /// Waits until every shard has a holder that is not `but`.
    async fn all_held(&self, but: Option<&str>) {
        until("every shard has a holder", || async {
            let holders = self.between.holders().await;
            holders
                .iter()
                .all(|holder| holder.is_some() && holder.as_deref() != but)
        })
        .await;
    }

    /// Waits until every controller leads as many shards as the others, or one more; the time in leases. All that while Envoy holds
    /// the retries of `held` targets back.
    async fn spread_evenly(&self, held: usize) -> f64 {
        let started_at = Clock::start();
        until("the shards are spread", || async {
            if let Some(switched) = self.between.switched().await {
                assert_eq!(switched, held, "retries came back while a shard was handed over");
            }
            let holders = self.between.holders().await;
            let led = |controller: &String| {
                holders
                    .iter()
                    .flatten()
                    .filter(|holder| *holder == controller)
                    .count()
            };
            let counts: Vec<usize> = self.controllers.keys().map(led).collect();
            let (least, most) = (counts.iter().min(), counts.iter().max());
            counts.iter().sum::<usize>() == SHARDS
                && most.zip(least).is_some_and(|(most, least)| most - least <= 1)
        })
        .await;
        started_at.now().since(Instant::ZERO).as_secs_f64() / TERM.as_secs_f64()
    }

    async fn switched(&self, wanted: usize) {
        until("the switches that are wanted", || async {
            self.between.switched().await == Some(wanted)
        })
        .await;
    }

    fn overload(&self, overloaded: bool) {
        self.between.traffic.lock().unwrap().overloaded = overloaded;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy and Redis"]
async fn no_target_is_driven_by_two_controllers_with_redis() {
    let redis = tokio::task::block_in_place(Redis::start);
    never_driven_by_two(Leases::Redis(redis)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy and PostgreSQL"]
async fn no_target_is_driven_by_two_controllers_with_postgres() {
    let postgres = tokio::task::block_in_place(Postgres::start);
    never_driven_by_two(Leases::Postgres(postgres)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy and Kubernetes"]
async fn no_target_is_driven_by_two_controllers_with_kubernetes() {
    never_driven_by_two(Leases::Kubernetes(Cluster::start().await)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy and Redis"]
async fn a_later_controller_gets_its_share_with_redis() {
    let redis = tokio::task::block_in_place(Redis::start);
    a_later_controller_gets_its_share(Leases::Redis(redis)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy and PostgreSQL"]
async fn a_later_controller_gets_its_share_with_postgres() {
    let postgres = tokio::task::block_in_place(Postgres::start);
    a_later_controller_gets_its_share(Leases::Postgres(postgres)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy and Kubernetes"]
async fn a_later_controller_gets_its_share_with_kubernetes() {
    a_later_controller_gets_its_share(Leases::Kubernetes(Cluster::start().await)).await;
}

/// One controller leads every shard and holds the retries of all targets back. A second and a third start: each is handed shards,
/// nothing is given back on the way, and no write is made without the lease. Then the third is killed in the middle of what it leads.
async fn a_later_controller_gets_its_share(leases: Leases) {
    let mut world = World::start(leases).await;
    world.launch();
    world.all_held(None).await;
    world.overload(true);
    world.switched(TARGETS).await;
    let mut spread = Vec::new();
    for _ in 0..2 {
        world.launch();
        spread.push(world.spread_evenly(TARGETS).await);
    }
    world.overload(false);
    world.switched(0).await;
    // What was handed over is also taken over.
    let last = "controller-2";
    world.controllers.get_mut(last).unwrap().kill();
    world.controllers.remove(last);
    world.taken_over(last).await;
    world.overload(true);
    world.switched(TARGETS).await;
    let writes = world.between.writes.lock().unwrap().clone();
    let without: Vec<&Write> = writes.iter().filter(|write| !write.held).collect();
    assert!(without.is_empty(), "written without the lease: {without:?}");
    let drivers: BTreeSet<&str> = writes.iter().map(|write| write.controller.as_str()).collect();
    assert_eq!(drivers.len(), 3, "{drivers:?}");
    // The page promises three leases. The machine may stand still, but not for as long again.
    assert!(
        spread.iter().all(|leases| *leases < 6.0),
        "leases until the shards were spread: {spread:?}"
    );
    println!(
        "leases until the shards were spread: {spread:.2?}; {} writes, each with the lease",
        writes.len()
    );
}

/// A leader is killed, or paused for longer than its lease, while the retries of its targets are off. Others take its targets over
/// and give the retries back. No write is ever made by a controller that has not the lease of the target's shard, also not
/// by one that was paused and goes on.
async fn never_driven_by_two(leases: Leases) {
    let mut world = World::start(leases).await;
    for _ in 0..3 {
        world.launch();
    }
    let mut takeovers = Vec::new();
    for paused in [false, true, false, true] {
        world.all_held(None).await;
        world.overload(true);
        world.switched(TARGETS).await;
        let victim = world
            .between
            .holders()
            .await
            .into_iter()
            .flatten()
            .next()
            .unwrap();
        let process = world.controllers.get_mut(&victim).unwrap();
        if paused {
            process.pause();
        } else {
            process.kill();
        }
        world.overload(false);
        takeovers.push(world.taken_over(&victim).await);
        world.switched(0).await;
        if paused {
            world.controllers[&victim].resume();
        } else {
            world.controllers.remove(&victim);
            world.launch();
        }
    }
    let writes = world.between.writes.lock().unwrap().clone();
    let without: Vec<&Write> = writes.iter().filter(|write| !write.held).collect();
    assert!(without.is_empty(), "written without the lease: {without:?}");
    let drivers: BTreeSet<(&str, &str)> = writes
        .iter()
        .map(|write| (write.target.as_str(), write.controller.as_str()))
        .collect();
    assert!(drivers.len() > TARGETS, "targets were taken over: {drivers:?}");
    // Followers ask right after a lease ends. With Kubernetes they see a renewal up to a fifth of a lease late. The machine may stand
    // still, but not for a whole lease, and not each time.
    let fastest = takeovers.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(
        fastest < 1.3 && takeovers.iter().all(|takeover| *takeover < 2.2),
        "leases until the others had taken over: {takeovers:?}"
    );
    println!("leases until the others had taken over: {takeovers:.2?}");
    println!("{} writes, each with the lease; {drivers:?}", writes.len());
}
