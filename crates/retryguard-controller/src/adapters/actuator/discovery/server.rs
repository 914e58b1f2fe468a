//! The port of a discovery server, and its streams over the shared fleet.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tonic::codegen::tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::service::Interceptor;
use tonic::transport::server::{Connected, Router, TcpIncoming, TlsConnectInfo};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use crate::adapters::actuator::discovery::fleet::{MOST_STREAMS, NodeRequest, StreamRefused, Update};
use crate::adapters::actuator::discovery::shared_fleet::{SharedFleet, StreamHandle};
use crate::adapters::http::connections::{Connection, Connections, Limited, Limits, Share};
use crate::adapters::http::{pem, warn_if_exposed};
use crate::adapters::start_error::StartError;
use crate::clock::sleep;
use crate::config::listen::Listen;
use crate::secret::Secret;

/// One pair of messages, with what one stream must remember of them.
pub(in crate::adapters::actuator) trait Dialect:
    Default + Send + 'static
{
    /// What is served besides the decisions.
    type Served: Send + Sync + 'static;
    /// What a node sends.
    type Request: Send + 'static;
    /// What it is sent.
    type Response: Send + 'static;

    /// What a request comes to for the fleet; `None` where it is about something else.
    fn decode(&mut self, request: Self::Request, served: &Self::Served) -> Option<NodeRequest>;

    /// The answer that says it.
    fn encode(&self, update: &Update, served: &Self::Served) -> Self::Response;

    /// Whether an answer is due that the fleet has nothing to do with.
    fn has_answer(&self) -> bool {
        false
    }

    /// That answer.
    fn next_answer(&mut self, _served: &Self::Served) -> Option<Self::Response> {
        None
    }
}

/// The largest request that is read. An Envoy's first one names its extensions (about 100 KB), and a version that
/// names every cluster fits.
pub(in crate::adapters::actuator) const LARGEST_REQUEST: usize = 4 * 1024 * 1024;
/// One node needs one stream, or two when it has several layers.
const MOST_STREAMS_PER_CONNECTION: u32 = 8;
/// A node needs one connection; a few more than streams, for those that are about to close.
const MOST_CONNECTIONS: usize = MOST_STREAMS + MOST_STREAMS / 8;
/// A node sends its first request with the stream itself. A stream that says nothing would keep its place for ever.
const FIRST_REQUEST: Duration = Duration::from_secs(30);
/// A connection that does not answer a ping within this time is dead, and its place is free again.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Listens and serves until the other end of the channel is dropped. Then open connections are closed as their
/// streams end: a node that kept one would go on asking a server that is no more.
pub(super) async fn start<S: Send + Sync + 'static>(
    what: &'static str,
    listen: &Listen,
    shared: &Arc<SharedFleet<S>>,
    services: impl FnOnce(Server, Service<S>, Check) -> Router,
) -> Result<oneshot::Sender<()>, StartError> {
    let check = Check(token(what, listen)?);
    let router = services(server(what, listen)?, Service(Arc::clone(shared)), check);
    let listener = TcpListener::bind(listen.address)
        .await
        .map_err(|error| StartError::Listen {
            what,
            address: listen.address.to_string(),
            reason: error.to_string(),
        })?;
    if let Ok(address) = listener.local_addr() {
        warn_if_exposed(what, address, listen);
    }
    let incoming = Incoming {
        accepted: TcpIncoming::from(listener).with_nodelay(Some(true)),
        connections: Connections::new(Limits::new(MOST_CONNECTIONS, Share::Half)),
    };
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(async move {
        let stopped = async {
            // Nothing is ever sent: the sender's end is the word.
            let _ = stopped.await;
        };
        if let Err(error) = router.serve_with_incoming_shutdown(incoming, stopped).await {
            tracing::error!(%error, what, "the discovery server has stopped");
        }
    });
    Ok(stop)
}

fn server(what: &'static str, listen: &Listen) -> Result<Server, StartError> {
    let server = Server::builder()
        .max_concurrent_streams(MOST_STREAMS_PER_CONNECTION)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE));
    let Some(tls) = &listen.tls else {
        return Ok(server);
    };
    let read = |path: &std::path::Path| {
        pem(path).map_err(|reason| StartError::File {
            what,
            path: path.display().to_string(),
            reason,
        })
    };
    // Checked as on the other ports, whose messages say which file is wrong.
    crate::adapters::http::server_config(what, tls)?;
    let identity = Identity::from_pem(read(&tls.certificate)?, read(&tls.key)?);
    let mut config = ServerTlsConfig::new().identity(identity);
    if let Some(path) = &tls.client_ca {
        config = config.client_ca_root(Certificate::from_pem(read(path)?));
    }
    server.tls_config(config).map_err(|error| StartError::File {
        what,
        path: tls.certificate.display().to_string(),
        reason: error.to_string(),
    })
}

