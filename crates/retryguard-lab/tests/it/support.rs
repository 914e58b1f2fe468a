//! A system to try things on, and requests written by hand.

use std::net::SocketAddr;

use retryguard_lab::{Configuration, Settings, System, TimeScale};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A tenth of every duration, and one seed.
pub(crate) fn settings(configuration: Configuration) -> Settings {
    Settings {
        scale: TimeScale::new(0.1).unwrap(),
        seed: 7,
        ..Settings::described(configuration)
    }
}

pub(crate) async fn system(configuration: Configuration) -> System {
    System::start(settings(configuration)).await.unwrap()
}

/// An answer, read to the end of its connection.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Sends bytes as they are and reads what comes back; none where the connection breaks without an answer.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses a large body may close before it has read all of it.
    let _ = stream.write_all(bytes).await;
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read).await;
    let text = String::from_utf8_lossy(&read);
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some(Answer {
        status: head.split(' ').nth(1)?.parse().ok()?,
        body: body.to_owned(),
    })
}

/// A request with a body and headers of one's own.
pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut text = format!(
        "{method} {path} HTTP/1.1\r\nhost: lab\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    let mut bytes = (text + "\r\n").into_bytes();
    bytes.extend_from_slice(body);
    raw(address, &bytes)
        .await
        .unwrap_or_else(|| panic!("no answer to {method} {path}"))
}

/// The same with a JSON body.
pub(crate) async fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    send(
        address,
        "POST",
        path,
        &[("content-type", "application/json")],
        body.as_bytes(),
    )
    .await
}
