//! What one stream of a gRPC client asks for, and what it is answered. gRPC clients speak the state of the world only.
//!
//! Routes go through the fleet, which knows what each client has. Listeners and clusters never change, so that they are
//! answered here: once for each list of names that a client asks for.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3::ControlPlane;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::google::protobuf::Any;

use crate::adapters::actuator::discovery::fleet::{NodeIdentity, NodeRequest, Update};
use crate::adapters::actuator::discovery::server::Dialect;
use crate::adapters::actuator::grpc_xds::resources;
use crate::config::actuator::grpc_xds::GrpcXdsTarget;
use crate::domain::state::RetryState;

const LISTENERS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const CLUSTERS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// How this server calls itself.
const CONTROL_PLANE: &str = "retryguard";
/// The version of what never changes.
const VERSION: &str = "retryguard/1";
/// The longest refusal that is logged.
const LONGEST_REFUSAL: usize = 512;

/// The services, by the name that clients use.
#[derive(Debug)]
pub(super) struct Services(BTreeMap<String, GrpcXdsTarget>);

impl Services {
    pub(super) fn new(targets: impl Iterator<Item = GrpcXdsTarget>) -> Self {
        Self(targets.map(|target| (target.service.clone(), target)).collect())
    }

    /// Those of the names that are services, once each.
    fn known(&self, mut names: Vec<String>) -> Vec<String> {
        names.retain(|name| self.0.contains_key(name));
        names.sort_unstable();
        names.dedup();
        names
    }

    fn resources(&self, names: &[String], of: impl Fn(&GrpcXdsTarget) -> Any) -> Vec<Any> {
        names.iter().filter_map(|name| self.0.get(name)).map(of).collect()
    }
}

/// What one client asks for, on one stream.
#[derive(Debug, Default)]
pub(super) struct Client {
    listeners: Asked,
    clusters: Asked,
    /// The services whose routes are asked for.
    routes: Vec<String>,
}

/// One kind of resources that never change.
#[derive(Debug, Default)]
struct Asked {
    names: Vec<String>,
    /// There has been a request.
    begun: bool,
    /// An answer is due.
    due: bool,
    answers: u64,
}

impl Asked {
    fn on_request(&mut self, names: Vec<String>) {
        if !self.begun || self.names != names {
            self.due = true;
        }
        self.begun = true;
        self.names = names;
    }

    fn answer(&mut self, type_url: &str, resources: Vec<Any>) -> DiscoveryResponse {
        self.due = false;
        self.answers += 1;
        response(type_url, VERSION, &self.answers.to_string(), resources)
    }
}

impl Dialect for Client {
    type Served = Services;
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;

    fn decode(&mut self, request: DiscoveryRequest, served: &Services) -> Option<NodeRequest> {
        let unknown = request
            .resource_names
            .iter()
            .find(|name| !served.0.contains_key(*name))
            .cloned();
        let names = served.known(request.resource_names);
        let refusal = request.error_detail.map(|problem| problem.message);
        let node = request.node.map(|node| NodeIdentity {
            id: node.id,
            service: node.cluster,
        });
        let mut of_fleet = NodeRequest {
            node,
            ..NodeRequest::default()
        };
        match request.type_url.as_str() {
            ROUTES => {
                of_fleet.anew = self.routes != names;
                of_fleet.wants = Some(!names.is_empty());
                of_fleet.version = request.version_info;
                of_fleet.nonce = request.response_nonce;
                of_fleet.refusal = refusal;
                self.routes = names;
            }
            LISTENERS => {
                log_refusal(refusal, "listeners");
                of_fleet.foreign = unknown;
                self.listeners.on_request(names);
            }
            CLUSTERS => {
                log_refusal(refusal, "clusters");
                self.clusters.on_request(names);
            }
            _ => return None,
        }
        Some(of_fleet)
    }

    fn encode(&self, update: &Update, served: &Services) -> DiscoveryResponse {
        let states = &update.layer.states;
        let desired = |target: &GrpcXdsTarget| {
            let state = states.get(&target.service);
            state.copied().unwrap_or(RetryState::Original)
        };
        let resources = served.resources(&self.routes, |target| resources::routes(target, desired(target)));
        response(ROUTES, &update.layer.version, &update.nonce, resources)
    }

    fn has_answer(&self) -> bool {
        self.listeners.due || self.clusters.due
    }

    fn next_answer(&mut self, served: &Services) -> Option<DiscoveryResponse> {
        if self.listeners.due {
            let resources = served.resources(&self.listeners.names, resources::listener);
            return Some(self.listeners.answer(LISTENERS, resources));
        }
        if self.clusters.due {
            let resources = served.resources(&self.clusters.names, resources::cluster);
            return Some(self.clusters.answer(CLUSTERS, resources));
        }
        None
    }
}

/// Routes that are refused are in the status; these are not expected to be.
fn log_refusal(refusal: Option<String>, what: &str) {
    if let Some(refusal) = refusal {
        let refusal: String = refusal.chars().take(LONGEST_REFUSAL).collect();
        tracing::warn!(what, refusal, "a gRPC client refuses what it was sent");
    }
}

