//! What a hostile or broken peer can make the library do, over real connections.

mod bodies;
mod duplicates;
mod limits;
mod sharing;
mod slow_clients;
mod start;
mod trust;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client as HyperClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use retryguard::{
    Policy,
    for_http::{HttpLayer, HttpService, ReplayBody},
    for_reqwest::Client,
};
use tower::Layer;

type Hyper = HttpService<HyperClient<HttpConnector, ReplayBody<Full<Bytes>>>>;

fn hyper(policy: &Policy, http2: bool) -> Hyper {
    let client = HyperClient::builder(TokioExecutor::new())
        .http2_only(http2)
        .build_http();
    HttpLayer::new(policy, "it").layer(client)
}

fn reqwest(policy: &Policy, http2: bool) -> Client {
    let mut builder = reqwest::Client::builder();
    if http2 {
        builder = builder.http2_prior_knowledge();
    }
    Client::with_builder(builder, policy, "it", retryguard::for_http::Http::new()).unwrap()
}
