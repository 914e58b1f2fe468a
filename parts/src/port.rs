use std::net::TcpListener;

/// A port of the loopback interface that is free at present.
///
/// Between this call and the server's own bind another process can take it; a start that fails for that
/// reason is tried again with another port by the parts themselves.
///
/// # Panics
/// When the machine has no free port left.
#[must_use]
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .expect("a free port on loopback")
        .port()
}
