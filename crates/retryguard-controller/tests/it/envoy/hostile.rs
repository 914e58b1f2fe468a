//! Clients that are not Envoys: they refuse, lie, flood and sleep.

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::envoy::service::runtime::v3::runtime_discovery_service_client::RuntimeDiscoveryServiceClient;
use envoy_types::pb::google::rpc::Status as Problem;
use retryguard_controller::config::listen::Tls;
use retryguard_controller::domain::state::RetryState;
use retryguard_controller::reconcile::actuator::Actuator;
use retryguard_parts::free_port;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status, Streaming};

use super::world::*;

/// A client that speaks runtime discovery by hand.
pub(crate) struct Speaker {
    pub(crate) ask: mpsc::Sender<DiscoveryRequest>,
    pub(crate) answers: Streaming<DiscoveryResponse>,
}

impl Speaker {
    pub(crate) async fn open(channel: Channel, token: Option<&str>) -> Result<Self, Status> {
        let (ask, requests) = mpsc::channel(16);
        let mut request = Request::new(ReceiverStream::new(requests));
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        let answers = RuntimeDiscoveryServiceClient::new(channel)
            .stream_runtime(request)
            .await?
            .into_inner();
        Ok(Self { ask, answers })
    }

    pub(crate) async fn subscribe(&self, id: &str, names: &[&str], version: &str) {
        let request = DiscoveryRequest {
            node: Some(Node {
                id: id.to_owned(),
                ..Node::default()
            }),
            resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
            version_info: version.to_owned(),
            ..DiscoveryRequest::default()
        };
        self.ask.send(request).await.unwrap();
    }

    pub(crate) async fn answer(&mut self) -> DiscoveryResponse {
        self.answers.message().await.unwrap().expect("an answer")
    }

    pub(crate) async fn reply(&self, to: &DiscoveryResponse, refusal: Option<&str>) {
        let request = DiscoveryRequest {
            resource_names: vec!["retryguard".to_owned()],
            version_info: to.version_info.clone(),
            response_nonce: to.nonce.clone(),
            error_detail: refusal.map(|message| Problem {
                message: message.to_owned(),
                ..Problem::default()
            }),
            ..DiscoveryRequest::default()
        };
        self.ask.send(request).await.unwrap();
    }
}

