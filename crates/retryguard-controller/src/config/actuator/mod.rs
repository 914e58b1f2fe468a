//! The key `actuators`.

pub mod aws;
pub mod envoy;
pub mod gateway_api;
pub mod grpc_xds;
pub mod haproxy;
pub mod istio;
pub mod linkerd;
pub mod policy_server;

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;
use crate::domain::limits::Limits;

/// What carries decisions: at most one of each kind.
#[derive(Debug, Clone, Default)]
pub struct Actuators {
    /// Envoys that ask for their runtime.
    pub envoy_rtds: Option<envoy::Rtds>,
    /// Envoys that are changed through their admin endpoint.
    pub envoy_admin: Option<envoy::Admin>,
    /// gRPC clients that ask for their routes.
    pub grpc_xds: Option<grpc_xds::GrpcXdsSettings>,
    /// HAProxys that are changed through their admin sockets.
    pub haproxy: Option<haproxy::HaproxySettings>,
    /// Istio's VirtualServices.
    pub istio: Option<istio::IstioSettings>,
    /// The Gateway API's HTTPRoutes.
    pub gateway_api: Option<gateway_api::GatewayApiSettings>,
    /// Linkerd's annotations.
    pub linkerd: Option<linkerd::LinkerdSettings>,
    /// Lambda, SSM and AppConfig.
    pub aws: Option<aws::AwsSettings>,
    /// Policies over HTTP.
    pub policy_server: Option<policy_server::PolicyServerSettings>,
}

impl Actuators {
    pub(super) fn read(block: &mut Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Self {
        let wanted = "one of envoy-rtds, envoy-admin, grpc-xds, haproxy, istio, gateway-api, linkerd, aws, policy-server";
        let Some(node) = block.need("actuators", wanted, mistakes) else {
            return Self::default();
        };
        let Some(mut block) = Block::open(node, "actuators", mistakes) else {
            return Self::default();
        };
        let all = Self {
            envoy_rtds: block
                .block("envoy-rtds", mistakes)
                .and_then(|inner| envoy::Rtds::read(inner, place, mistakes)),
            envoy_admin: block
                .block("envoy-admin", mistakes)
                .and_then(|inner| envoy::Admin::read(inner, place, mistakes)),
            grpc_xds: block
                .block("grpc-xds", mistakes)
                .and_then(|inner| grpc_xds::GrpcXdsSettings::read(inner, place, mistakes)),
            haproxy: block
                .block("haproxy", mistakes)
                .and_then(|inner| haproxy::HaproxySettings::read(inner, place, mistakes)),
            istio: block
                .block("istio", mistakes)
                .and_then(|inner| istio::IstioSettings::read(inner, place, mistakes)),
            gateway_api: block
                .block("gateway-api", mistakes)
                .and_then(|inner| gateway_api::GatewayApiSettings::read(inner, place, mistakes)),
            linkerd: block
                .block("linkerd", mistakes)
                .and_then(|inner| linkerd::LinkerdSettings::read(inner, place, mistakes)),
            aws: block
                .block("aws", mistakes)
                .and_then(|inner| aws::AwsSettings::read(inner, place, mistakes)),
            policy_server: block
                .block("policy-server", mistakes)
                .and_then(|inner| policy_server::PolicyServerSettings::read(inner, place, mistakes)),
        };
        // One with a mistake is not missing as well.
        if block.is_empty() {
            mistakes.add(block.at(), "no actuator", format!("add {wanted}"));
        }
        block.close(mistakes);
        all
    }

    /// A change that waits for nodes that do not answer must end by itself: one that is given up counts as failed.
    pub(super) fn check(&self, limits: &Limits, block: &Block<'_>, mistakes: &mut Mistakes) {
        let rtds = self.envoy_rtds.as_ref().map(|rtds| rtds.confirm_within);
        let grpc = self.grpc_xds.as_ref().map(|grpc| grpc.confirm_within);
        for (word, confirm_within) in [("envoy-rtds", rtds), ("grpc-xds", grpc)] {
            if let Some(confirm_within) = confirm_within.filter(|within| *within >= limits.timeout) {
                mistakes.add(
                    block.at(),
                    format!(
                        "`{word}` waits {} s for clients to confirm a change, and `limits.timeout` gives a change up after {} s",
                        confirm_within.as_secs_f64(),
                        limits.timeout.as_secs_f64()
                    ),
                    format!("write a shorter `confirmWithin` for `{word}`, or a longer `limits.timeout`"),
                );
            }
        }
    }

    /// The words of those that are configured.
    pub(super) fn configured(&self) -> Vec<&'static str> {
        [
            ("envoy-rtds", self.envoy_rtds.is_some()),
            ("envoy-admin", self.envoy_admin.is_some()),
            ("grpc-xds", self.grpc_xds.is_some()),
            ("haproxy", self.haproxy.is_some()),
            ("istio", self.istio.is_some()),
            ("gateway-api", self.gateway_api.is_some()),
            ("linkerd", self.linkerd.is_some()),
            ("aws", self.aws.is_some()),
            ("policy-server", self.policy_server.is_some()),
        ]
        .into_iter()
        .filter_map(|(word, configured)| configured.then_some(word))
        .collect()
    }
}

/// The namespaces whose objects may be changed; none for all of the cluster.
fn namespaces(block: &mut Block<'_>, mistakes: &mut Mistakes) -> Vec<String> {
    let written = block.texts("namespaces", "the names of namespaces", mistakes);
    written
        .unwrap_or_default()
        .into_iter()
        .map(str::to_owned)
        .collect()
}
