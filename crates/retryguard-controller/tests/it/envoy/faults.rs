//! Controllers, Envoys and sources are killed again and again, at the worst moment: while retries are off and the reason for
//! it goes away. Each time retries must come back.
//!
//! A test kills a few; `cargo xtask evidence controller-faults` kills more than a hundred and writes the page.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use http::StatusCode;
use retryguard_parts::{Envoy, Process, free_port};

use super::killed;
use super::world::*;

const SOURCE: &str = "RETRYGUARD_TEST_SOURCE";
/// How long a decision holds without data.
const HOLD: Duration = Duration::from_secs(8);

/// What is killed, by signal 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Controller,
    Envoy,
    Source,
    /// A source that does not come back until retries have.
    SourceForGood,
}

const VICTIMS: [Victim; 4] = [
    Victim::Controller,
    Victim::Envoy,
    Victim::Source,
    Victim::SourceForGood,
];

/// No test: a process that hands Envoy's metrics on, as a sidecar or an exporter does.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_of_its_own() {
    let Ok(text) = std::env::var(SOURCE) else { return };
    let (port, address) = text.split_once(' ').expect("a port and an address");
    let page = move |State(address): State<String>| async move {
        let answer = client().get(&address).send().await;
        match answer {
            Ok(answer) => (StatusCode::OK, answer.text().await.unwrap_or_default()),
            Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()),
        }
    };
    let app = Router::new().fallback(page).with_state(address.to_owned());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}"))
        .await
        .expect("the port of the source is free again");
    axum::serve(listener, app).await.unwrap();
}

/// A service, an Envoy before it, a source and a controller, each in a process of its own but for the service.
struct World {
    envoy: Envoy,
    sick: Arc<AtomicBool>,
    source: Process,
    source_text: String,
    controller: Process,
    configuration: String,
    load: tokio::task::JoinHandle<()>,
}

impl World {
    async fn start() -> Self {
        let sick = Arc::new(AtomicBool::new(false));
        let app = Router::new()
            .fallback(|State(sick): State<Arc<AtomicBool>>| async move {
                if sick.load(Ordering::Relaxed) {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    StatusCode::OK
                }
            })
            .with_state(Arc::clone(&sick));
        let service = serve_apart(app);
        let port = free_port();
        let envoy = blocking(|| envoy(service, port, |text| text));
        let relay = free_port();
        let source_text = format!("{relay} {}/stats/prometheus", envoy.admin());
        let configuration = format!(
            "sources: {{scrape: {{addresses: [\"http://127.0.0.1:{relay}/\"]}}}}\n\
             actuators: {{envoy-rtds: {{listen: \"127.0.0.1:{port}\", learnFor: 1s}}}}\n\
             limits: {{hold: {}s, staleAfter: 4s, resync: 2s, changesPerMinute: 600}}\n\
             targets: {{reviews: {{scrape: {{envoy: {{}}}}, \
             guard: {{samples: 2, minimumCalls: 5, coolDown: 1s, stepFor: 1s}}}}}}\n",
            HOLD.as_secs()
        );
        let (client, url) = (client(), envoy.url());
        let load = tokio::spawn(async move {
            loop {
                let _ = client.get(&url).send().await;
                pause(25).await;
            }
        });
        Self {
            source: launch_source(&source_text),
            controller: killed::launch(&configuration),
            envoy,
            sick,
            source_text,
            configuration,
            load,
        }
    }

    /// Retries go off, a process dies, and the service is well again. Gives how long retries were still off after
    /// everything that shall come back was back; for a source that does not come back, after it was killed.
    #[expect(clippy::disallowed_methods, reason = "the time is what the page reports")]
    async fn kill(&mut self, victim: Victim, dead_for: u64) -> Duration {
        self.sick.store(true, Ordering::Relaxed);
        until("off", || async { self.is_off().await }).await;
        blocking(|| match victim {
            Victim::Controller => self.controller.kill(),
            Victim::Envoy => self.envoy.process().kill(),
            Victim::Source | Victim::SourceForGood => self.source.kill(),
        });
        let killed = Instant::now();
        self.sick.store(false, Ordering::Relaxed);
        pause(dead_for).await;
        blocking(|| match victim {
            Victim::Controller => self.controller = killed::launch(&self.configuration),
            Victim::Envoy => self.envoy.restart(),
            Victim::Source => self.source = launch_source(&self.source_text),
            Victim::SourceForGood => {}
        });
        let begun = match victim {
            Victim::SourceForGood => killed,
            _ => Instant::now(),
        };
        let (mut lasted, mut clean) = (Duration::ZERO, 0);
        // An Envoy that was killed holds nothing at first and is sent the setting again, so nothing must be seen for a while.
        for _ in 0..2_400 {
            let (off, nothing) = self.runtime_state().await;
            if off {
                lasted = begun.elapsed();
            }
            clean = if nothing { clean + 1 } else { 0 };
            if clean >= 30 {
                break;
            }
            pause(50).await;
        }
        assert!(
            clean >= 30,
            "retries do not come back after {victim:?} was killed"
        );
        if victim == Victim::SourceForGood {
            self.source = launch_source(&self.source_text);
        }
        lasted
    }

