//! Limits on the connections of one port, below TLS and HTTP.
//!
//! A connection without an open request is closed after a while, whatever trickles in on it. When the port is full, the
//! one that has been without a request for longest makes room for the next, so that a health probe is answered while
//! clients open connections and send nothing. A connection whose peer does not read, or reads too slowly, is closed too.

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Extension,
    body::Body,
    extract::Request,
    middleware::{AddExtension, Next},
    response::Response,
};
use axum_server::accept::Accept;
use http_body_util::BodyExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
};
use tower_layer::Layer as _;

use crate::clock::sleep;

/// What one port allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The most connections at once.
    pub(crate) most: usize,
    /// The part of the descriptors that this port has.
    share: Share,
    /// How long a new connection may take to bring its first request.
    pub(crate) first_request: Duration,
    /// How long a connection may stay open between two requests.
    pub(crate) idle: Duration,
    /// How long a peer may take to read anything of what is written to it.
    pub(crate) stalled: Duration,
    /// How long a request may be open, its answer included: a peer that reads a byte now and then would keep its place for ever.
    /// `None` for streams.
    pub(crate) request: Option<Duration>,
}

impl Limits {
    /// At most `most` connections, and at most this part of the descriptors of the process: the control loop needs
    /// descriptors of its own, however many clients there are.
    pub(crate) fn new(most: usize, share: Share) -> Self {
        Self {
            most: most.min(share.of(descriptors())).max(1),
            share,
            first_request: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            stalled: Duration::from_secs(10),
            request: (share == Share::Eighth).then_some(LONGEST_REQUEST),
        }
    }
}

/// The longest wait for news of a policy is a minute; another one is for reading the answer.
const LONGEST_REQUEST: Duration = Duration::from_secs(120);

/// A port's part of the descriptors of the process. There are at most two ports of one eighth, and those of fleets share one half,
/// so a quarter is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// An eighth: the status and the policies.
    Eighth,
    /// A half, divided among the ports of fleets: Envoys, gRPC clients, each shard of either.
    #[cfg(any(feature = "envoy", test))]
    Half,
}

impl Share {
    fn of(self, descriptors: usize) -> usize {
        match self {
            Self::Eighth => descriptors / 8,
            #[cfg(any(feature = "envoy", test))]
            Self::Half => descriptors / 2,
        }
    }
}

/// The ports of fleets of this process.
static FLEET_PORTS: AtomicUsize = AtomicUsize::new(0);

/// Counts a port as long as it lives.
#[derive(Debug)]
struct FleetPort;

impl FleetPort {
    fn open(share: Share) -> Option<Arc<Self>> {
        if share == Share::Eighth {
            return None;
        }
        FLEET_PORTS.fetch_add(1, Ordering::SeqCst);
        Some(Arc::new(Self))
    }
}

impl Drop for FleetPort {
    fn drop(&mut self) {
        FLEET_PORTS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How many files and sockets this process may have open.
fn descriptors() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1_024, |(soft, _)| soft);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Raises the number of descriptors to what the system allows this process. A fleet of Envoys needs one each.
pub fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Without it the limits of the ports are smaller; that is all.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// The connections of one port.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    limits: Limits,
    table: Arc<Mutex<Table>>,
    fleet: Option<Arc<FleetPort>>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Arc<Connection>>,
}

/// One connection, as its port and its requests see it.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// Requests or streams that are open.
    requests: AtomicUsize,
    /// Requests that have begun so far.
    begun: AtomicU64,
    closed: Notify,
}

impl Connection {
    /// Counts a request as open until the answer is dropped.
    pub(crate) fn in_use(self: &Arc<Self>) -> InUse {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        InUse(Arc::clone(self))
    }

    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::SeqCst) == 0
    }
}