fn token(what: &'static str, listen: &Listen) -> Result<Option<Secret>, StartError> {
    let read = |path: &std::path::PathBuf| {
        Secret::from_file(path).map_err(|error| StartError::File {
            what,
            path: path.display().to_string(),
            reason: error.to_string(),
        })
    };
    listen.token_file.as_ref().map(read).transpose()
}

/// Asks for the token, where there is one.
#[derive(Debug, Clone)]
pub(in crate::adapters::actuator) struct Check(Option<Secret>);

impl Interceptor for Check {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(secret) = &self.0 else {
            return Ok(request);
        };
        let given = request.metadata().get("authorization");
        if given.is_some_and(|given| secret.matches_bearer(given.as_bytes())) {
            Ok(request)
        } else {
            Err(Status::unauthenticated(
                "send the controller's token as initial_metadata `authorization: Bearer …`",
            ))
        }
    }
}

/// Connections under the limits of this port.
struct Incoming {
    accepted: TcpIncoming,
    connections: Connections,
}

impl Stream for Incoming {
    type Item = io::Result<Limited<TcpStream>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match Pin::new(&mut self.accepted).poll_next(context) {
                Poll::Ready(Some(Ok(stream))) => {
                    // One that is refused is closed by being dropped.
                    if let Ok(limited) = self.connections.admit(stream) {
                        return Poll::Ready(Some(Ok(limited)));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    address: String,
    connection: Arc<Connection>,
}

impl Peer {
    fn of<T>(request: &Request<T>) -> Option<Self> {
        let all = request.extensions();
        let plain = all.get::<Self>();
        plain
            .or_else(|| all.get::<TlsConnectInfo<Self>>().map(TlsConnectInfo::get_ref))
            .cloned()
    }
}

impl Connected for Limited<TcpStream> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        let address = self.get_ref().peer_addr();
        Peer {
            address: address.map_or_else(|_| String::new(), |address| address.to_string()),
            connection: Arc::clone(self.connection()),
        }
    }
}

/// What the gRPC services hand their streams to.
#[derive(Debug)]
pub(in crate::adapters::actuator) struct Service<S>(Arc<SharedFleet<S>>);

impl<S> Clone for Service<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The answers of one stream.
pub(in crate::adapters::actuator) type Answers<D> = ReceiverStream<Result<<D as Dialect>::Response, Status>>;

impl<S: Send + Sync + 'static> Service<S> {
    pub(in crate::adapters::actuator) fn open<D: Dialect<Served = S>>(
        &self,
        request: Request<Streaming<D::Request>>,
    ) -> Result<Response<Answers<D>>, Status> {
        let peer = Peer::of(&request);
        let address = peer.as_ref().map(|peer| peer.address.clone()).unwrap_or_default();
        let in_use = peer.map(|peer| peer.connection.in_use());
        let handle = StreamHandle::take(&self.0, &address).map_err(|refusal| match refusal {
            StreamRefused::NotActing => not_acting(),
            StreamRefused::Full => Status::resource_exhausted("too many streams on this controller"),
        })?;
        // One answer at a time: what a slow reader has not taken is replaced by something newer, not queued.
        let (answers, stream) = mpsc::channel(1);
        let running = run_stream::<D>(Arc::clone(&self.0), handle, request.into_inner(), answers);
        tokio::spawn(async move {
            running.await;
            drop(in_use);
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Moves requests and answers between one stream and the fleet.
async fn run_stream<D: Dialect>(
    shared: Arc<SharedFleet<D::Served>>,
    stream: StreamHandle<D::Served>,
    mut requests: Streaming<D::Request>,
    answers: mpsc::Sender<Result<D::Response, Status>>,
) {
    let mut updates = shared.updates();
    let mut dialect = D::default();
    let mut first_request = Box::pin(sleep(FIRST_REQUEST));
    let mut mute = true;
    while stream.may_continue() {
        tokio::select! {
            request = requests.message() => match request {
                Ok(Some(request)) => {
                    mute = false;
                    if let Some(request) = dialect.decode(request, &shared.served) {
                        stream.on_request(&request);
                    }
                }
                Ok(None) => return,
                // Such as a request that is too large. The node's log then says so.
                Err(status) => {
                    let _ = answers.try_send(Err(status));
                    return;
                }
            },
            place = answers.reserve(), if dialect.has_answer() || stream.has_update() => match place {
                Ok(place) => {
                    if let Some(answer) = dialect.next_answer(&shared.served) {
                        place.send(Ok(answer));
                    } else if let Some(update) = stream.next_update() {
                        place.send(Ok(dialect.encode(&update, &shared.served)));
                    }
                }
                Err(_) => return,
            },
            changed = updates.changed() => if changed.is_err() {
                return;
            },
            () = &mut first_request, if mute => {
                // The stream ends in either case.
                let _ = answers.try_send(Err(Status::deadline_exceeded("no request came on this stream")));
                return;
            }
        }
    }
    // The reader may be gone or slow; the stream ends in either case.
    let _ = answers.try_send(Err(not_acting()));
}

fn not_acting() -> Status {
    Status::unavailable("this controller does not act at present; ask the one that does")
}
