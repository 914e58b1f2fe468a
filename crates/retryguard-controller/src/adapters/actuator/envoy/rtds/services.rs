//! The gRPC services of runtime discovery.

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::envoy::service::runtime::v3::runtime_discovery_service_server::{
    RuntimeDiscoveryService, RuntimeDiscoveryServiceServer,
};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic::{Request, Response, Status, Streaming};

use crate::adapters::actuator::discovery::server::{self, Answers, Check, LARGEST_REQUEST};
use crate::adapters::actuator::envoy::rtds::dialect::{Delta, RuntimeLayer, StateOfTheWorld};

/// Adds them to a server.
pub(super) fn add(mut server: Server, service: server::Service<RuntimeLayer>, check: Check) -> Router {
    let service = Service(service);
    let runtime =
        RuntimeDiscoveryServiceServer::new(service.clone()).max_decoding_message_size(LARGEST_REQUEST);
    let all = AggregatedDiscoveryServiceServer::new(service).max_decoding_message_size(LARGEST_REQUEST);
    server
        .add_service(InterceptedService::new(runtime, check.clone()))
        .add_service(InterceptedService::new(all, check))
}

#[derive(Debug, Clone)]
struct Service(server::Service<RuntimeLayer>);

#[tonic::async_trait]
impl RuntimeDiscoveryService for Service {
    type StreamRuntimeStream = Answers<StateOfTheWorld>;
    type DeltaRuntimeStream = Answers<Delta>;

    async fn stream_runtime(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamRuntimeStream>, Status> {
        self.0.open::<StateOfTheWorld>(request)
    }

    async fn delta_runtime(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaRuntimeStream>, Status> {
        self.0.open::<Delta>(request)
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
        self.0.open::<StateOfTheWorld>(request)
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        self.0.open::<Delta>(request)
    }
}
