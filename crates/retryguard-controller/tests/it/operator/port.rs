use std::{path::PathBuf, time::Duration};

use retryguard_controller::{
    ask,
    config::listen::{Listen, Tls},
    run::Ask,
    serve,
};

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
    let port = serve::status(&listen(), running.asks.clone()).await.unwrap();
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
    let found = ask::status(&format!("http://{}", port.address()), None, None)
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
    let (asking, _nobody_reads) = tokio::sync::mpsc::channel::<Ask>(1);
    let port = serve::status(&listen(), asking).await.unwrap();
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
    let port = serve::status(&listen, running.asks.clone()).await.unwrap();
    let base = format!("http://{}", port.address());
    assert_eq!(get(&format!("{base}/healthz")).await.0, 200);
    for page in ["status", "metrics"] {
        assert_eq!(get(&format!("{base}/{page}")).await.0, 401);
    }
    assert!(ask::status(&base, None, None).await.is_err());
    assert!(ask::status(&base, Some(&token), None).await.is_ok());
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
        }),
        ..listen()
    };
    let plane = DataPlane::new();
    let running = start(Setup::default(), &plane, Box::new(|_| Ok(Vec::new())));
    let port = serve::status(&listen, running.asks.clone()).await.unwrap();
    let url = format!("https://localhost:{}", port.address().port());
    let trusted = folder.path().join("cert.pem");
    let status = ask::status(&url, None, Some(&trusted)).await.unwrap();
    assert!(status["targets"].is_array());
    assert!(
        ask::status(&url, None, None).await.is_err(),
        "nobody else vouches for it"
    );
    let plain = reqwest::get(format!("http://{}/healthz", port.address())).await;
    assert!(plain.is_err(), "plain text is not answered");
}
