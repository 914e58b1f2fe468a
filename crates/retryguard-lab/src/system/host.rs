//! A service on its port: accepts connections for as long as it lives, and can be killed and started again.

use std::{convert::Infallible, net::SocketAddr};

use anyhow::Context as _;
use axum::{Router, body::Body};
use hyper::{body::Incoming, server::conn::http1};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use crate::{
    clock,
    site::{
        life::Life,
        line::{ConnectionCutter, Line},
    },
};

/// A listener with the address that it got.
pub(crate) struct Port {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Port {
    pub(crate) async fn open(wanted: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(wanted)
            .await
            .with_context(|| format!("cannot listen on {wanted}: choose another port"))?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// As [`Port::open`], for a service that comes back to the port it had: its old connections may still
    /// hold it for a moment.
    pub(crate) async fn reopen(wanted: SocketAddr) -> anyhow::Result<Self> {
        let mut tries = 0;
        loop {
            match Self::open(wanted).await {
                Err(_) if tries < 100 => {
                    tries += 1;
                    clock::sleep(std::time::Duration::from_millis(20)).await;
                }
                result => return result,
            }
        }
    }

    /// Serves until the life ends.
    pub(crate) fn serve(self, router: Router, life: &Life) {
        let inner = life.clone();
        life.spawn(async move {
            loop {
                // An accept that fails is one connection's misfortune (or a lack of descriptors, which passes).
                let Ok((stream, _)) = self.listener.accept().await else {
                    clock::sleep(std::time::Duration::from_millis(5)).await;
                    continue;
                };
                inner.spawn(connection(stream, router.clone()));
            }
        });
    }
}

async fn connection(stream: TcpStream, router: Router) {
    // Small answers must not wait for an acknowledgement that the other side delays.
    let _ = stream.set_nodelay(true);
    let (line, scissors) = Line::new(stream);
    let service =
        hyper::service::service_fn(move |request| answer(router.clone(), scissors.clone(), request));
    // Whatever ends a connection, the peer's misbehaviour included, ends this connection only.
    let _ = http1::Builder::new().serve_connection(line, service).await;
}

async fn answer(
    router: Router,
    scissors: ConnectionCutter,
    mut request: http::Request<Incoming>,
) -> Result<http::Response<Body>, Infallible> {
    request.extensions_mut().insert(scissors);
    router.oneshot(request.map(Body::new)).await
}
