//! Real gRPC clients under the actuator `grpc-xds`: gRPC for Python, which has the C core's xDS client, and gRPC for Node, which has
//! one of its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use retryguard_controller::adapters::actuator::grpc_xds::GrpcXds;
use retryguard_controller::config::actuator::grpc_xds::{GrpcXdsSettings, GrpcXdsTarget};
use retryguard_controller::config::listen::Listen;
use retryguard_controller::domain::state::{Change, Observed, RetryState};
use retryguard_controller::domain::target::TargetName;
use retryguard_controller::reconcile::actuator::Actuator as _;
use retryguard_controller::reconcile::control_loop::Ended;
use retryguard_core::ratio::Ratio;
use retryguard_parts::{Process, free_port, need};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::Pki;
use crate::envoy::controller::Controller;
use crate::envoy::world::{client, pause, until};

/// How the clients of a test reach the controller.
enum Trust<'a> {
    Plain,
    /// With the authority's certificate, and a pair of files of the client.
    Mutual(&'a Path, Option<&'a Path>),
    /// With the authority's certificate, and a token.
    Token(&'a Path, &'a Path),
}

impl Trust<'_> {
    /// One server of a client's bootstrap.
    fn server(&self, port: u16) -> Value {
        let mut server = json!({
            "server_uri": format!("dns:///localhost:{port}"),
            "server_features": ["xds_v3"],
        });
        let authority = |folder: &Path| folder.join("authority.pem");
        match self {
            Self::Plain => server["channel_creds"] = json!([{"type": "insecure"}]),
            Self::Mutual(folder, pair) => {
                let mut config = json!({"ca_certificate_file": authority(folder)});
                if let Some(pair) = pair {
                    config["certificate_file"] = json!(pair.join("client.pem"));
                    config["private_key_file"] = json!(pair.join("client-key.pem"));
                }
                server["channel_creds"] = json!([{"type": "tls", "config": config}]);
            }
            Self::Token(folder, token) => {
                let config = json!({"ca_certificate_file": authority(folder)});
                server["channel_creds"] = json!([{"type": "tls", "config": config}]);
                server["call_creds"] =
                    json!([{"type": "jwt_token_file", "config": {"jwt_token_file": token}}]);
            }
        }
        server
    }
}

/// A service and its client, in one process.
struct World {
    control: String,
    service: u16,
    _process: Process,
    _folder: TempDir,
}

impl World {
    async fn start(controller: u16, trust: &Trust<'_>) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/grpc_client.py");
        let mut command = Command::new(need("grpc-python"));
        command.arg(script);
        Self::start_with(command, controller, trust).await
    }

    async fn start_node(controller: u16) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/grpc_client.js");
        let mut command = Command::new(need("node"));
        command.arg(script).env("NODE_PATH", need("grpc-node"));
        Self::start_with(command, controller, &Trust::Plain).await
    }

    /// `command` receives the port on which it is driven, and that of the service.
    async fn start_with(mut command: Command, controller: u16, trust: &Trust<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bootstrap = folder.path().join("bootstrap.json");
        let text = json!({
            "xds_servers": [trust.server(controller)],
            "node": {"id": "client-1", "cluster": "shop", "locality": {}},
        });
        std::fs::write(&bootstrap, text.to_string()).unwrap();
        let (control, service) = (free_port(), free_port());
        command
            .args([control.to_string(), service.to_string()])
            .env("GRPC_XDS_BOOTSTRAP", bootstrap)
            .env("GRPC_EXPERIMENTAL_XDS_BOOTSTRAP_CALL_CREDS", "true")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = tokio::task::block_in_place(|| Process::start(command).unwrap());
        let world = Self {
            control: format!("http://127.0.0.1:{control}"),
            service,
            _process: process,
            _folder: folder,
        };
        until("the client's process answers", || async {
            world.get("/well").await.is_some()
        })
        .await;
        world
    }

    async fn get(&self, path: &str) -> Option<String> {
        let answer = client().get(format!("{}{path}", self.control)).send().await;
        answer.ok()?.text().await.ok()
    }

    /// What so many calls come to: attempts and successes.
    async fn calls(&self, number: u64) -> (u64, u64) {
        let text = self.get(&format!("/calls/{number}")).await.unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        println!("{number} calls: {answer}");
        let count = |key: &str| answer[key].as_u64().unwrap();
        (count("attempts"), count("succeeded"))
    }

    /// A client says that it has its routes before its channel uses them.
    async fn attempts_become(&self, calls: u64, attempts: u64) {
        until(&format!("{attempts} attempts"), || async {
            self.calls(calls).await.0 == attempts
        })
        .await;
    }

    fn target(&self) -> GrpcXdsTarget {
        GrpcXdsTarget {
            service: "reviews".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: self.service,
            retries: 3,
            retry_on: vec!["unavailable".to_owned()],
            backoff: Duration::from_millis(10),
            longest_backoff: Duration::from_millis(20),
        }
    }
}

