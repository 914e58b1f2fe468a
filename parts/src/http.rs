use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The status with which a server on this port of the loopback interface answers a GET; `None` without an answer.
#[must_use]
pub fn status(port: u16, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    // `HTTP/1.1 200`: the status is always at the same place.
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head[9..]).ok()?.parse().ok()
}
