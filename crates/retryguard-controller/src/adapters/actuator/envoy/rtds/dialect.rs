//! The two ways in which an Envoy may ask: state of the world, and delta. One layer is all there is, so a delta
//! answer is the whole layer as well; the dialects differ in their messages only.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::{ControlPlane, Node};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use envoy_types::pb::envoy::service::runtime::v3::Runtime;
use envoy_types::pb::google::protobuf::{Any, Struct, Value, value::Kind};
use envoy_types::pb::google::rpc::Status as Problem;

use crate::adapters::actuator::envoy::rtds::fleet::{Layer, NodeIdentity, NodeRequest, Update};

/// The type of resource that is served here.
pub(super) const TYPE: &str = "type.googleapis.com/envoy.service.runtime.v3.Runtime";
/// How this server calls itself.
const CONTROL_PLANE: &str = "retryguard";

/// One pair of messages.
pub(super) trait Dialect: Send + 'static {
    /// What an Envoy sends.
    type Request: Send + 'static;
    /// What it is sent.
    type Response: Send + 'static;

    /// What a request comes to for the layer `name`; `None` where it is about another type of resource.
    fn decode(request: Self::Request, name: &str) -> Option<NodeRequest>;

    /// The answer that says it.
    fn encode(update: &Update, name: &str) -> Self::Response;
}

/// State of the world: each request names everything that is wanted.
#[derive(Debug)]
pub(super) struct StateOfTheWorld;

/// Delta: a request names what is wanted more, or less.
#[derive(Debug)]
pub(super) struct Delta;

impl Dialect for StateOfTheWorld {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;

    fn decode(request: DiscoveryRequest, name: &str) -> Option<NodeRequest> {
        ours(&request.type_url)?;
        Some(NodeRequest {
            node: identity(request.node),
            // Nothing named asks for everything.
            wants: Some(request.resource_names.is_empty() || has(&request.resource_names, name)),
            foreign: other(&request.resource_names, name),
            version: request.version_info,
            nonce: request.response_nonce,
            refusal: request.error_detail.map(message),
        })
    }

    fn encode(update: &Update, name: &str) -> DiscoveryResponse {
        DiscoveryResponse {
            version_info: update.layer.version.clone(),
            resources: vec![resource(&update.layer, name)],
            type_url: TYPE.to_owned(),
            nonce: update.nonce.clone(),
            control_plane: Some(control_plane()),
            ..DiscoveryResponse::default()
        }
    }
}

impl Dialect for Delta {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;

    fn decode(request: DeltaDiscoveryRequest, name: &str) -> Option<NodeRequest> {
        ours(&request.type_url)?;
        let subscribes = &request.resource_names_subscribe;
        let more = has(subscribes, name) || has(subscribes, "*");
        let less = has(&request.resource_names_unsubscribe, name);
        Some(NodeRequest {
            node: identity(request.node),
            wants: (more || less).then_some(more),
            foreign: other(subscribes, name).filter(|name| name != "*"),
            version: request
                .initial_resource_versions
                .get(name)
                .cloned()
                .unwrap_or_default(),
            nonce: request.response_nonce,
            refusal: request.error_detail.map(message),
        })
    }

    fn encode(update: &Update, name: &str) -> DeltaDiscoveryResponse {
        DeltaDiscoveryResponse {
            system_version_info: update.layer.version.clone(),
            resources: vec![Resource {
                name: name.to_owned(),
                version: update.layer.version.clone(),
                resource: Some(resource(&update.layer, name)),
                ..Resource::default()
            }],
            type_url: TYPE.to_owned(),
            nonce: update.nonce.clone(),
            control_plane: Some(control_plane()),
            ..DeltaDiscoveryResponse::default()
        }
    }
}

/// A stream for runtime alone may leave the type out.
fn ours(type_url: &str) -> Option<()> {
    (type_url.is_empty() || type_url == TYPE).then_some(())
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|other| other == name)
}

fn other(names: &[String], name: &str) -> Option<String> {
    names.iter().find(|other| *other != name).cloned()
}

fn identity(node: Option<Node>) -> Option<NodeIdentity> {
    node.map(|node| NodeIdentity {
        id: node.id,
        service: node.cluster,
    })
}

fn message(problem: Problem) -> String {
    problem.message
}

fn control_plane() -> ControlPlane {
    ControlPlane {
        identifier: CONTROL_PLANE.to_owned(),
    }
}

/// An Envoy gets the whole layer whenever anything in it changes, and a thousand Envoys get the same bytes.
fn resource(layer: &Layer, name: &str) -> Any {
    let value = layer.encoded.get_or_init(|| {
        let fields: HashMap<String, Value> = layer
            .entries
            .iter()
            .map(|(key, number)| {
                let kind = Some(Kind::NumberValue(*number));
                (key.clone(), Value { kind })
            })
            .collect();
        envoy_types::util::pack_any(Runtime {
            name: name.to_owned(),
            layer: Some(Struct { fields }),
        })
        .value
    });
    Any {
        type_url: TYPE.to_owned(),
        value: value.clone(),
    }
}
