//! The kinds of objects that have routes with retries, and the names of their fields.

use serde_json::Value;

use crate::adapters::actuator::routes::host::Host;

/// A kind of object. The names of fields are those of its definition in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Istio's VirtualService.
    VirtualService,
    /// The Gateway API's HTTPRoute.
    HttpRoute,
}

impl Dialect {
    /// The word of the actuator.
    pub(super) const fn actuator(self) -> &'static str {
        match self {
            Self::VirtualService => "istio",
            Self::HttpRoute => "gateway-api",
        }
    }

    /// Who defines it, as logs and losses say it.
    pub(super) const fn system(self) -> &'static str {
        match self {
            Self::VirtualService => "Istio",
            Self::HttpRoute => "the Gateway API",
        }
    }

    pub(super) const fn group(self) -> &'static str {
        match self {
            Self::VirtualService => "networking.istio.io",
            Self::HttpRoute => "gateway.networking.k8s.io",
        }
    }

    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::VirtualService => "VirtualService",
            Self::HttpRoute => "HTTPRoute",
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::VirtualService => "virtualservices",
            Self::HttpRoute => "httproutes",
        }
    }

    /// The list of routes in `spec`.
    pub(super) const fn list(self) -> &'static str {
        match self {
            Self::VirtualService => "http",
            Self::HttpRoute => "rules",
        }
    }

    /// The retries of a route.
    pub(super) const fn retries(self) -> &'static str {
        match self {
            Self::VirtualService => "retries",
            Self::HttpRoute => "retry",
        }
    }

    /// Where a route sends to.
    pub(super) const fn destinations(self) -> &'static str {
        match self {
            Self::VirtualService => "route",
            Self::HttpRoute => "backendRefs",
        }
    }

    /// The host of one destination, read in `namespace`.
    pub(super) fn host(self, destination: &Value, namespace: &str, domain: &str) -> Option<Host> {
        let text = |key: &str| destination.get(key).and_then(Value::as_str);
        match self {
            Self::VirtualService => {
                let host = destination.get("destination")?.get("host")?.as_str()?;
                Some(Host::new(host, namespace, domain))
            }
            // A backend of another kind than Service has no retries that a Service's guard could switch.
            Self::HttpRoute
                if text("kind").unwrap_or("Service") == "Service"
                    && text("group").unwrap_or_default().is_empty() =>
            {
                Some(Host::new(
                    text("name")?,
                    text("namespace").unwrap_or(namespace),
                    domain,
                ))
            }
            Self::HttpRoute => None,
        }
    }

    /// How many retries a block without a number stands for. In Istio it switches retries off. The Gateway API leaves it to
    /// the implementation; a block that says what to retry means at least one retry.
    pub(super) fn without_number(self, default: u32) -> u32 {
        match self {
            Self::VirtualService => 0,
            Self::HttpRoute => default.max(1),
        }
    }

    /// Whether a block of zero attempts may have other fields beside it. Istio refuses them.
    pub(super) const fn off_keeps_fields(self) -> bool {
        matches!(self, Self::HttpRoute)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn backends_of_the_gateway_api_are_services_unless_they_say_otherwise() {
        let host = |backend: Value| Dialect::HttpRoute.host(&backend, "prod", "cluster.local");
        let reviews = Some(Host::new("reviews.prod", "", "cluster.local"));
        assert_eq!(host(json!({"name": "reviews", "port": 80})), reviews);
        assert_eq!(
            host(json!({"group": "", "kind": "Service", "name": "reviews"})),
            reviews
        );
        assert_eq!(
            host(json!({"name": "reviews", "namespace": "test"})),
            Some(Host::new("reviews.test", "", "cluster.local"))
        );
        assert_eq!(
            host(json!({"group": "example.com", "kind": "Bucket", "name": "reviews"})),
            None
        );
        assert_eq!(host(json!({"kind": "Bucket", "name": "reviews"})), None);
        assert_eq!(host(json!({"port": 80})), None);
    }
}
