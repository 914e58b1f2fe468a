//! Policies over HTTP, to a client of our own library.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use retryguard::{
    RetryGuardLayer,
    remote::{LivePolicy, PolicyServer as Server, RemoteError},
};
use retryguard_controller::adapters::actuator::policy_server::PolicyServer;
use retryguard_controller::adapters::election::single::SingleInstance;
use retryguard_controller::clock::Clock;
use retryguard_controller::config::actuator::policy_server::PolicyServerTarget;
use retryguard_controller::config::listen::Listen;
use retryguard_controller::domain::limits::Limits;
use retryguard_controller::domain::state::{Change, Observed, RetryState};
use retryguard_controller::domain::target::{TargetName, TargetSpec};
use retryguard_controller::reconcile::actuator::Actuator;
use retryguard_controller::reconcile::control_loop::{Components, Ended, MOST_QUERIES, run};
use retryguard_core::guard::{Hysteresis, Mode, Settings};

use crate::logged::Logged;
use crate::scripted::{ScriptedSource, reading};

const POLICY: &str = "# mine\nservices: {payments: {maxRetries: 4}}\nremotePeriod: 1s\n";

async fn server(folder: &Path) -> PolicyServer {
    server_with(folder, None).await
}

async fn server_with(folder: &Path, token_file: Option<PathBuf>) -> PolicyServer {
    let listen = Listen {
        address: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        token_file,
    };
    let target = PolicyServerTarget {
        service: "payments".to_owned(),
    };
    let targets = vec![(TargetName::new("payments"), target)];
    PolicyServer::start(folder, &listen, targets).await.unwrap()
}

fn change(desired: RetryState) -> Change {
    Change {
        target: TargetName::new("payments"),
        desired,
        why: "a test".to_owned(),
        term: 1,
    }
}

async fn get(server: &PolicyServer, query: &str, etag: Option<&str>) -> reqwest::Response {
    let url = format!("http://{}/policies/mine{query}", server.address());
    let mut request = reqwest::Client::new().get(url);
    if let Some(etag) = etag {
        request = request.header("if-none-match", etag);
    }
    request.send().await.unwrap()
}

fn header(answer: &reqwest::Response, name: &str) -> String {
    let value = answer.headers().get(name).unwrap_or_else(|| panic!("{name}"));
    value.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_etag_saves_the_text_and_a_long_poll_waits_for_news() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.yaml"), POLICY).unwrap();
    let server = Arc::new(server(folder.path()).await);
    let first = get(&server, "", None).await;
    assert_eq!(first.status(), 200);
    let etag = header(&first, "etag");
    let after: f64 = header(&first, "x-retryguard-poll-after").parse().unwrap();
    assert!((0.5..=1.5).contains(&after), "{after}");
    assert_eq!(header(&first, "x-retryguard-version"), "1");
    assert_eq!(first.text().await.unwrap(), POLICY);
    assert_eq!(get(&server, "", Some(&etag)).await.status(), 304);
    let clock = Clock::start();
    let asked = clock.now();
    assert_eq!(get(&server, "?wait=1", Some(&etag)).await.status(), 304);
    assert!(clock.now().since(asked) >= Duration::from_secs(1), "it waits");
    let waiting = {
        let (server, etag) = (Arc::clone(&server), etag.clone());
        tokio::spawn(async move { get(&server, "?wait=60", Some(&etag)).await })
    };
    server.apply(&change(RetryState::Off)).await.unwrap();
    let news = waiting.await.unwrap();
    assert_eq!(news.status(), 200);
    assert_eq!(header(&news, "x-retryguard-version"), "2");
    let policy = retryguard_policy::Policy::parse(&news.text().await.unwrap()).unwrap();
    assert_eq!(policy.service("payments").target.call.retries, 0);
    server.apply(&change(RetryState::Original)).await.unwrap();
    let back = get(&server, "", None).await;
    assert_eq!(header(&back, "etag"), etag, "to the byte");
    assert_eq!(get(&server, "x", None).await.status(), 404);
}

