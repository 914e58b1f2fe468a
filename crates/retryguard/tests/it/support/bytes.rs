//! Servers that misbehave at the level of bytes: they speak just enough HTTP/1 and HTTP/2 to do so, and count the
//! requests that they have taken.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

use super::loopback::listen;

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    requests: AtomicUsize,
    connections: AtomicUsize,
    open: AtomicUsize,
}

/// A server that runs until it is dropped.
pub(crate) struct Raw {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Raw {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many requests it has taken.
    pub(crate) fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.counts.open.load(Ordering::SeqCst)
    }

    async fn serve<F, R>(handle: F) -> Self
    where
        F: Fn(TcpStream, Arc<Counts>) -> R + Send + Sync + 'static,
        R: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        let listener = listen().await;
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let counted = counts.clone();
        let task = tokio::spawn(async move {
            // Ends its connections with itself.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                let counts = counted.clone();
                counts.connections.fetch_add(1, Ordering::SeqCst);
                counts.open.fetch_add(1, Ordering::SeqCst);
                let work = handle(stream, counts.clone());
                connections.spawn(async move {
                    // How a client goes away is not the server's business.
                    let _ = work.await;
                    counts.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            address,
            counts,
            task,
        }
    }

    /// Answers the head of every HTTP/1 request with these bytes, without reading a body; then waits for the client to
    /// close, or closes at once.
    pub(crate) async fn http1(answer: &'static [u8], closes: bool) -> Self {
        Self::serve(move |mut stream, counts| async move {
            while read_head(&mut stream).await? {
                counts.requests.fetch_add(1, Ordering::SeqCst);
                stream.write_all(answer).await?;
                if closes {
                    return Ok(());
                }
            }
            Ok(())
        })
        .await
    }

    /// Answers the requests of HTTP/2 in their order, over all connections, as `answers` says, and the later ones with 200.
    pub(crate) async fn http2(answers: impl IntoIterator<Item = Http2>) -> Self {
        let answers: Arc<[Http2]> = answers.into_iter().collect();
        Self::serve(move |stream, counts| http2(stream, counts, answers.clone())).await
    }

    /// Accepts and closes at once.
    pub(crate) async fn closing() -> Self {
        Self::serve(|stream, _| async move {
            drop(stream);
            Ok(())
        })
        .await
    }

    /// Takes requests and never answers.
    pub(crate) async fn black_hole() -> Self {
        Self::serve(|mut stream, counts| async move {
            while read_head(&mut stream).await? {
                counts.requests.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        })
        .await
    }
}

/// What an HTTP/2 server does with a request that it has taken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Http2 {
    /// 200 without a body.
    Ok,
    /// 503, and a body that never ends.
    EndlessFailure,
    /// A frame that no HTTP/2 has.
    Malformed,
    /// REFUSED_STREAM.
    Refused,
    /// A GOAWAY whose last stream is the one before.
    GoAwayBefore,
    /// A GOAWAY whose last stream is this one, and then the end of the connection.
    GoAwayAfter,
    /// RST_STREAM with CANCEL.
    Cancelled,
    /// No answer.
    Silent,
    /// The head of a gRPC response, and the end of the stream without a status.
    GrpcHead,
    /// The head of a gRPC response, and then RST_STREAM with this code.
    GrpcHeadThenReset(u8),
}

pub(crate) const INTERNAL_ERROR: u8 = 2;
pub(crate) const REFUSED_STREAM: u8 = 7;
const CANCEL: u8 = 8;

const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

async fn http2(mut stream: TcpStream, counts: Arc<Counts>, answers: Arc<[Http2]>) -> std::io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    // One stream at a time.
    frame(&mut stream, SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        let id = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
        match head[3] {
            SETTINGS if head[4] & ACK == 0 => frame(&mut stream, SETTINGS, ACK, 0, &[]).await?,
            HEADERS => {
                let number = counts.requests.fetch_add(1, Ordering::SeqCst);
                let answer = answers.get(number).copied().unwrap_or(Http2::Ok);
                if !answer_http2(&mut stream, id, answer).await? {
                    return Ok(());
                }
            }
            _ => {}
        }
    }
}

/// Whether the connection goes on.
async fn answer_http2(stream: &mut TcpStream, id: u32, answer: Http2) -> std::io::Result<bool> {
    // An entry of HPACK's static table: `:status: 200`. 503 is written as a literal.
    const STATUS_200: &[u8] = &[0x88];
    const STATUS_503: &[u8] = &[0x08, 3, b'5', b'0', b'3'];
    let no_error = |last: u32| {
        let mut payload = last.to_be_bytes().to_vec();
        payload.extend([0, 0, 0, 0]);
        payload
    };
    match answer {
        Http2::Ok => frame(stream, HEADERS, END_HEADERS | END_STREAM, id, STATUS_200).await?,
        Http2::EndlessFailure => {
            frame(stream, HEADERS, END_HEADERS, id, STATUS_503).await?;
            frame(stream, DATA, 0, id, b"and so on").await?;
        }
        Http2::Malformed => frame(stream, DATA, 0, 0, b"DATA on stream 0").await?,
        Http2::Refused => frame(stream, RST_STREAM, 0, id, &[0, 0, 0, REFUSED_STREAM]).await?,
        Http2::Cancelled => frame(stream, RST_STREAM, 0, id, &[0, 0, 0, CANCEL]).await?,
        Http2::Silent => {}
        Http2::GrpcHead => frame(stream, HEADERS, END_HEADERS | END_STREAM, id, &grpc_head()).await?,
        Http2::GrpcHeadThenReset(code) => {
            frame(stream, HEADERS, END_HEADERS, id, &grpc_head()).await?;
            frame(stream, RST_STREAM, 0, id, &[0, 0, 0, code]).await?;
        }
        Http2::GoAwayBefore => {
            frame(stream, GOAWAY, 0, 0, &no_error(id.saturating_sub(2))).await?;
        }
        Http2::GoAwayAfter => {
            frame(stream, GOAWAY, 0, 0, &no_error(id)).await?;
            stream.shutdown().await?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// `:status: 200` and `content-type: application/grpc`: a name of HPACK's static table, and a literal value.
fn grpc_head() -> Vec<u8> {
    let kind = b"application/grpc";
    let mut head = vec![0x88, 0x0f, 16];
    head.push(u8::try_from(kind.len()).expect("a short value"));
    head.extend(kind);
    head
}

async fn frame(stream: &mut TcpStream, kind: u8, flags: u8, id: u32, payload: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(payload.len()).expect("short frames").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(id.to_be_bytes());
    bytes.extend(payload);
    stream.write_all(&bytes).await
}

/// Reads to the end of a head. False where the client has closed.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<bool> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await? == 0 {
            return Ok(false);
        }
        read.push(byte[0]);
    }
    Ok(true)
}
