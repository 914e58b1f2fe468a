//! The gRPC service that gRPC clients ask.

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest,
};
use tonic::codegen::tokio_stream::Empty;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic::{Request, Response, Status, Streaming};

use crate::adapters::actuator::discovery::server::{self, Answers, Check, LARGEST_REQUEST};
use crate::adapters::actuator::grpc_xds::dialect::{Client, Services};

/// Adds it to a server.
pub(super) fn add(mut server: Server, service: server::Service<Services>, check: Check) -> Router {
    let all =
        AggregatedDiscoveryServiceServer::new(Service(service)).max_decoding_message_size(LARGEST_REQUEST);
    server.add_service(InterceptedService::new(all, check))
}

#[derive(Debug, Clone)]
struct Service(server::Service<Services>);

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = Answers<Client>;
    type DeltaAggregatedResourcesStream = Empty<Result<DeltaDiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        self.0.open::<Client>(request)
    }

    async fn delta_aggregated_resources(
        &self,
        _request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented(
            "gRPC clients are served the state of the world; an Envoy asks `envoy-rtds`",
        ))
    }
}
