//! What is between a program and its server: a network that can be cut, and one that counts round trips.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
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

/// Forwards one connection, and keeps what the client sends: one entry for all that it sends before the server answers.
pub(crate) struct RoundTrips {
    port: u16,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
    forwarding: AbortHandle,
}

impl RoundTrips {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let sent: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let list = sent.clone();
        let forwarding = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            let (mut from_client, mut from_server) = ([0; 4096], [0; 4096]);
            let mut answered = true;
            loop {
                tokio::select! {
                    read = client.read(&mut from_client) => {
                        let read = read.unwrap();
                        if read == 0 {
                            return;
                        }
                        note(&list, answered, &from_client[..read]);
                        answered = false;
                        server.write_all(&from_client[..read]).await.unwrap();
                    }
                    read = server.read(&mut from_server) => {
                        let read = read.unwrap();
                        if read == 0 {
                            return;
                        }
                        answered = true;
                        client.write_all(&from_server[..read]).await.unwrap();
                    }
                }
            }
        });
        Self {
            port,
            sent,
            forwarding: forwarding.abort_handle(),
        }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// What was sent since this was last asked.
    pub(crate) fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.sent.lock().unwrap())
    }
}

fn note(list: &Mutex<Vec<Vec<u8>>>, answered: bool, sent: &[u8]) {
    let mut list = list.lock().unwrap();
    if answered {
        list.push(Vec::new());
    }
    list.last_mut().unwrap().extend(sent);
}

impl Drop for RoundTrips {
    fn drop(&mut self) {
        self.forwarding.abort();
    }
}
