//! The data planes.

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "envoy")]
mod discovery;
#[cfg(feature = "envoy")]
pub mod envoy;
#[cfg(feature = "envoy")]
pub mod grpc_xds;
pub mod haproxy;
mod instances;
#[cfg(feature = "kubernetes")]
pub mod linkerd;
pub mod policy_server;
#[cfg(feature = "kubernetes")]
pub mod routes;
#[cfg(any(feature = "aws", feature = "kubernetes"))]
mod stored_state;

use std::sync::Arc;

use crate::adapters::start_error::StartError;
use crate::config::actuator as settings;
use crate::domain::target::TargetName;
use crate::reconcile::actuator::Actuator;

type Started = Result<Arc<dyn Actuator>, StartError>;

/// Starts the actuator `envoy-rtds`.
#[cfg(feature = "envoy")]
pub(crate) async fn envoy_rtds(
    settings: &settings::envoy::Rtds,
    targets: Vec<(TargetName, settings::envoy::EnvoyTarget)>,
) -> Started {
    Ok(Arc::new(envoy::Rtds::start(settings, targets).await?))
}

#[cfg(not(feature = "envoy"))]
pub(crate) async fn envoy_rtds(
    _settings: &settings::envoy::Rtds,
    _targets: Vec<(TargetName, settings::envoy::EnvoyTarget)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "envoy-rtds",
        feature: "controller",
    })
}

/// Starts the actuator `envoy-admin`.
#[cfg(feature = "envoy")]
pub(crate) async fn envoy_admin(
    settings: &settings::envoy::Admin,
    targets: Vec<(TargetName, settings::envoy::EnvoyTarget)>,
) -> Started {
    Ok(Arc::new(envoy::Admin::start(settings, targets)?))
}

#[cfg(not(feature = "envoy"))]
pub(crate) async fn envoy_admin(
    _settings: &settings::envoy::Admin,
    _targets: Vec<(TargetName, settings::envoy::EnvoyTarget)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "envoy-admin",
        feature: "controller",
    })
}

/// Starts the actuator `grpc-xds`.
#[cfg(feature = "envoy")]
pub(crate) async fn grpc_xds(
    settings: &settings::grpc_xds::GrpcXdsSettings,
    targets: Vec<(TargetName, settings::grpc_xds::GrpcXdsTarget)>,
) -> Started {
    Ok(Arc::new(grpc_xds::GrpcXds::start(settings, targets).await?))
}

#[cfg(not(feature = "envoy"))]
pub(crate) async fn grpc_xds(
    _settings: &settings::grpc_xds::GrpcXdsSettings,
    _targets: Vec<(TargetName, settings::grpc_xds::GrpcXdsTarget)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "grpc-xds",
        feature: "controller",
    })
}

/// Starts the actuator `haproxy`.
pub(crate) fn haproxy(
    settings: &settings::haproxy::HaproxySettings,
    targets: Vec<(TargetName, settings::haproxy::HaproxyTarget)>,
) -> Started {
    Ok(Arc::new(haproxy::Haproxy::start(settings, targets)?))
}

/// Starts the actuator `istio`.
#[cfg(feature = "kubernetes")]
pub(crate) async fn istio(
    settings: &settings::istio::IstioSettings,
    targets: Vec<(TargetName, settings::istio::IstioTarget)>,
) -> Started {
    let client = crate::adapters::kubernetes::client(None).await?;
    let instance = crate::adapters::kubernetes::instance();
    Ok(Arc::new(routes::Routes::istio(
        client,
        settings.clone(),
        &targets,
        &instance,
    )))
}

#[cfg(not(feature = "kubernetes"))]
pub(crate) async fn istio(
    _settings: &settings::istio::IstioSettings,
    _targets: Vec<(TargetName, settings::istio::IstioTarget)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "istio",
        feature: "kubernetes",
    })
}

/// Starts the actuator `gateway-api`.
#[cfg(feature = "kubernetes")]
pub(crate) async fn gateway_api(
    settings: &settings::gateway_api::GatewayApiSettings,
    targets: Vec<(TargetName, settings::gateway_api::GatewayApiTarget)>,
) -> Started {
    let client = crate::adapters::kubernetes::client(None).await?;
    let instance = crate::adapters::kubernetes::instance();
    Ok(Arc::new(routes::Routes::gateway_api(
        client,
        settings.clone(),
        &targets,
        &instance,
    )))
}

#[cfg(not(feature = "kubernetes"))]
pub(crate) async fn gateway_api(
    _settings: &settings::gateway_api::GatewayApiSettings,
    _targets: Vec<(TargetName, settings::gateway_api::GatewayApiTarget)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "gateway-api",
        feature: "kubernetes",
    })
}

/// Starts the actuator `linkerd`.
#[cfg(feature = "kubernetes")]
pub(crate) async fn linkerd(
    settings: &settings::linkerd::LinkerdSettings,
    targets: Vec<(TargetName, settings::linkerd::LinkerdTarget)>,
) -> Started {
    let client = crate::adapters::kubernetes::client(None).await?;
    let instance = crate::adapters::kubernetes::instance();
    Ok(Arc::new(linkerd::Linkerd::new(
        client,
        settings.clone(),
        &targets,
        &instance,
    )))
}

#[cfg(not(feature = "kubernetes"))]
pub(crate) async fn linkerd(
    _settings: &settings::linkerd::LinkerdSettings,
    _targets: Vec<(TargetName, settings::linkerd::LinkerdTarget)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "linkerd",
        feature: "kubernetes",
    })
}

/// Starts the actuator `aws`.
#[cfg(feature = "aws")]
pub(crate) async fn aws(
    settings: &settings::aws::AwsSettings,
    targets: Vec<(TargetName, settings::aws::AwsTarget)>,
) -> Started {
    Ok(Arc::new(aws::Aws::start(settings, targets).await?))
}

#[cfg(not(feature = "aws"))]
pub(crate) async fn aws(
    _settings: &settings::aws::AwsSettings,
    _targets: Vec<(TargetName, settings::aws::AwsTarget)>,
) -> Started {
    Err(StartError::NotBuilt {
        what: "aws",
        feature: "aws",
    })
}

/// Starts the actuator `policy-server`.
pub(crate) async fn policy_server(
    settings: &settings::policy_server::PolicyServerSettings,
    targets: Vec<(TargetName, settings::policy_server::PolicyServerTarget)>,
) -> Started {
    let server = policy_server::PolicyServer::start(&settings.folder, &settings.listen, targets).await?;
    Ok(Arc::new(server))
}
