//! The two ways in which an Envoy may ask: state of the world, and delta. One layer is all there is, so a delta
//! answer is the whole layer as well; the dialects differ in their messages only.

use std::collections::{BTreeMap, HashMap};

use envoy_types::pb::envoy::config::core::v3::{ControlPlane, Node};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use envoy_types::pb::envoy::service::runtime::v3::Runtime;
use envoy_types::pb::google::protobuf::{Any, Struct, Value, value::Kind};
use envoy_types::pb::google::rpc::Status as Problem;

use retryguard_core::ratio::Ratio;

use crate::adapters::actuator::discovery::fleet::{Layer, NodeIdentity, NodeRequest, Update};
use crate::adapters::actuator::discovery::server::Dialect;
use crate::adapters::actuator::envoy::keys;

/// The type of resource that is served here.
pub(in crate::adapters::actuator) const TYPE: &str = "type.googleapis.com/envoy.service.runtime.v3.Runtime";
/// How this server calls itself.
const CONTROL_PLANE: &str = "retryguard";

/// The layer that is served, as far as decisions do not change it.
#[derive(Debug)]
pub(in crate::adapters::actuator) struct RuntimeLayer {
    /// Its name in the Envoys' bootstrap.
    pub(super) name: String,
    /// The retry budgets that clusters have of their own.
    pub(super) budgets: BTreeMap<String, Ratio>,
}

impl RuntimeLayer {
    pub(in crate::adapters::actuator) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            budgets: BTreeMap::new(),
        }
    }
}

/// State of the world: each request names everything that is wanted.
#[derive(Debug, Default)]
pub(in crate::adapters::actuator) struct StateOfTheWorld;

/// Delta: a request names what is wanted more, or less.
#[derive(Debug, Default)]
pub(in crate::adapters::actuator) struct Delta;

impl Dialect for StateOfTheWorld {
    type Served = RuntimeLayer;
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;

    fn decode(&mut self, request: DiscoveryRequest, served: &RuntimeLayer) -> Option<NodeRequest> {
        let name = served.name.as_str();
        ours(&request.type_url)?;
        Some(NodeRequest {
            node: identity(request.node),
            // Nothing named asks for everything.
            wants: Some(request.resource_names.is_empty() || has(&request.resource_names, name)),
            foreign: other(&request.resource_names, name),
            version: request.version_info,
            nonce: request.response_nonce,
            anew: false,
            refusal: request.error_detail.map(message),
        })
    }

    fn encode(&self, update: &Update, served: &RuntimeLayer) -> DiscoveryResponse {
        DiscoveryResponse {
            version_info: update.layer.version.clone(),
            resources: vec![resource(&update.layer, served)],
            type_url: TYPE.to_owned(),
            nonce: update.nonce.clone(),
            control_plane: Some(control_plane()),
            ..DiscoveryResponse::default()
        }
    }
}

impl Dialect for Delta {
    type Served = RuntimeLayer;
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;

    fn decode(&mut self, request: DeltaDiscoveryRequest, served: &RuntimeLayer) -> Option<NodeRequest> {
        let name = served.name.as_str();
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
            anew: false,
            refusal: request.error_detail.map(message),
        })
    }

    fn encode(&self, update: &Update, served: &RuntimeLayer) -> DeltaDiscoveryResponse {
        DeltaDiscoveryResponse {
            system_version_info: update.layer.version.clone(),
            resources: vec![Resource {
                name: served.name.clone(),
                version: update.layer.version.clone(),
                resource: Some(resource(&update.layer, served)),
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
fn resource(layer: &Layer, served: &RuntimeLayer) -> Any {
    let value = layer.encoded.get_or_init(|| {
        let fields: HashMap<String, Value> = layer
            .states
            .iter()
            .flat_map(|(cluster, desired)| {
                let budget = served.budgets.get(cluster).copied().unwrap_or(Ratio::ONE);
                keys::entries(cluster, budget, *desired)
            })
            .map(|(key, number)| {
                let kind = Some(Kind::NumberValue(number));
                (key, Value { kind })
            })
            .collect();
        envoy_types::util::pack_any(Runtime {
            name: served.name.clone(),
            layer: Some(Struct { fields }),
        })
        .value
    });
    Any {
        type_url: TYPE.to_owned(),
        value: value.clone(),
    }
}