/// The library's client at a server that requires a token: with decisions in force, so that it asks for the user's own
/// policy too.
#[tokio::test]
async fn a_client_of_the_library_needs_the_token_of_a_guarded_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.yaml"), POLICY).unwrap();
    let secrets = tempfile::tempdir().unwrap();
    let file = secrets.path().join("token");
    std::fs::write(&file, "s3same\n").unwrap();
    let server = server_with(folder.path(), Some(file)).await;
    server.apply(&change(RetryState::Off)).await.unwrap();
    let client = Server::new(format!("http://{}/policies/mine", server.address()));
    for wrong in [
        client.clone(),
        client.clone().token("s3sama"),
        client.clone().token("s3sam"),
    ] {
        let error = wrong.follow().await.unwrap_err();
        assert!(matches!(error, RemoteError::Unauthorized(401)), "{error}");
    }
    let live = client.token("s3same").follow().await.unwrap();
    let retries = || live.policy().service("payments").target.call.retries;
    assert_eq!(retries(), 0);
    server.apply(&change(RetryState::Original)).await.unwrap();
    for _ in 0..600 {
        if retries() == 4 {
            return;
        }
        retryguard_controller::clock::sleep(Duration::from_millis(100)).await;
    }
    panic!("the user's own policy never came back");
}

/// With a token and a client authority, both are required: the certificate by the handshake, the token by the answer.
#[tokio::test]
async fn a_guarded_server_wants_the_certificate_and_the_token() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.yaml"), POLICY).unwrap();
    let pki = crate::certificates::Pki::new(folder.path());
    let token = folder.path().join("token");
    std::fs::write(&token, "open-sesame\n").unwrap();
    for (token_file, answered) in [(None, 200), (Some(token), 401)] {
        let listen = Listen {
            address: "127.0.0.1:0".parse().unwrap(),
            tls: Some(pki.mutual()),
            token_file,
        };
        let server = PolicyServer::start(folder.path(), &listen, Vec::new())
            .await
            .unwrap();
        let (address, path) = (server.address(), "/policies/mine");
        assert_eq!(pki.get(address, path, Some(&pki.client)).await, Some(answered));
        assert_eq!(pki.get(address, path, Some(&pki.stranger)).await, None);
        assert_eq!(pki.get(address, path, None).await, None);
    }
}

#[tokio::test]
async fn a_wrong_file_keeps_its_last_good_version_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.yaml");
    std::fs::write(&path, POLICY).unwrap();
    let server = server(folder.path()).await;
    std::fs::write(&path, "services: {payments: {maxRetrys: 4}}").unwrap();
    server.apply(&change(RetryState::Original)).await.unwrap();
    let answer = get(&server, "", None).await;
    let refused = header(&answer, "x-retryguard-refused");
    assert!(
        refused.contains("1 mistake, the first at line 1, column 23"),
        "{refused}"
    );
    assert!(
        !refused.contains("maxRetrys"),
        "not a word of the file: {refused}"
    );
    assert_eq!(answer.text().await.unwrap(), POLICY);
    assert!(server.details()["mine"]["refused"].is_string());
}

/// A file with a mistake was logged twice a second, with its content.
#[tokio::test]
async fn a_wrong_file_is_logged_once_and_not_quoted() {
    let (logged, _guard) = Logged::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.yaml"), POLICY).unwrap();
    std::fs::write(folder.path().join("wrong.yaml"), "s3cret-key: s3cret-value").unwrap();
    let server = server(folder.path()).await;
    for _ in 0..5 {
        server.apply(&change(RetryState::Original)).await.unwrap();
    }
    assert_eq!(logged.count("policy refused"), 1, "{}", logged.text());
    assert!(!logged.text().contains("s3cret"), "{}", logged.text());
    std::fs::write(folder.path().join("wrong.yaml"), "\n\ns3cret-key: s3cret-value").unwrap();
    server.apply(&change(RetryState::Original)).await.unwrap();
    assert_eq!(logged.count("policy refused"), 2, "another mistake is news");
}