    async fn runtime(&self) -> Option<String> {
        let answer = client()
            .get(format!("{}/runtime", self.envoy.admin()))
            .send()
            .await;
        answer.ok()?.text().await.ok()
    }

    async fn is_off(&self) -> bool {
        self.runtime_state().await.0
    }

    /// Whether this Envoy holds retries off, and whether it answers and holds nothing of ours.
    async fn runtime_state(&self) -> (bool, bool) {
        let budget = "circuit_breakers.reviews.default.retry_budget.budget_percent";
        let Some(text) = self.runtime().await else {
            return (false, false);
        };
        let page: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let off = page["entries"][budget]["final_value"]
            .as_str()
            .is_some_and(|value| value.parse() == Ok(0.0));
        (
            off,
            page["layers"].is_array() && !text.contains("retryguard.reviews.share"),
        )
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.load.abort();
    }
}

/// Serves from a thread of its own; the port. The service of one world must not wait while another world starts an Envoy: a
/// service that does not answer for a second is an outage, and the controller is right to keep retries off.
fn serve_apart(app: Router) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
    });
    port
}

/// Starts or ends processes, which blocks for seconds, while the tasks of the other worlds go on.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

fn launch_source(text: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "envoy::faults::a_source_of_its_own"])
        .env(SOURCE, text)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process::start(command).unwrap()
}

/// One kill.
#[derive(Debug, Clone, Copy)]
struct Kill {
    victim: Victim,
    lasted: Duration,
}

/// `worlds` at once, each with so many kills.
async fn run(worlds: usize, kills: usize) -> Vec<Kill> {
    let mut tasks = Vec::new();
    for number in 0..worlds {
        let mut world = World::start().await;
        tasks.push(tokio::spawn(async move {
            let mut chance = fastrand::Rng::with_seed(number as u64);
            let mut all = Vec::new();
            for kill in 0..kills {
                let victim = VICTIMS[(number + kill) % VICTIMS.len()];
                let lasted = world.kill(victim, chance.u64(0..1_000)).await;
                all.push(Kill { victim, lasted });
            }
            all
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all
}

/// Each kind of process is killed once; retries come back each time.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn retries_come_back_after_every_kill() {
    let kills = run(2, VICTIMS.len() / 2).await;
    assert_eq!(kills.len(), VICTIMS.len());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn write_the_faults() {
    let Some(out) = std::env::var_os("RETRYGUARD_FAULTS_OUT").map(PathBuf::from) else {
        eprintln!(
            "no run of many faults: `cargo xtask evidence controller-faults` does it and writes the page"
        );
        return;
    };
    let kills = run(6, 18).await;
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("README.md"), page(&kills)).unwrap();
}

fn page(kills: &[Kill]) -> String {
    use std::fmt::Write as _;

    let mut text = format!(
        "# A hundred kills\n\n\
         Written by `cargo xtask evidence controller-faults`; do not edit.\n\n\
         Six worlds at once, each of a service, a real Envoy, a process that hands on Envoy's metrics, and a controller in a \
         process of its own, with calls all the time. The service fails until retries are off. Then one process is killed by \
         signal 9, and at the same moment the service recovers. The process is started again up to a second later. \
         Measured is how long retries stay off after that. A decision holds for at most {} s without data, and a returning \
         controller learns for 1 s what Envoys hold. `source, not restarted` stays dead until retries are back, so that \
         nothing but the hold time can bring them back; its time counts from the kill. All of it ran on one machine with two cores that had much \
         other work to do; waits for a processor are in the times.\n\n\
         | killed | kills | off for, median | longest | longer than the hold time |\n| --- | ---: | ---: | ---: | ---: |\n",
        HOLD.as_secs()
    );
    for victim in VICTIMS {
        let mut times: Vec<Duration> = kills
            .iter()
            .filter(|kill| kill.victim == victim)
            .map(|kill| kill.lasted)
            .collect();
        times.sort_unstable();
        let longer = times.iter().filter(|time| **time > HOLD).count();
        let name = match victim {
            Victim::Controller => "controller",
            Victim::Envoy => "Envoy",
            Victim::Source => "source",
            Victim::SourceForGood => "source, not restarted",
        };
        let _ = writeln!(
            text,
            "| {name} | {} | {:.1} s | {:.1} s | {longer} |",
            times.len(),
            times[times.len() / 2].as_secs_f64(),
            times[times.len() - 1].as_secs_f64(),
        );
    }
    let _ = write!(
        text,
        "\n{} kills in all. Retries came back after each of them; a run in which they do not fails.\n\n\
         While the only controller is dead, an Envoy keeps what it was last told, so the time counts from the moment at which \
         the killed process is back.\n",
        kills.len()
    );
    text
}
