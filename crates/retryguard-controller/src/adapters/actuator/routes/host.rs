//! The names under which Istio knows a service.

use std::fmt;
use std::net::IpAddr;

/// A host in its full form, so that two ways to write one service are equal.
///
/// Istio reads a name without dots relative to the namespace of the object that it stands in. The forms with
/// one dot (`reviews.prod`) and with `.svc` are what people write for the same service, so they are taken
/// for it; a host outside of the cluster that happens to look like that is changed on both sides of every
/// comparison, and so still equals itself alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Host(String);

impl Host {
    /// `text` as it is meant in an object of `namespace`, in a cluster of `domain`.
    pub(super) fn new(text: &str, namespace: &str, domain: &str) -> Self {
        let text = text.trim().to_ascii_lowercase();
        let text = text.strip_suffix('.').unwrap_or(&text);
        if text.is_empty() || text.starts_with('*') || text.parse::<IpAddr>().is_ok() {
            return Self(text.to_owned());
        }
        let labels: Vec<&str> = text.split('.').collect();
        Self(match labels.as_slice() {
            [service] => format!("{service}.{namespace}.svc.{domain}"),
            [service, namespace] => format!("{service}.{namespace}.svc.{domain}"),
            [service, namespace, "svc"] => format!("{service}.{namespace}.svc.{domain}"),
            _ => text.to_owned(),
        })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `pattern`, a host of a VirtualService, takes the calls for this one: the same name, or a
    /// wildcard over it.
    pub(super) fn is_covered_by(&self, pattern: &Self) -> bool {
        match pattern.0.strip_prefix('*') {
            Some("") => true,
            Some(end) => self.0.len() > end.len() && self.0.ends_with(end),
            None => self == pattern,
        }
    }

    /// The service and its namespace, where this is a service of the cluster.
    pub(super) fn service(&self, domain: &str) -> Option<(&str, &str)> {
        let inner = self.0.strip_suffix(domain)?.strip_suffix(".svc.")?;
        inner
            .split_once('.')
            .filter(|(service, namespace)| !service.is_empty() && !namespace.contains('.'))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Host;

    fn host(text: &str) -> Host {
        Host::new(text, "prod", "cluster.local")
    }

    #[test]
    fn every_way_to_write_a_service_is_one() {
        for text in [
            "reviews",
            "reviews.prod",
            "reviews.prod.svc",
            "reviews.prod.svc.cluster.local",
            "reviews.prod.svc.cluster.local.",
            "Reviews",
        ] {
            assert_eq!(host(text).as_str(), "reviews.prod.svc.cluster.local", "{text}");
        }
    }

    #[test]
    fn other_namespaces_and_other_domains_are_other_hosts() {
        assert_ne!(host("reviews.test"), host("reviews"));
        assert_ne!(host("reviews"), Host::new("reviews", "test", "cluster.local"));
        assert_ne!(host("reviews.prod.svc.other.domain"), host("reviews"));
        assert_eq!(host("api.example.com").as_str(), "api.example.com");
        assert_eq!(host("10.0.0.1").as_str(), "10.0.0.1");
    }

    #[test]
    fn wildcards_cover_what_ends_like_them() {
        assert!(host("reviews").is_covered_by(&host("*")));
        assert!(host("reviews").is_covered_by(&host("*.prod.svc.cluster.local")));
        assert!(!host("reviews").is_covered_by(&host("*.test.svc.cluster.local")));
        assert!(host("reviews").is_covered_by(&host("reviews.prod")));
        assert!(!host("a.b.c.d").is_covered_by(&host("*a.b.c.d")));
    }

    #[test]
    fn a_service_of_the_cluster_has_a_namespace() {
        assert_eq!(
            host("reviews").service("cluster.local"),
            Some(("reviews", "prod"))
        );
        assert_eq!(host("api.example.com").service("cluster.local"), None);
        assert_eq!(
            host("*.prod.svc.cluster.local").service("cluster.local"),
            Some(("*", "prod"))
        );
    }
}