/// A link in the folder led to any file that the controller can read, whose content was then quoted. Links within the
/// folder are how Kubernetes mounts a ConfigMap.
#[tokio::test]
async fn a_link_may_not_lead_out_of_the_folder() {
    use std::os::unix::fs::symlink;
    let (logged, _guard) = Logged::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = elsewhere.path().join("secret.yaml");
    std::fs::write(&secret, POLICY).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("..2026")).unwrap();
    std::fs::write(folder.path().join("..2026/mine.yaml"), POLICY).unwrap();
    symlink("..2026", folder.path().join("..data")).unwrap();
    symlink("..data/mine.yaml", folder.path().join("mine.yaml")).unwrap();
    symlink(&secret, folder.path().join("linked.yaml")).unwrap();
    let server = server(folder.path()).await;
    assert_eq!(server.names(), ["mine"]);
    assert_eq!(logged.count("a link that leads out of the folder"), 1);
}

/// Killed while retries were off: the next one finds the decision beside the policies and goes on serving it.
/// The decisions of a newer controller, or a file that was damaged. The server did not start, and one that ran no longer took up
/// edits of policies.
#[tokio::test]
async fn decisions_that_are_not_understood_are_ignored_and_replaced() {
    let (logged, _guard) = Logged::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.yaml"), POLICY).unwrap();
    let decisions = folder.path().join(".retryguard-decisions.json");
    std::fs::write(&decisions, r#"{"version": 2, "s3cret": true}"#).unwrap();
    let server = server(folder.path()).await;
    assert_eq!(get(&server, "", None).await.text().await.unwrap(), POLICY);
    let edited = POLICY.replace("mine", "mine, edited");
    std::fs::write(folder.path().join("mine.yaml"), &edited).unwrap();
    let first = get(&server, "", None).await;
    let etag = header(&first, "etag");
    if first.text().await.unwrap() == POLICY {
        let next = get(&server, "?wait=60", Some(&etag)).await;
        assert_eq!(next.text().await.unwrap(), edited);
    }
    assert!(logged.count("are ignored") >= 1, "{}", logged.text());
    assert!(!logged.text().contains("s3cret"), "{}", logged.text());
    server.apply(&change(RetryState::Off)).await.unwrap();
    assert!(
        std::fs::read_to_string(&decisions)
            .unwrap()
            .contains("\"wish\":\"off\"")
    );
    assert!(
        get(&server, "", None)
            .await
            .text()
            .await
            .unwrap()
            .contains("\"maxRetries\": 0")
    );
}

#[tokio::test]
async fn decisions_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.yaml"), POLICY).unwrap();
    let first = server(folder.path()).await;
    first.apply(&change(RetryState::Off)).await.unwrap();
    drop(first);
    let second = server(folder.path()).await;
    let found = second.find().await.unwrap();
    assert_eq!(found[0].held, Observed::Managed(RetryState::Off));
    assert!(
        get(&second, "", None)
            .await
            .text()
            .await
            .unwrap()
            .contains("\"maxRetries\": 0")
    );
    second.apply(&change(RetryState::Original)).await.unwrap();
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "no trace of us"
    );
}

/// The controller is gone, and a server that only serves goes on: a setting that no controller confirms is not served for ever.
#[tokio::test]
async fn a_decision_that_is_not_confirmed_lapses() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.yaml"), POLICY).unwrap();
    let first = server(folder.path()).await;
    first.apply(&change(RetryState::Off)).await.unwrap();
    let off = get(&first, "", None).await;
    assert_eq!(header(&off, "x-retryguard-lapse-after"), "300");
    assert_eq!(get(&first, "?original", None).await.text().await.unwrap(), POLICY);
    drop(first);
    let decisions = folder.path().join(".retryguard-decisions.json");
    let written = |age: u64| {
        let file = std::fs::File::options().append(true).open(&decisions).unwrap();
        let now = std::time::UNIX_EPOCH + retryguard_controller::clock::unix_time();
        file.set_modified(now - Duration::from_secs(age)).unwrap();
    };
    written(301);
    let second = server(folder.path()).await;
    let served = get(&second, "", None).await;
    assert!(served.headers().get("x-retryguard-lapse-after").is_none());
    assert_eq!(served.text().await.unwrap(), POLICY);
    // A controller that comes back finds it all the same, and stands by it until it knows better.
    assert_eq!(
        second.find().await.unwrap()[0].held,
        Observed::Managed(RetryState::Off)
    );
    let third = server(folder.path()).await;
    assert!(
        get(&third, "", None)
            .await
            .text()
            .await
            .unwrap()
            .contains("\"maxRetries\": 0")
    );
}

