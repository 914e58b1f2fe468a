//! The gRPC services, over the desk.

use std::sync::Arc;
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
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::{Router, TcpIncoming};
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use super::book::NoEntry;
use super::desk::{Desk, Seat};
use super::dialect::{Delta, Dialect, World};
use crate::config::listen::Listen;
use crate::secret::Secret;
use crate::start::StartError;

const WHAT: &str = "envoy-rtds";

/// The largest request that is read. An Envoy's first one names its extensions (about 100 KB), and a version that
/// names every cluster fits.
pub(super) const LARGEST_REQUEST: usize = 4 * 1024 * 1024;
/// One Envoy needs one stream, or two when it has several layers.
const MOST_STREAMS_PER_CONNECTION: u32 = 8;
/// A connection that does not answer a ping within this time is dead, and its place is free again.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Listens and serves until the other end of the channel is dropped. Then open connections are closed as their
/// streams end: an Envoy that kept one would go on asking a server that is no more.
pub(super) async fn start(listen: &Listen, desk: &Arc<Desk>) -> Result<oneshot::Sender<()>, StartError> {
    let check = Check(token(listen)?);
    let router = router(listen, desk, &check)?;
    let listener = TcpListener::bind(listen.address)
        .await
        .map_err(|error| StartError::Listen {
            what: WHAT,
            address: listen.address.to_string(),
            reason: error.to_string(),
        })?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
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

fn router(listen: &Listen, desk: &Arc<Desk>, check: &Check) -> Result<Router, StartError> {
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
        let identity = Identity::from_pem(read(&tls.certificate)?, read(&tls.key)?);
        server = server
            .tls_config(ServerTlsConfig::new().identity(identity))
            .map_err(|error| StartError::File {
                what: WHAT,
                path: tls.certificate.display().to_string(),
                reason: error.to_string(),
            })?;
    }
    let service = Service(Arc::clone(desk));
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
        let given = request
            .metadata()
            .get("authorization")
            .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        if given.is_some_and(|given| secret.matches(given)) {
            Ok(request)
        } else {
            Err(Status::unauthenticated(
                "send the controller's token as initial_metadata `authorization: Bearer …`",
            ))
        }
    }
}

#[derive(Debug, Clone)]
struct Service(Arc<Desk>);

type Answers<D> = ReceiverStream<Result<<D as Dialect>::Response, Status>>;

impl Service {
    fn open<D: Dialect>(
        &self,
        request: Request<Streaming<D::Request>>,
    ) -> Result<Response<Answers<D>>, Status> {
        let address = request
            .remote_addr()
            .map_or_else(String::new, |address| address.to_string());
        let seat = Seat::take(&self.0, &address).map_err(|refusal| match refusal {
            NoEntry::NotActing => not_acting(),
            NoEntry::Full => Status::resource_exhausted("too many Envoys on this controller"),
        })?;
        // One answer at a time: what a slow reader has not taken is replaced by something newer, not queued.
        let (answers, stream) = mpsc::channel(1);
        tokio::spawn(talk::<D>(
            Arc::clone(&self.0),
            seat,
            request.into_inner(),
            answers,
        ));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Moves requests and answers between one stream and the desk.
async fn talk<D: Dialect>(
    desk: Arc<Desk>,
    seat: Seat,
    mut requests: Streaming<D::Request>,
    answers: mpsc::Sender<Result<D::Response, Status>>,
) {
    let mut said = desk.said();
    while seat.may_stay() {
        tokio::select! {
            request = requests.message() => match request {
                Ok(Some(request)) => {
                    if let Some(ask) = D::hear(request, &desk.layer) {
                        seat.hears(&ask);
                    }
                }
                Ok(None) | Err(_) => return,
            },
            place = answers.reserve(), if seat.owes() => match place {
                Ok(place) => {
                    if let Some(saying) = seat.says() {
                        place.send(Ok(D::say(&saying, &desk.layer)));
                    }
                }
                Err(_) => return,
            },
            changed = said.changed() => if changed.is_err() {
                return;
            },
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
    type StreamRuntimeStream = Answers<World>;
    type DeltaRuntimeStream = Answers<Delta>;

    async fn stream_runtime(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamRuntimeStream>, Status> {
        self.open::<World>(request)
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
    type StreamAggregatedResourcesStream = Answers<World>;
    type DeltaAggregatedResourcesStream = Answers<Delta>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        self.open::<World>(request)
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        self.open::<Delta>(request)
    }
}
