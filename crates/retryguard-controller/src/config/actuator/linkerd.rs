//! The keys of the actuator `linkerd`.

use retryguard_policy::reading::{Block, Body, Kind, Mistakes, wrong};

use crate::config::Place;

/// Which Services and routes are looked at. The API server itself is found as for the actuator `istio`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkerdSettings {
    /// The namespaces whose Services and routes may be changed; all of the cluster where none is written.
    pub namespaces: Vec<String>,
    /// The namespace of targets whose Service is written without one.
    pub namespace: String,
}

/// Which Service a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkerdTarget {
    /// `NAME` or `NAME.NAMESPACE`; the target's own name where none is written.
    pub service: String,
}

impl Default for LinkerdSettings {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            namespace: "default".to_owned(),
        }
    }
}

impl LinkerdSettings {
    pub(super) fn read(mut block: Block<'_>, _place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let namespaces = super::namespaces(&mut block, mistakes);
        let namespace = block.text("namespace", "the name of a namespace", mistakes);
        let settings = Self {
            namespaces,
            namespace: namespace.map_or(Self::default().namespace, str::to_owned),
        };
        block.close(mistakes);
        Some(settings)
    }
}

impl LinkerdTarget {
    pub(in crate::config) fn read(
        name: &str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let wanted = "a Service, such as reviews or reviews.prod";
        let node = block.take("service");
        block.describe("service", Kind::Text);
        let service = match node.map(|node| &node.body) {
            None => name,
            Some(Body::Scalar { text, .. }) if text.split('.').count() <= 2 => text,
            Some(_) => {
                if let Some(node) = node {
                    wrong(node, "service", wanted, mistakes);
                }
                return None;
            }
        };
        Some(Self {
            service: service.to_owned(),
        })
    }
}
