//! A connection that can be torn, as a router or a crash tears it: the peer sees a reset and not an end.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Tears the connection that a request came over. Found in the request's extensions.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCutter(Arc<AtomicBool>);

impl ConnectionCutter {
    /// Breaks the connection: nothing more is sent, and the peer gets a reset.
    pub fn cut(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_cut(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The server's end of a connection.
pub(crate) struct Line {
    stream: TokioIo<TcpStream>,
    scissors: ConnectionCutter,
}

impl Line {
    pub(crate) fn new(stream: TcpStream) -> (Self, ConnectionCutter) {
        let scissors = ConnectionCutter::default();
        let line = Self {
            stream: TokioIo::new(stream),
            scissors: scissors.clone(),
        };
        (line, scissors)
    }

    fn whole(&mut self) -> io::Result<Pin<&mut TokioIo<TcpStream>>> {
        if self.scissors.is_cut() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(Pin::new(&mut self.stream))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.scissors.is_cut() {
            // Where it cannot be set, the peer sees an end in the middle of a response, which is as good.
            let _ = self.stream.inner().set_zero_linger();
        }
    }
}

impl Read for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.whole() {
            Ok(stream) => stream.poll_read(cx, buffer),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Write for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.whole() {
            Ok(stream) => stream.poll_write(cx, bytes),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.whole() {
            Ok(stream) => stream.poll_flush(cx),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.whole() {
            Ok(stream) => stream.poll_shutdown(cx),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}
