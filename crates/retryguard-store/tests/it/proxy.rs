//! A network that can be cut: what is between a program and its server.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

/// Forwards connections to a port of the loopback interface.
pub(crate) struct Proxy {
    port: u16,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    cut: AtomicUsize,
    accepting: AbortHandle,
}

impl Proxy {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections: Arc<Mutex<Vec<AbortHandle>>> = Arc::default();
        let list = connections.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let forward = tokio::spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
                let mut list = list.lock().unwrap();
                list.retain(|connection| !connection.is_finished());
                list.push(forward.abort_handle());
            }
        });
        Self {
            port,
            connections,
            cut: AtomicUsize::new(0),
            accepting: accepting.abort_handle(),
        }
    }

    /// The same address through the proxy.
    pub(crate) fn through(&self, url: &str) -> String {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        let (host, _) = host.rsplit_once(':').unwrap();
        format!("{scheme}://{host}:{}/{path}", self.port)
    }

    /// Cuts every connection, in the middle of whatever is said.
    pub(crate) fn cut(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            if !connection.is_finished() {
                self.cut.fetch_add(1, Ordering::Relaxed);
                connection.abort();
            }
        }
    }

    /// How many connections were cut.
    pub(crate) fn count(&self) -> usize {
        self.cut.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}