/// An open request.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Connection>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            table: Arc::default(),
            fleet: FleetPort::open(limits.share),
        }
    }

    /// The most connections of this port, beside the other ports of fleets.
    fn most(&self) -> usize {
        if self.fleet.is_none() {
            return self.limits.most;
        }
        let ports = FLEET_PORTS.load(Ordering::SeqCst).max(1);
        let own = self.limits.share.of(descriptors()) / ports;
        self.limits.most.min(own).max(1)
    }

    /// Takes a connection in; an error where the port is full of open streams.
    pub(crate) fn admit<I>(&self, io: I) -> io::Result<Limited<I>> {
        let most = self.most();
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.open.len() >= most {
            // Numbers rise, so the first is the oldest.
            let idle = table.open.iter().find(|(_, connection)| connection.is_idle());
            // A request that has been open for longest is a slow reader's, or a wait for news that can be repeated.
            let oldest = || self.limits.request.and_then(|_| table.open.iter().next());
            let Some(number) = idle.or_else(oldest).map(|(number, _)| *number) else {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionRefused,
                    "every connection of this port is in use",
                ));
            };
            if let Some(connection) = table.open.remove(&number) {
                connection.closed.notify_one();
            }
        }
        table.next += 1;
        let number = table.next;
        let connection = Arc::new(Connection::default());
        table.open.insert(number, Arc::clone(&connection));
        let closed = {
            let connection = Arc::clone(&connection);
            Box::pin(async move { connection.closed.notified().await })
        };
        Ok(Limited {
            io,
            limits: self.limits,
            _place: ConnectionSlot {
                number,
                table: Arc::clone(&self.table),
            },
            connection,
            closed,
            waiting: None,
            stalled: None,
        })
    }

    #[cfg(test)]
    fn open(&self) -> usize {
        self.table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .open
            .len()
    }
}

/// A slot of the table, freed when the connection is dropped.
#[derive(Debug)]
struct ConnectionSlot {
    number: u64,
    table: Arc<Mutex<Table>>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.open.remove(&self.number);
    }
}

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection under the limits of its port.
pub(crate) struct Limited<I> {
    io: I,
    limits: Limits,
    connection: Arc<Connection>,
    _place: ConnectionSlot,
    closed: Timer,
    /// Runs while no request is open, or while one is; and with it which of the two, and how many requests had begun.
    waiting: Option<((bool, u64), Timer)>,
    /// Runs while the peer reads nothing.
    stalled: Option<Timer>,
}

impl<I> Limited<I> {
    #[cfg(any(feature = "envoy", test))]
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    #[cfg(feature = "envoy")]
    pub(crate) fn get_ref(&self) -> &I {
        &self.io
    }

    /// Whether the connection is to be closed now.
    fn poll_limits(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.closed.as_mut().poll(context).is_ready() {
            // The future must not be polled again.
            self.closed = Box::pin(std::future::pending());
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "closed to make room",
            ));
        }
        let idle = self.connection.is_idle();
        let begun = self.connection.begun.load(Ordering::SeqCst);
        let limit = match (idle, begun) {
            (true, 0) => Some(self.limits.first_request),
            (true, _) => Some(self.limits.idle),
            (false, _) => self.limits.request,
        };
        let Some(limit) = limit else {
            self.waiting = None;
            return Ok(());
        };
        let now = (idle, begun);
        if self.waiting.as_ref().is_none_or(|(before, _)| *before != now) {
            self.waiting = Some((now, Box::pin(sleep(limit))));
        }
        let waiting = self.waiting.as_mut();
        if waiting.is_some_and(|(_, timer)| timer.as_mut().poll(context).is_ready()) {
            let reason = if idle {
                "no request came in time"
            } else {
                "the answer was not read in time"
            };
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
        Ok(())
    }

    fn poll_stalled<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limits.stalled;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the peer does not read",
        )))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Limited<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_limits(context)?;
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Limited<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_limits(context)?;
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.poll_stalled(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_limits(context)?;
        let written = Pin::new(&mut self.io).poll_write_vectored(context, bytes);
        self.poll_stalled(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.io).poll_flush(context);
        self.poll_stalled(context, written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.io).poll_shutdown(context);
        self.poll_stalled(context, written)
    }
}

impl<I, S> Accept<I, S> for Connections {
    type Stream = Limited<I>;
    type Service = AddExtension<S, Arc<Connection>>;
    type Future = std::future::Ready<io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        std::future::ready(self.admit(stream).map(|limited| {
            let service = Extension(Arc::clone(&limited.connection)).layer(service);
            (limited, service)
        }))
    }
}

