use std::{path::PathBuf, time::Duration};

use retryguard_controller::adapters::http::{status_client, status_page};
use retryguard_controller::config::listen::{Listen, Tls};
use retryguard_controller::reconcile::control_loop::Query;

use crate::logged::Logged;
use crate::scripted::{DataPlane, Setup, reading, start};

fn listen() -> Listen {
    Listen {
        address: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        token_file: None,
    }
}

async fn get(url: &str) -> (u16, String) {
    let answer = reqwest::get(url).await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn every_page_answers() {
    let plane = DataPlane::new();
    let running = start(
        Setup::default(),
        &plane,
        Box::new(|_| Ok(vec![reading("payments", 60)])),
    );
    let port = status_page::status(&listen(), running.asks.clone())
        .await
        .unwrap();
    let url = |page: &str| format!("http://{}/{page}", port.address());
    for _ in 0..1_200 {
        if get(&url("readyz")).await.0 == 200 {
            break;
        }
        retryguard_controller::clock::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(get(&url("readyz")).await.0, 200);
    assert_eq!(get(&url("healthz")).await.0, 200);
    let (status, page) = get(&url("metrics")).await;
    assert_eq!(status, 200);
    assert!(
        page.contains("retryguard_controller_target_state{target=\"payments\"}"),
        "{page}"
    );
    let found = status_client::status(&format!("http://{}", port.address()), None, None)
        .await
        .unwrap();
    let target = &found["targets"][0];
    for key in [
        "target",
        "signal",
        "value",
        "offAbove",
        "state",
        "reason",
        "since",
        "actuators",
    ] {
        assert!(!target[key].is_null(), "{key}: {target:#}");
    }
    assert!(target["actuators"][0]["losses"].is_array());
}

/// A loop that hangs must not look well. On the real clock: a paused one runs ahead of the sockets.
#[tokio::test]
async fn a_loop_that_hangs_is_not_healthy() {
    let (asking, _unread) = tokio::sync::mpsc::channel::<Query>(1);
    let port = status_page::status(&listen(), asking).await.unwrap();
    assert_eq!(get(&format!("http://{}/healthz", port.address())).await.0, 500);
}

#[tokio::test]
async fn without_the_token_only_health_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let plane = DataPlane::new();
    let running = start(Setup::default(), &plane, Box::new(|_| Ok(Vec::new())));
    let listen = Listen {
        token_file: Some(token.clone()),
        ..listen()
    };
    let port = status_page::status(&listen, running.asks.clone()).await.unwrap();
    let base = format!("http://{}", port.address());
    assert_eq!(get(&format!("{base}/healthz")).await.0, 200);
    for page in ["status", "metrics"] {
        assert_eq!(get(&format!("{base}/{page}")).await.0, 401);
    }
    assert!(status_client::status(&base, None, None).await.is_err());
    assert!(status_client::status(&base, Some(&token), None).await.is_ok());
}

#[tokio::test]
async fn tls_is_spoken_where_it_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let write = |name: &str, text: String| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let listen = Listen {
        tls: Some(Tls {
            certificate: write("cert.pem", made.cert.pem()),
            key: write("key.pem", made.signing_key.serialize_pem()),
            client_ca: None,
        }),
        ..listen()
    };
    let plane = DataPlane::new();
    let running = start(Setup::default(), &plane, Box::new(|_| Ok(Vec::new())));
    let port = status_page::status(&listen, running.asks.clone()).await.unwrap();
    let url = format!("https://localhost:{}", port.address().port());
    let trusted = folder.path().join("cert.pem");
    let status = status_client::status(&url, None, Some(&trusted)).await.unwrap();
    assert!(status["targets"].is_array());
    assert!(
        status_client::status(&url, None, None).await.is_err(),
        "no other authority vouches for it"
    );
    let plain = reqwest::get(format!("http://{}/healthz", port.address())).await;
    assert!(plain.is_err(), "plain text is not answered");
}

/// Connections that began a request and never ended it were never closed; with 256 descriptors the health page did
/// not answer any more. More of them than the port allows: each new one makes room, and in the end all are closed.
#[tokio::test]
async fn half_open_requests_neither_block_the_port_nor_stay() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let plane = DataPlane::new();
    let running = start(Setup::default(), &plane, Box::new(|_| Ok(Vec::new())));
    let port = status_page::status(&listen(), running.asks.clone())
        .await
        .unwrap();
    let mut open = Vec::new();
    for _ in 0..300 {
        let mut stream = tokio::net::TcpStream::connect(port.address()).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: a")
            .await
            .unwrap();
        open.push(stream);
    }
    let (status, _) = get(&format!("http://{}/healthz", port.address())).await;
    assert_eq!(status, 200);
    for mut stream in open {
        let mut answer = Vec::new();
        // Closed: with an answer, without one, or by a reset.
        let _ = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer))
            .await
            .expect("the connection is closed");
    }
    assert_eq!(get(&format!("http://{}/healthz", port.address())).await.0, 200);
}

#[tokio::test]
async fn a_port_beyond_loopback_is_warned_of_where_it_needs_no_token() {
    let (logged, _guard) = Logged::start();
    let everywhere = Listen {
        address: "0.0.0.0:0".parse().unwrap(),
        ..listen()
    };
    let (asking, _asks) = tokio::sync::mpsc::channel::<Query>(1);
    let _local = status_page::status(&listen(), asking.clone()).await.unwrap();
    assert_eq!(logged.count("listens beyond loopback"), 0);
    let _port = status_page::status(&everywhere, asking.clone()).await.unwrap();
    assert_eq!(logged.count("listens beyond loopback"), 1, "{}", logged.text());
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let guarded = Listen {
        token_file: Some(token),
        ..everywhere
    };
    let _guarded = status_page::status(&guarded, asking).await.unwrap();
    assert_eq!(logged.count("listens beyond loopback"), 1);
    assert!(!logged.text().contains("s3cret"));
}

#[tokio::test]
async fn with_a_client_authority_only_its_clients_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let pki = crate::certificates::Pki::new(folder.path());
    let listen = Listen {
        tls: Some(pki.mutual()),
        ..listen()
    };
    assert!(!listen.exposed("0.0.0.0".parse().unwrap()));
    let (asking, _asks) = tokio::sync::mpsc::channel::<Query>(1);
    let port = status_page::status(&listen, asking).await.unwrap();
    // The loop does not answer here, and that is an answer: 500.
    assert_eq!(
        pki.get(port.address(), "/healthz", Some(&pki.client)).await,
        Some(500)
    );
    assert_eq!(pki.get(port.address(), "/healthz", None).await, None);
    assert_eq!(
        pki.get(port.address(), "/healthz", Some(&pki.stranger)).await,
        None
    );
}