fn response(type_url: &str, version: &str, nonce: &str, resources: Vec<Any>) -> DiscoveryResponse {
    DiscoveryResponse {
        version_info: version.to_owned(),
        resources,
        type_url: type_url.to_owned(),
        nonce: nonce.to_owned(),
        control_plane: Some(ControlPlane {
            identifier: CONTROL_PLANE.to_owned(),
        }),
        ..DiscoveryResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use envoy_types::pb::google::rpc::Status as Problem;
    use proptest::prelude::*;

    use super::*;
    use crate::adapters::actuator::discovery::fleet::Fleet;

    fn services() -> Services {
        let target = |service: &str| GrpcXdsTarget {
            service: service.to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 50051,
            retries: 3,
            retry_on: vec!["unavailable".to_owned()],
            backoff: Duration::from_millis(25),
            longest_backoff: Duration::from_millis(250),
        };
        Services::new(["ratings", "reviews"].map(target).into_iter())
    }

    fn ask(type_url: &str, names: &[&str], nonce: &str) -> DiscoveryRequest {
        DiscoveryRequest {
            type_url: type_url.to_owned(),
            resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
            response_nonce: nonce.to_owned(),
            ..DiscoveryRequest::default()
        }
    }

    /// An answer to each request would be an answer to each acknowledgement, without end.
    #[test]
    fn what_never_changes_is_answered_once_for_each_list_of_names() {
        let services = services();
        let mut client = Client::default();
        for type_url in [LISTENERS, CLUSTERS] {
            client.decode(ask(type_url, &["reviews", "unknown"], ""), &services);
            let answer = client.next_answer(&services).unwrap();
            assert_eq!((answer.resources.len(), answer.type_url.as_str()), (1, type_url));
            client.decode(ask(type_url, &["reviews", "unknown"], &answer.nonce), &services);
            assert!(!client.has_answer());
            client.decode(ask(type_url, &["reviews", "ratings"], &answer.nonce), &services);
            assert_eq!(client.next_answer(&services).unwrap().resources.len(), 2);
            assert_eq!(client.next_answer(&services), None);
        }
        // A name that no service has is answered too: the client shall not wait for it.
        let mut other = Client::default();
        other.decode(ask(LISTENERS, &["unknown"], ""), &services);
        assert_eq!(other.next_answer(&services).unwrap().resources.len(), 0);
    }

    #[test]
    fn routes_are_the_fleets_and_other_kinds_are_not_ours() {
        let services = services();
        let mut client = Client::default();
        let asked = client.decode(ask(ROUTES, &["reviews"], ""), &services).unwrap();
        assert!(asked.anew && asked.wants == Some(true));
        let asked = client.decode(ask(ROUTES, &["reviews"], "1"), &services).unwrap();
        assert!(!asked.anew && asked.nonce == "1");
        let asked = client
            .decode(ask(ROUTES, &["reviews", "ratings"], "1"), &services)
            .unwrap();
        assert!(asked.anew);
        let asked = client.decode(ask(ROUTES, &[], "1"), &services).unwrap();
        assert_eq!(asked.wants, Some(false));
        assert_eq!(
            client.decode(ask("type.googleapis.com/other", &[], ""), &services),
            None
        );
        let asked = client
            .decode(ask(LISTENERS, &["unknown"], ""), &services)
            .unwrap();
        assert_eq!((asked.foreign.as_deref(), asked.wants), (Some("unknown"), None));
    }

    fn any_request() -> impl Strategy<Value = DiscoveryRequest> {
        let type_url = prop_oneof![
            Just(LISTENERS),
            Just(CLUSTERS),
            Just(ROUTES),
            Just(""),
            Just("other")
        ];
        let name = prop_oneof![Just("reviews"), Just("ratings"), Just("unknown"), Just("")];
        let names = proptest::collection::vec(name, 0..4);
        let version = prop_oneof![Just(""), Just("retryguard/1 reviews=off"), Just("7")];
        let nonce = prop_oneof![Just(""), Just("1"), Just("2"), Just("x")];
        (type_url, names, version, nonce, any::<bool>()).prop_map(
            |(type_url, names, version, nonce, refuses)| DiscoveryRequest {
                version_info: version.to_owned(),
                error_detail: refuses.then(Problem::default),
                ..ask(type_url, &names, nonce)
            },
        )
    }

    proptest! {
        /// Whatever a client sends: each request is answered once at the most besides the routes, nothing but known services is
        /// in an answer, routes are sent only where they are asked for, and no request changes what is served.
        #[test]
        fn no_request_brings_a_stream_out_of_order(requests in proptest::collection::vec(any_request(), 0..40)) {
            let services = services();
            let mut client = Client::default();
            let mut fleet = Fleet::new();
            fleet.learn();
            let stream = fleet.open_stream("x").unwrap();
            fleet.serve(std::iter::empty());
            fleet.set(&["reviews".to_owned()], RetryState::Off).unwrap();
            let version = fleet.layer().version.clone();
            for request in requests {
                if let Some(asked) = client.decode(request, &services) {
                    fleet.on_request(stream, &asked);
                }
                if let Some(answer) = client.next_answer(&services) {
                    prop_assert!(answer.resources.len() <= 2);
                    prop_assert!(answer.type_url != ROUTES);
                }
                prop_assert!(!client.has_answer());
                if let Some(update) = fleet.next_update(stream) {
                    let answer = client.encode(&update, &services);
                    prop_assert!(!client.routes.is_empty());
                    prop_assert_eq!(answer.resources.len(), client.routes.len());
                    prop_assert_eq!(&answer.version_info, &version);
                }
                prop_assert!(fleet.next_update(stream).is_none());
            }
            prop_assert_eq!(&fleet.layer().version, &version);
        }
    }
}
