//! The keys of the actuator `istio`.

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;

/// Which VirtualServices are looked at, and what is not written in them. The API server itself is found as
/// every tool of the field finds it: `KUBECONFIG`, the file in the home folder, or the account of the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IstioSettings {
    /// The namespaces whose VirtualServices may be changed; all of the cluster where none is written.
    pub namespaces: Vec<String>,
    /// The namespace of targets whose host is written without one.
    pub namespace: String,
    /// The cluster's domain.
    pub domain: String,
    /// The version of Istio's API.
    pub version: Version,
    /// How many retries a route without a block has: two, unless the mesh was given another default.
    pub default_attempts: u32,
    /// Whether a VirtualService is made for a target that has none.
    pub create: bool,
}

/// A version of `networking.istio.io`. They are one object under several names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Since Istio 1.22.
    V1,
    /// Before.
    V1Beta1,
    /// Long before.
    V1Alpha3,
}

impl Version {
    /// As it stands in objects.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
            Self::V1Alpha3 => "v1alpha3",
        }
    }
}

/// Which destination a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IstioTarget {
    /// Its host in any form that Istio knows; the target's own name where none is written.
    pub host: String,
}

impl Default for IstioSettings {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            namespace: "default".to_owned(),
            domain: "cluster.local".to_owned(),
            version: Version::V1,
            default_attempts: 2,
            create: true,
        }
    }
}

impl IstioSettings {
    pub(super) fn read(mut block: Block<'_>, _place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let usual = Self::default();
        let versions =
            [Version::V1, Version::V1Beta1, Version::V1Alpha3].map(|version| (version.as_str(), version));
        let namespaces = super::namespaces(&mut block, mistakes);
        let namespace = block.text("namespace", "the name of a namespace", mistakes);
        let domain = block.text("domain", "the cluster's domain", mistakes);
        let settings = Self {
            namespaces,
            namespace: namespace.map_or(usual.namespace, str::to_owned),
            domain: domain.map_or(usual.domain, |domain| {
                domain.trim_matches('.').to_ascii_lowercase()
            }),
            version: block
                .word("apiVersion", &versions, mistakes)
                .unwrap_or(usual.version),
            default_attempts: block
                .count("defaultAttempts", 0..=100, mistakes)
                .unwrap_or(usual.default_attempts),
            create: block.flag("create", mistakes).unwrap_or(usual.create),
        };
        block.close(mistakes);
        Some(settings)
    }
}

impl IstioTarget {
    pub(in crate::config) fn read(
        name: &str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let host = block.text("host", "a host, such as reviews.prod", mistakes);
        Some(Self {
            host: host.unwrap_or(name).to_owned(),
        })
    }
}