/// Counts a request as open until its answer has been written.
pub(crate) async fn in_use(request: Request, next: Next) -> Response {
    let in_use = request
        .extensions()
        .get::<Arc<Connection>>()
        .map(Connection::in_use);
    next.run(request).await.map(|body| {
        Body::new(body.map_frame(move |frame| {
            // Dropped with the body.
            let _ = &in_use;
            frame
        }))
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    fn connections(most: usize) -> Connections {
        Connections::new(Limits {
            most,
            ..Limits::new(most, Share::Half)
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_only_trickles_is_closed() {
        let all = connections(4);
        let (mut client, server) = duplex(64);
        let mut limited = all.admit(server).unwrap();
        let trickle = tokio::spawn(async move {
            while client.write_all(b"G").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let mut bytes = Vec::new();
        let error = limited.read_to_end(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!((9..=11).contains(&bytes.len()), "{}", bytes.len());
        drop(limited);
        assert_eq!(all.open(), 0);
        trickle.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_request_keeps_the_connection_and_its_end_begins_the_idle_time() {
        let all = connections(4);
        let (client, server) = duplex(64);
        let mut limited = all.admit(server).unwrap();
        let request = limited.connection().in_use();
        let waited = tokio::time::timeout(Duration::from_secs(3_600), limited.read_u8()).await;
        assert!(waited.is_err(), "a stream is not cut off");
        drop(request);
        let waited = tokio::time::timeout(Duration::from_secs(59), limited.read_u8()).await;
        assert!(waited.is_err());
        let error = limited.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_port_closes_the_oldest_idle_connection_and_no_busy_one() {
        let all = connections(2);
        let (_one, server) = duplex(64);
        let busy = all.admit(server).unwrap();
        let request = busy.connection().in_use();
        let (_two, server) = duplex(64);
        let mut idle = all.admit(server).unwrap();
        let (_three, server) = duplex(64);
        let third = all.admit(server).unwrap();
        let error = idle.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        let other = third.connection().in_use();
        let (_four, server) = duplex(64);
        assert!(all.admit(server).is_err(), "both are in use");
        drop((request, other));
        let (_five, server) = duplex(64);
        assert!(all.admit(server).is_ok());
    }

    /// Two ports of fleets could take a half of the descriptors each, and left none for the control loop.
    #[test]
    fn ports_of_fleets_share_one_half() {
        let fleet = Limits {
            most: usize::MAX,
            ..Limits::new(usize::MAX, Share::Half)
        };
        let half = Share::Half.of(descriptors());
        let ports: Vec<Connections> = (0..4).map(|_| Connections::new(fleet)).collect();
        // Other tests of this process may have ports too.
        assert!(ports.iter().map(Connections::most).sum::<usize>() <= half);
        let status = Connections::new(Limits::new(usize::MAX, Share::Eighth));
        assert_eq!(status.most(), descriptors() / 8);
    }

    /// Such a peer was never left: whenever it read something, the time began anew. As many of them as the port has places kept
    /// every health probe out.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_a_byte_now_and_then_is_left() {
        let all = Connections::new(Limits::new(2, Share::Eighth));
        let (mut client, server) = duplex(64);
        let mut limited = all.admit(server).unwrap();
        let request = limited.connection().in_use();
        let reader = tokio::spawn(async move {
            let mut read = 0;
            while client.read_u8().await.is_ok() {
                read += 1;
                sleep(Duration::from_secs(9)).await;
            }
            read
        });
        let error = limited.write_all(&[0; 1_000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop((request, limited));
        assert_eq!(all.open(), 0);
        // What was written is still read.
        assert!(reader.await.unwrap() < 100);
    }

    /// Slow readers in every place of the port kept a health probe out until their time was over.
    #[tokio::test(start_paused = true)]
    async fn a_port_that_is_full_of_slow_readers_takes_the_next_connection() {
        let all = Connections::new(Limits::new(2, Share::Eighth));
        let (_clients, servers): (Vec<_>, Vec<_>) = (0..3).map(|_| duplex(64)).unzip();
        let mut admitted = Vec::new();
        for server in servers {
            let limited = all.admit(server).unwrap();
            let request = limited.connection().in_use();
            admitted.push((limited, request));
        }
        let error = admitted[0].0.write_all(&[0; 65]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        assert!(admitted[2].0.write_all(&[0; 64]).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_is_left() {
        let all = connections(2);
        let (_client, server) = duplex(64);
        let mut limited = all.admit(server).unwrap();
        let error = limited.write_all(&[0; 65]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