/// The server is gone as well: a client of our library goes back to the user's policy by itself.
#[tokio::test]
async fn a_client_does_not_stay_off_when_all_servers_are_gone() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/policies/mine", listener.local_addr().unwrap());
    let gone = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let refuse = Arc::clone(&gone);
    let app = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let gone = refuse.load(std::sync::atomic::Ordering::SeqCst);
        let original = request
            .uri()
            .query()
            .is_some_and(|query| query.starts_with("original"));
        let answer = match (gone, original) {
            (true, _) => Err(axum::http::StatusCode::BAD_GATEWAY),
            (false, true) => Ok(([("etag", "\"o\"")], POLICY.to_owned())),
            (false, false) => {
                let off = POLICY.replace("maxRetries: 4", "maxRetries: 0");
                Ok(([("x-retryguard-lapse-after", "2")], off))
            }
        };
        std::future::ready(answer)
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    let live = LivePolicy::http(url).await.unwrap();
    let retries = || live.policy().service("payments").target.call.retries;
    assert_eq!(retries(), 0);
    gone.store(true, std::sync::atomic::Ordering::SeqCst);
    until(|| retries() == 4).await;
}

/// From the signal to the client: an overload is measured, and a client of our library that runs all the time
/// loses its retries and gets them back.
#[tokio::test]
async fn a_running_client_loses_its_retries_and_gets_them_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.yaml"), POLICY).unwrap();
    let server = Arc::new(server(folder.path()).await);
    let url = format!("http://{}/policies/mine", server.address());
    let live = LivePolicy::http(url).await.unwrap();
    let _layer: RetryGuardLayer<()> = live.layer("payments", ());
    let retries = || live.policy().service("payments").target.call.retries;
    assert_eq!(retries(), 4);
    // Long enough that a client that polls all the time sees the ramp.
    let short = Duration::from_secs(2);
    let guard = Settings {
        mode: Mode::Hysteresis(Hysteresis {
            cool_down: short,
            step_for: short,
            ..Hysteresis::default()
        }),
        ..Settings::default()
    };
    let overload = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let seen = Arc::clone(&overload);
    let script = move |_| {
        let rejected = if seen.load(std::sync::atomic::Ordering::SeqCst) {
            60
        } else {
            0
        };
        Ok(vec![reading("payments", rejected)])
    };
    let parts = Components {
        targets: vec![TargetSpec {
            name: TargetName::new("payments"),
            guards: vec![guard],
            price: retryguard_controller::domain::gain::PRICE,
            source: "scripted",
            actuators: vec![0],
        }],
        sources: vec![Box::new(ScriptedSource {
            script: Box::new(script),
            second: 0,
        })],
        actuators: vec![server],
        election: Box::new(SingleInstance),
        limits: Limits::default(),
        dry_run: false,
        leave: false,
    };
    let (_asking, asks) = tokio::sync::mpsc::channel(MOST_QUERIES);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = tokio::spawn(run(parts, asks, async {
        let _ = stopped.await;
    }));
    until(|| retries() == 0).await;
    overload.store(false, std::sync::atomic::Ordering::SeqCst);
    until(|| (1..4).contains(&retries())).await;
    until(|| retries() == 4).await;
    stop.send(()).unwrap();
    assert_eq!(controller.await.unwrap(), Ended::Restored);
}

async fn until(yes: impl Fn() -> bool) {
    for _ in 0..2_400 {
        if yes() {
            return;
        }
        retryguard_controller::clock::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not come to that");
}
