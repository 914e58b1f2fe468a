//! The gRPC services, over the shared fleet.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::envoy::service::runtime::v3::runtime_discovery_service_server::{
    RuntimeDiscoveryService, RuntimeDiscoveryServiceServer,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tonic::codegen::tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::{Connected, Router, TcpIncoming, TlsConnectInfo};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use crate::adapters::actuator::envoy::rtds::dialect::{Delta, Dialect, StateOfTheWorld};
use crate::adapters::actuator::envoy::rtds::fleet::{MOST_STREAMS, StreamRefused};
use crate::adapters::actuator::envoy::rtds::shared_fleet::{SharedFleet, StreamHandle};
use crate::adapters::http::connections::{Connection, Connections, Limited, Limits, Share};
use crate::adapters::http::warn_if_exposed;
use crate::adapters::start_error::StartError;
use crate::clock::sleep;
use crate::config::listen::Listen;
use crate::secret::Secret;

const WHAT: &str = "envoy-rtds";

/// The largest request that is read. An Envoy's first one names its extensions (about 100 KB), and a version that
/// names every cluster fits.
pub(super) const LARGEST_REQUEST: usize = 4 * 1024 * 1024;
/// One Envoy needs one stream, or two when it has several layers.
const MOST_STREAMS_PER_CONNECTION: u32 = 8;
/// An Envoy needs one connection; a few more than streams, for those that are about to close.
const MOST_CONNECTIONS: usize = MOST_STREAMS + MOST_STREAMS / 8;
/// An Envoy sends its first request with the stream itself. A stream that says nothing would keep its place for ever.
pub(super) const FIRST_REQUEST: Duration = Duration::from_secs(30);
/// A connection that does not answer a ping within this time is dead, and its place is free again.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Listens and serves until the other end of the channel is dropped. Then open connections are closed as their
/// streams end: an Envoy that kept one would go on asking a server that is no more.
pub(super) async fn start(
    listen: &Listen,
    shared: &Arc<SharedFleet>,
) -> Result<oneshot::Sender<()>, StartError> {
    let check = Check(token(listen)?);
    let router = router(listen, shared, &check)?;
    let listener = TcpListener::bind(listen.address)
        .await
        .map_err(|error| StartError::Listen {
            what: WHAT,
            address: listen.address.to_string(),
            reason: error.to_string(),
        })?;
    if let Ok(address) = listener.local_addr() {
        warn_if_exposed(WHAT, address, listen);
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
            tracing::error!(%error, "the runtime discovery server has stopped");
        }
    });
    Ok(stop)
}

fn router(listen: &Listen, shared: &Arc<SharedFleet>, check: &Check) -> Result<Router, StartError> {
    let mut server = Server::builder()
        .max_concurrent_streams(MOST_STREAMS_PER_CONNECTION)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE));
    if let Some(tls) = &listen.tls {
        let read = |path: &std::path::Path| {
            std::fs::read(path).map_err(|error| StartError::File {
                what: WHAT,
                path: path.display().to_string(),
                reason: error.to_string(),
            })
        };
        // Checked as on the other ports, whose messages say which file is wrong.
        crate::adapters::http::server_config(WHAT, tls)?;
        let identity = Identity::from_pem(read(&tls.certificate)?, read(&tls.key)?);
        let mut config = ServerTlsConfig::new().identity(identity);
        if let Some(path) = &tls.client_ca {
            config = config.client_ca_root(Certificate::from_pem(read(path)?));
        }
        server = server.tls_config(config).map_err(|error| StartError::File {
            what: WHAT,
            path: tls.certificate.display().to_string(),
            reason: error.to_string(),
        })?;
    }
    let service = Service(Arc::clone(shared));
    let runtime =
        RuntimeDiscoveryServiceServer::new(service.clone()).max_decoding_message_size(LARGEST_REQUEST);
    let all = AggregatedDiscoveryServiceServer::new(service).max_decoding_message_size(LARGEST_REQUEST);
    Ok(server
        .add_service(InterceptedService::new(runtime, check.clone()))
        .add_service(InterceptedService::new(all, check.clone())))
}

fn token(listen: &Listen) -> Result<Option<Secret>, StartError> {
    let read = |path: &std::path::PathBuf| {
        Secret::from_file(path).map_err(|error| StartError::File {
            what: WHAT,
            path: path.display().to_string(),
            reason: error.to_string(),
        })
    };
    listen.token_file.as_ref().map(read).transpose()
}

/// Asks for the token, where there is one.
#[derive(Debug, Clone)]
struct Check(Option<Secret>);

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

#[derive(Debug, Clone)]
struct Service(Arc<SharedFleet>);

type Answers<D> = ReceiverStream<Result<<D as Dialect>::Response, Status>>;

impl Service {
    fn open<D: Dialect>(
        &self,
        request: Request<Streaming<D::Request>>,
    ) -> Result<Response<Answers<D>>, Status> {
        let peer = Peer::of(&request);
        let address = peer.as_ref().map(|peer| peer.address.clone()).unwrap_or_default();
        let in_use = peer.map(|peer| peer.connection.in_use());
        let handle = StreamHandle::take(&self.0, &address).map_err(|refusal| match refusal {
            StreamRefused::NotActing => not_acting(),
            StreamRefused::Full => Status::resource_exhausted("too many Envoys on this controller"),
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
    shared: Arc<SharedFleet>,
    stream: StreamHandle,
    mut requests: Streaming<D::Request>,
    answers: mpsc::Sender<Result<D::Response, Status>>,
) {
    let mut updates = shared.updates();
    let mut first_request = Box::pin(sleep(FIRST_REQUEST));
    let mut mute = true;
    while stream.may_continue() {
        tokio::select! {
            request = requests.message() => match request {
                Ok(Some(request)) => {
                    mute = false;
                    if let Some(request) = D::decode(request, &shared.layer) {
                        stream.on_request(&request);
                    }
                }
                Ok(None) | Err(_) => return,
            },
            place = answers.reserve(), if stream.has_update() => match place {
                Ok(place) => {
                    if let Some(update) = stream.next_update() {
                        place.send(Ok(D::encode(&update, &shared.layer)));
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

#[tonic::async_trait]
impl RuntimeDiscoveryService for Service {
    type StreamRuntimeStream = Answers<StateOfTheWorld>;
    type DeltaRuntimeStream = Answers<Delta>;

    async fn stream_runtime(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamRuntimeStream>, Status> {
        self.open::<StateOfTheWorld>(request)
    }

    async fn delta_runtime(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaRuntimeStream>, Status> {
        self.open::<Delta>(request)
    }

    async fn fetch_runtime(
        &self,
        _request: Request<DiscoveryRequest>,
    ) -> Result<Response<DiscoveryResponse>, Status> {
        Err(Status::unimplemented(
            "a fetch cannot be told of changes; use `api_type: GRPC` or `DELTA_GRPC`",
        ))
    }
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = Answers<StateOfTheWorld>;
    type DeltaAggregatedResourcesStream = Answers<Delta>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        self.open::<StateOfTheWorld>(request)
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        self.open::<Delta>(request)
    }
}
