//! The resources of one service, as gRPC clients read them.
//!
//! Which fields they read is in the gRPC proposals A27 (listeners, routes, clusters), A28 (fractions), A37 (clusters that name
//! a host) and A44 (retries).

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use envoy_types::pb::envoy::config::cluster::v3::{CircuitBreakers, Cluster};
use envoy_types::pb::envoy::config::core::v3::address::Address as AddressKind;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ConfigSource, RuntimeFractionalPercent, SocketAddress,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use envoy_types::pb::envoy::config::listener::v3::{ApiListener, Listener};
use envoy_types::pb::envoy::config::route::v3::retry_policy::RetryBackOff;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    RetryPolicy, Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost,
};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds,
};
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;
use envoy_types::pb::google::protobuf::{self, Any, UInt32Value};
use envoy_types::util::pack_any;
use retryguard_core::ratio::Ratio;

use crate::config::actuator::grpc_xds::GrpcXdsTarget;
use crate::domain::state::RetryState;

/// What clients ask for first: it names the routes.
pub(super) fn listener(target: &GrpcXdsTarget) -> Any {
    let manager = HttpConnectionManager {
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            config_source: Some(ConfigSource {
                config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
                ..ConfigSource::default()
            }),
            route_config_name: target.service.clone(),
        })),
        http_filters: vec![HttpFilter {
            name: "router".to_owned(),
            config_type: Some(ConfigType::TypedConfig(pack_any(Router::default()))),
            ..HttpFilter::default()
        }],
        ..HttpConnectionManager::default()
    };
    pack_any(Listener {
        name: target.service.clone(),
        api_listener: Some(ApiListener {
            api_listener: Some(pack_any(manager)),
        }),
        ..Listener::default()
    })
}

/// Where the service is. The client resolves the host and connects to all of its addresses in turn.
pub(super) fn cluster(target: &GrpcXdsTarget) -> Any {
    let address = SocketAddress {
        address: target.host.clone(),
        port_specifier: Some(PortSpecifier::PortValue(target.port.into())),
        ..SocketAddress::default()
    };
    let endpoint = Endpoint {
        address: Some(Address {
            address: Some(AddressKind::SocketAddress(address)),
        }),
        ..Endpoint::default()
    };
    pack_any(Cluster {
        name: target.service.clone(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::LogicalDns.into())),
        load_assignment: Some(ClusterLoadAssignment {
            cluster_name: target.service.clone(),
            endpoints: vec![LocalityLbEndpoints {
                lb_endpoints: vec![LbEndpoint {
                    host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
                    ..LbEndpoint::default()
                }],
                ..LocalityLbEndpoints::default()
            }],
            ..ClusterLoadAssignment::default()
        }),
        // Without a threshold a client lets no more than 1,024 calls be in progress at once.
        circuit_breakers: Some(CircuitBreakers {
            thresholds: vec![Thresholds {
                max_requests: Some(UInt32Value { value: u32::MAX }),
                ..Thresholds::default()
            }],
            ..CircuitBreakers::default()
        }),
        ..Cluster::default()
    })
}

/// The routes of a service while its retries are as desired: with the retry policy, without it, or with it for a share of the
/// calls, which the client draws for each call.
pub(super) fn routes(target: &GrpcXdsTarget, desired: RetryState) -> Any {
    let with = Some(retry_policy(target));
    let routes = match desired {
        RetryState::Original => vec![route(target, with, None)],
        RetryState::Off => vec![route(target, None, None)],
        RetryState::Part { share, .. } => {
            vec![route(target, with, Some(share)), route(target, None, None)]
        }
    };
    pack_any(RouteConfiguration {
        name: target.service.clone(),
        virtual_hosts: vec![VirtualHost {
            name: target.service.clone(),
            domains: vec!["*".to_owned()],
            routes,
            ..VirtualHost::default()
        }],
        ..RouteConfiguration::default()
    })
}

fn route(target: &GrpcXdsTarget, retry_policy: Option<RetryPolicy>, share: Option<Ratio>) -> Route {
    Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Prefix(String::new())),
            runtime_fraction: share.map(|share| RuntimeFractionalPercent {
                default_value: Some(FractionalPercent {
                    numerator: millionths(share),
                    denominator: DenominatorType::Million.into(),
                }),
                ..RuntimeFractionalPercent::default()
            }),
            ..RouteMatch::default()
        }),
        action: Some(Action::Route(RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster(target.service.clone())),
            retry_policy,
            ..RouteAction::default()
        })),
        ..Route::default()
    }
}

fn millionths(share: Ratio) -> u32 {
    u32::try_from(share.parts() / (Ratio::PARTS / 1_000_000)).unwrap_or(1_000_000)
}

fn retry_policy(target: &GrpcXdsTarget) -> RetryPolicy {
    RetryPolicy {
        retry_on: target.retry_on.join(","),
        num_retries: Some(UInt32Value {
            value: target.retries,
        }),
        retry_back_off: Some(RetryBackOff {
            base_interval: Some(duration(target.backoff)),
            max_interval: Some(duration(target.longest_backoff)),
        }),
        ..RetryPolicy::default()
    }
}

fn duration(duration: Duration) -> protobuf::Duration {
    protobuf::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}
