//! The keys of the actuator `gateway-api`.

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;

/// Which HTTPRoutes are looked at. The API server itself is found as for the actuator `istio`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayApiSettings {
    /// The namespaces whose HTTPRoutes may be changed; all of the cluster where none is written.
    pub namespaces: Vec<String>,
    /// The namespace of targets whose service is written without one.
    pub namespace: String,
    /// The version of the Gateway API.
    pub version: Version,
    /// How many retries a rule without a number has: the Gateway API leaves that to the implementation. None by default.
    pub default_attempts: u32,
}

/// A version of `gateway.networking.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Since the Gateway API 1.0.
    V1,
    /// Before.
    V1Beta1,
}

impl Version {
    /// As it stands in objects.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// Which backend a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayApiTarget {
    /// Its Service, with or without a namespace; the target's own name where none is written.
    pub service: String,
}

impl Default for GatewayApiSettings {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            namespace: "default".to_owned(),
            version: Version::V1,
            default_attempts: 0,
        }
    }
}

impl GatewayApiSettings {
    pub(super) fn read(mut block: Block<'_>, _place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let usual = Self::default();
        let versions = [Version::V1, Version::V1Beta1].map(|version| (version.as_str(), version));
        let namespaces = super::namespaces(&mut block, mistakes);
        let namespace = block.text("namespace", "the name of a namespace", mistakes);
        let settings = Self {
            namespaces,
            namespace: namespace.map_or(usual.namespace, str::to_owned),
            version: block
                .word("apiVersion", &versions, mistakes)
                .unwrap_or(usual.version),
            default_attempts: block
                .count("defaultAttempts", 0..=100, mistakes)
                .unwrap_or(usual.default_attempts),
        };
        block.close(mistakes);
        Some(settings)
    }
}

impl GatewayApiTarget {
    pub(in crate::config) fn read(
        name: &str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let service = block.text("service", "a Service, such as reviews.prod", mistakes);
        Some(Self {
            service: service.unwrap_or(name).to_owned(),
        })
    }
}
