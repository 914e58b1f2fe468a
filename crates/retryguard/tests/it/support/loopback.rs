//! Servers on loopback, at ports that the operating system chooses.

use std::net::SocketAddr;

use axum::Router;
use tokio::{net::TcpListener, task::JoinHandle};

/// A server that runs until it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Served {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn listen() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a port on loopback")
}

pub(crate) async fn serve(router: Router) -> Served {
    let listener = listen().await;
    let address = listener.local_addr().expect("a bound address");
    let task = tokio::spawn(async move {
        axum::serve(listener, router)
            .await
            .expect("the server runs until it is dropped");
    });
    Served { address, task }
}