pub(crate) async fn channel(port: u16) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    endpoint.connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_seen_and_named() {
    let port = free_port();
    let rtds = rtds(port).await;
    rtds.find().await.unwrap();
    let mut speaker = Speaker::open(channel(port).await, None).await.unwrap();
    speaker.subscribe("stubborn", &["retryguard"], "").await;
    let first = speaker.answer().await;
    speaker.reply(&first, None).await;
    until("its first word", || async { rtds.details()["accepted"] == 1 }).await;
    let refuses = async {
        let second = speaker.answer().await;
        speaker.reply(&second, Some("I do not like this layer")).await;
    };
    let (losses, ()) = tokio::join!(apply(&rtds, RetryState::Off), refuses);
    assert!(losses[0].contains("1 of 1 Envoys refused"), "{losses:?}");
    let details = rtds.details();
    assert_eq!(
        details["nodes"][0]["refused"]["message"],
        "I do not like this layer"
    );
    assert_eq!(details["nodes"][0]["version"], "retryguard/1");
    // The next layer is a new chance.
    let accepts = async {
        let third = speaker.answer().await;
        speaker.reply(&third, None).await;
    };
    let (losses, ()) = tokio::join!(apply(&rtds, RetryState::Original), accepts);
    assert_eq!(losses, Vec::<String>::new());
    assert!(rtds.details()["nodes"][0]["refused"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_names_lies_and_late_words_do_no_harm() {
    let port = free_port();
    let rtds = rtds(port).await;
    rtds.find().await.unwrap();
    let open = channel(port).await;
    let stranger = Speaker::open(open.clone(), None).await.unwrap();
    stranger
        .subscribe(&"x".repeat(10_000), &["another-layer"], "")
        .await;
    let mut liar = Speaker::open(open.clone(), None).await.unwrap();
    // After learning has ended, what is presented is not believed.
    liar.subscribe("liar", &["retryguard"], "retryguard/1 reviews=off payments=off")
        .await;
    let first = liar.answer().await;
    assert_eq!(first.version_info, "retryguard/1");
    // A word about an answer that was never given.
    let mut never = first.clone();
    never.nonce = "4711".to_owned();
    liar.reply(&never, Some("late")).await;
    liar.reply(&first, None).await;
    until("the liar's word", || async { rtds.details()["accepted"] == 1 }).await;
    let details = rtds.details();
    assert_eq!(details["streams"], 1, "{details}");
    assert_eq!(details["nodes"][0]["asksFor"], "another-layer");
    assert_eq!(details["nodes"][0]["id"].as_str().unwrap().len(), 512);
    assert_eq!(rtds.find().await.unwrap(), []);
    // One connection may have eight streams, which is more than an Envoy needs.
    let mut more = Vec::new();
    for _ in 0..6 {
        more.push(Speaker::open(open.clone(), None).await.unwrap());
    }
    let ninth = Speaker::open(open.clone(), None);
    let waited = tokio::time::timeout(std::time::Duration::from_millis(300), ninth).await;
    assert!(waited.is_err(), "the ninth stream waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_sleeps_gets_the_last_word_and_is_waited_for_once() {
    let port = free_port();
    let mut settings = rtds_settings(port);
    settings.confirm_within = std::time::Duration::from_millis(300);
    let rtds = rtds_with(&settings).await;
    rtds.find().await.unwrap();
    // The stream takes a handful of answers on its way. More go only once they are read.
    let narrow = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))
        .unwrap()
        .initial_stream_window_size(1024);
    let channel = narrow.connect().await.unwrap();
    let mut sleeper = Speaker::open(channel, None).await.unwrap();
    sleeper.subscribe("sleeper", &["retryguard"], "").await;
    streams(&rtds, 1).await;
    for _ in 0..50 {
        let losses = apply(&rtds, RetryState::Off).await;
        assert!(losses[0].contains("not confirmed"), "{losses:?}");
        apply(&rtds, half()).await;
    }
    // What it did not take was replaced, not queued: a handful of answers, and the last is the present state.
    let mut taken = 0;
    while rtds.details()["accepted"] != 1 {
        tokio::select! {
            answer = sleeper.answers.message() => {
                taken += 1;
                assert!(taken < 10, "answers were queued for a sleeper");
                sleeper.reply(&answer.unwrap().expect("an answer"), None).await;
            }
            () = pause(100) => {}
        }
    }
    assert_eq!(rtds.details()["version"], "retryguard/1 reviews=2/500000000");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_asked_for_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let port = free_port();
    let mut settings = rtds_settings(port);
    settings.listen.tls = Some(Tls {
        certificate: write("cert.pem", &made.cert.pem()),
        key: write("key.pem", &made.signing_key.serialize_pem()),
        client_ca: None,
    });
    settings.listen.token_file = Some(write("token", "open-sesame\n"));
    let rtds = rtds_with(&settings).await;
    rtds.find().await.unwrap();
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(made.cert.pem()))
        .domain_name("localhost");
    let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{port}")).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
    for wrong in [None, Some("open"), Some("open-sesame ")] {
        let refused = Speaker::open(channel.clone(), wrong).await.err().unwrap();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    let mut lower = Request::new(ReceiverStream::new(mpsc::channel::<DiscoveryRequest>(1).1));
    lower
        .metadata_mut()
        .insert("authorization", "bearer open-sesame".parse().unwrap());
    let mut client = RuntimeDiscoveryServiceClient::new(channel.clone());
    client
        .stream_runtime(lower)
        .await
        .expect("the scheme in any case");
    let mut speaker = Speaker::open(channel, Some("open-sesame")).await.unwrap();
    speaker.subscribe("known", &["retryguard"], "").await;
    assert_eq!(speaker.answer().await.version_info, "retryguard/1");
    assert!(!format!("{rtds:?}").contains("sesame"));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_client_authority_only_its_envoys_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let pki = crate::certificates::Pki::new(folder.path());
    let port = free_port();
    let mut settings = rtds_settings(port);
    settings.listen.tls = Some(pki.mutual());
    let rtds = rtds_with(&settings).await;
    rtds.find().await.unwrap();
    let connect = async |pair: Option<&crate::certificates::Pair>| {
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&pki.authority))
            .domain_name("localhost");
        if let Some(pair) = pair {
            tls = tls.identity(tonic::transport::Identity::from_pem(&pair.certificate, &pair.key));
        }
        let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{port}")).unwrap();
        let channel = endpoint.tls_config(tls).unwrap().connect().await.ok()?;
        let mut speaker = Speaker::open(channel, None).await.ok()?;
        speaker.subscribe("known", &["retryguard"], "").await;
        speaker.answers.message().await.ok()?
    };
    assert!(connect(Some(&pki.client)).await.is_some());
    assert!(connect(None).await.is_none());
    assert!(connect(Some(&pki.stranger)).await.is_none());
}

/// The page promises a warning for every open port; this one had none.
#[tokio::test]
async fn a_port_for_envoys_beyond_loopback_is_warned_of() {
    let (logged, _guard) = crate::logged::Logged::start();
    let mut settings = rtds_settings(free_port());
    let _local = rtds_with(&settings).await;
    assert_eq!(logged.count("listens beyond loopback"), 0);
    settings.listen.address = format!("0.0.0.0:{}", free_port()).parse().unwrap();
    let _open = rtds_with(&settings).await;
    assert_eq!(logged.count("listens beyond loopback"), 1, "{}", logged.text());
}

/// A stream that is opened and never used kept its place for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_a_request_is_closed() {
    let port = free_port();
    let rtds = rtds(port).await;
    rtds.find().await.unwrap();
    let mut mute = Speaker::open(channel(port).await, None).await.unwrap();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(120), mute.answers.message());
    let status = ended.await.expect("the stream is closed").unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
}