fn settings(port: u16) -> GrpcXdsSettings {
    GrpcXdsSettings {
        listen: Listen {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            tls: None,
            token_file: None,
        },
        learn_for: Duration::from_millis(200),
        confirm_within: Duration::from_secs(60),
    }
}

async fn actuator(settings: &GrpcXdsSettings, target: GrpcXdsTarget) -> GrpcXds {
    // A server that was dropped a moment ago may still hold the port.
    for _ in 0..1_200 {
        let targets = vec![(TargetName::new("reviews"), target.clone())];
        if let Ok(actuator) = GrpcXds::start(settings, targets).await {
            actuator.find().await.unwrap();
            return actuator;
        }
        pause(50).await;
    }
    panic!("no server on {}", settings.listen.address);
}

fn change(desired: RetryState) -> Change {
    Change {
        target: TargetName::new("reviews"),
        desired,
        why: "a test wants it".to_owned(),
        term: 1,
    }
}

fn quarter() -> RetryState {
    RetryState::Part {
        step: 1,
        share: Ratio::percent(25),
    }
}

async fn streams(actuator: &GrpcXds, wanted: u64) {
    until("streams", || async {
        actuator.details()["streams"].as_u64() >= Some(wanted)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs gRPC for Python"]
async fn retries_are_switched_and_found_again() {
    let port = free_port();
    switched_and_found_again(port, World::start(port, &Trust::Plain).await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs gRPC for Node"]
async fn retries_of_node_are_switched_and_found_again() {
    let port = free_port();
    switched_and_found_again(port, World::start_node(port).await).await;
}

async fn switched_and_found_again(port: u16, world: World) {
    let first = actuator(&settings(port), world.target()).await;
    assert_eq!(world.calls(3).await, (3, 3));
    world.get("/sick").await;
    world.attempts_become(5, 20).await;
    streams(&first, 1).await;
    let losses = first.apply(&change(RetryState::Off)).await.unwrap();
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert!(losses[0].0.contains("that no server has seen"), "{losses:?}");
    world.attempts_become(5, 5).await;
    first.apply(&change(quarter())).await.unwrap();
    until("some calls have retries", || async {
        world.calls(20).await.0 > 20
    })
    .await;
    let (some, _) = world.calls(200).await;
    // Two hundred calls with three retries for a quarter of them: 350 on average, with a standard deviation of 18.
    assert!(some > 260 && some < 440, "{some}");
    let details = first.details();
    assert_eq!(details["nodes"][0]["id"], "client-1", "{details}");
    assert_eq!(details["nodes"][0]["upToDate"], true, "{details}");
    drop(first);
    // Without a server the client keeps what it was sent.
    let (some, _) = world.calls(200).await;
    assert!(some > 260 && some < 440, "{some}");
    // The next controller waits for what the client presents.
    let mut patient = settings(port);
    patient.learn_for = Duration::from_secs(20);
    let second = actuator(&patient, world.target()).await;
    let found = second.find().await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].held, Observed::Managed(quarter()));
    second.apply(&change(RetryState::Original)).await.unwrap();
    world.attempts_become(5, 20).await;
    world.get("/well").await;
    assert_eq!(world.calls(3).await, (3, 3));
}

/// A port of ours that takes clients by their certificate or by their token only.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs gRPC for Python"]
async fn a_client_shows_its_certificate_or_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let pki = Pki::new(folder.path());
    let write = |name: &str, pair: &crate::certificates::Pair| {
        let own = folder.path().join(name);
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("client.pem"), &pair.certificate).unwrap();
        std::fs::write(own.join("client-key.pem"), &pair.key).unwrap();
        own
    };
    let (known, stranger) = (write("known", &pki.client), write("stranger", &pki.stranger));
    let port = free_port();
    let mut own = settings(port);
    own.listen.tls = Some(pki.mutual());
    let world = World::start(port, &Trust::Mutual(folder.path(), Some(&known))).await;
    let server = actuator(&own, world.target()).await;
    until("the known client is served", || async {
        world.calls(1).await.1 == 1
    })
    .await;
    for pair in [None, Some(stranger.as_path())] {
        let other = World::start(port, &Trust::Mutual(folder.path(), pair)).await;
        assert_eq!(other.calls(1).await, (0, 0));
        assert_eq!(server.details()["streams"], 1);
    }
    drop((server, world));

    // A token that gRPC sends is a JWT, of which it reads when it ends. This one ends in 2096.
    let token = "e30.eyJleHAiOjQwMDAwMDAwMDB9.c2lnbmF0dXJl";
    let other = "e30.eyJleHAiOjQwMDAwMDAwMDB9.bm9ib2R5cw";
    let files = [("token", token), ("other", other)].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let port = free_port();
    let mut own = settings(port);
    own.listen.tls = pki.mutual().into();
    own.listen.tls.as_mut().unwrap().client_ca = None;
    own.listen.token_file = Some(files[0].clone());
    let world = World::start(port, &Trust::Token(folder.path(), &files[0])).await;
    let server = actuator(&own, world.target()).await;
    until("the client with the token is served", || async {
        world.calls(1).await.1 == 1
    })
    .await;
    let stranger = World::start(port, &Trust::Token(folder.path(), &files[1])).await;
    assert_eq!(stranger.calls(1).await, (0, 0));
    assert_eq!(server.details()["streams"], 1);
}

/// The whole of it: the client's own metrics, the guard, the routes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs gRPC for Python"]
async fn an_outage_is_noticed_and_its_end_too() {
    let port = free_port();
    let world = World::start(port, &Trust::Plain).await;
    let controller = Controller::start(&format!(
        "sources: {{scrape: {{addresses: [\"{}/metrics\"]}}}}\n\
         actuators: {{grpc-xds: {{listen: \"127.0.0.1:{port}\", learnFor: 1s}}}}\n\
         targets: {{reviews: {{scrape: {{grpc: {{}}}}, grpc-xds: {{address: \"127.0.0.1:{}\", backoff: 10ms, longestBackoff: 20ms}}, \
         guard: {{coolDown: 1s, stepFor: 1s}}}}}}\n",
        world.control, world.service
    ))
    .await;
    let (client, url) = (client(), format!("{}/calls/20", world.control));
    let load = tokio::spawn(async move {
        loop {
            let _ = client.get(&url).send().await;
            pause(100).await;
        }
    });
    until("data", || async {
        controller.status().await["targets"][0]["calls"].is_number()
    })
    .await;
    world.get("/sick").await;
    until("suspended", || async {
        let target = &controller.status().await["targets"][0];
        target["state"] == "suspended" && target["actuators"][0]["holds"] == "suspended"
    })
    .await;
    world.attempts_become(5, 5).await;
    world.get("/well").await;
    until("allowed", || async { controller.state().await == "allowed" }).await;
    load.abort();
    assert_eq!(controller.stop().await, Ended::Restored);
}
