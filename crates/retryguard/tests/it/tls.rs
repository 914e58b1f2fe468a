//! Requests over TLS, and what an `https` URL says without it.

#[cfg(any(feature = "rustls", feature = "rustls-no-provider"))]
mod with {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use retryguard::{Error, Policy, for_http::Http, for_reqwest::Client};
    use rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        task::JoinHandle,
    };

    use crate::support::loopback::listen;

    /// A server over TLS that answers 503 once and 200 from then on.
    struct Secure {
        url: String,
        certificate: String,
        requests: Arc<AtomicU32>,
        task: JoinHandle<()>,
    }

    impl Drop for Secure {
        fn drop(&mut self) {
            self.task.abort();
        }
    }

    async fn secure() -> Secure {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = listen().await;
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let requests = Arc::new(AtomicU32::new(0));
        let counted = requests.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that does not know the certificate ends the handshake.
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let mut seen = Vec::new();
                while !seen.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read_exact(&mut byte).await.is_err() {
                        break;
                    }
                    seen.push(byte[0]);
                }
                let status = if counted.fetch_add(1, Ordering::Relaxed) == 0 {
                    "503 Busy"
                } else {
                    "200 OK"
                };
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Secure {
            url,
            certificate: cert.pem(),
            requests,
            task,
        }
    }

    fn policy() -> Policy {
        Policy::parse("services: { it: { maxRetries: 1, initialDelay: 1ms, budget: off, guard: off } }")
            .unwrap()
    }

    #[tokio::test]
    async fn a_request_over_tls_is_retried_like_any_other() {
        // Fails where a test of the same process has chosen it already.
        let _ = ring::default_provider().install_default();
        let secure = secure().await;
        let authority = reqwest::Certificate::from_pem(secure.certificate.as_bytes()).unwrap();
        let inner = reqwest::Client::builder()
            .retry(reqwest::retry::never())
            .redirect(retryguard::for_reqwest::redirects())
            .tls_certs_only([authority])
            .build()
            .unwrap();
        let client = Client::with(inner, &policy(), "it", Http::new());
        let response = client.get(&secure.url).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(secure.requests.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn an_unknown_certificate_is_refused() {
        let _ = ring::default_provider().install_default();
        let secure = secure().await;
        let client = Client::new(&policy(), "it").unwrap();
        let error = client.get(&secure.url).send().await.unwrap_err();
        assert!(
            matches!(&error, Error::Failed { error, .. } if error.is_connect()),
            "{error:?}"
        );
        assert_eq!(secure.requests.load(Ordering::Relaxed), 0);
    }
}

#[cfg(not(any(feature = "rustls", feature = "rustls-no-provider")))]
mod without {
    use axum::{Router, response::Redirect, routing::get};
    use retryguard::{
        Error, Policy,
        for_reqwest::{Client, EndpointError},
    };

    use crate::support::loopback::serve;

    /// reqwest's own error is "error sending request", with a source that says "invalid URL, scheme is not http".
    #[tokio::test]
    async fn an_https_url_without_tls_says_what_to_switch_on() {
        let client = Client::new(&Policy::default(), "it").unwrap();
        let error = client.get("https://127.0.0.1:1/").send().await.unwrap_err();
        assert!(matches!(error, Error::NoTls), "{error:?}");
        assert!(
            error.to_string().contains("feature `rustls` of retryguard"),
            "{error}"
        );
        assert_eq!((error.attempts(), error.refusal()), (0, None));
        let refused = Client::with_endpoints(&Policy::default(), "it", &["https://127.0.0.1:1"]).unwrap_err();
        assert!(matches!(refused, EndpointError::NoTls), "{refused}");
    }

    #[tokio::test]
    async fn a_redirect_to_https_says_the_same() {
        let away = || async { Redirect::temporary("https://127.0.0.1:1/") };
        let served = serve(Router::new().route("/", get(away))).await;
        let client = Client::new(&Policy::default(), "it").unwrap();
        let error = client.get(served.url("/")).send().await.unwrap_err();
        assert!(matches!(error, Error::NoTls), "{error:?}");
    }
}
