//! A gRPC client and server, with the health service as the interface. The server is unavailable at first.
//!
//! `cargo run -p retryguard-examples --example tonic_pair`

use std::{
    pin::Pin,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use retryguard::{Policy, for_http::Http, for_tonic::TonicLayer, server::ServerLayer};
use tonic::{
    Request, Response, Status,
    codegen::tokio_stream::Stream,
    transport::{Channel, Server, server::TcpIncoming},
};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_client::HealthClient,
    health_server::{Health, HealthServer},
};
use tower::Layer;

const POLICY: &str = "
services:
  health:
    maxRetries: 3
    initialDelay: 20ms
    deadline: 2s
    budget: {percent: 300%}
";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let policy = Policy::parse(POLICY)?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = format!("http://{}", listener.local_addr()?);
    let server = Server::builder()
        .layer(ServerLayer::new(&policy, "health"))
        .add_service(HealthServer::new(Unwell::default()));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    // gRPC sends everything as POST, so the caller says which methods may be done twice.
    let protocol = Http::new()
        .client("tonic_pair", env!("CARGO_PKG_VERSION"))
        .idempotent_when(|_, path| path.ends_with("/Check"));
    let layer = TonicLayer::new(&policy, "health", protocol);
    let channel = Channel::from_shared(address)?.connect_lazy();
    let mut client = HealthClient::new(layer.layer(channel));

    let mut request = Request::new(HealthCheckRequest::default());
    request.set_timeout(Duration::from_secs(1));
    let answer = client.check(request).await?;
    println!("the client got status {}", answer.into_inner().status);
    println!("{:?}", layer.handle().status());
    Ok(())
}

/// Answers the third request, and prints what each of them says of itself.
#[derive(Default)]
struct Unwell {
    requests: AtomicU32,
}

#[tonic::async_trait]
impl Health for Unwell {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        println!("request {number}:");
        for name in [
            "retryguard-client",
            "retryguard-attempt",
            "retryguard-criticality",
            "grpc-timeout",
        ] {
            println!("  {name}: {:?}", request.metadata().get(name));
        }
        if number < 3 {
            return Err(Status::unavailable("still starting"));
        }
        Ok(Response::new(HealthCheckResponse { status: 1 }))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("this server is only checked"))
    }
}
