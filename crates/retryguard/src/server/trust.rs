//! What is believed of a request's own words.

use std::{sync::Arc, time::Duration};

use http::{Extensions, HeaderMap, HeaderValue, Request};
use retryguard_policy::Trust;

use crate::for_http::tags::{self, ATTEMPT, CRITICALITY, Received};

/// Says what a request is believed, by its headers, by what the layers above have found out about it, and by its claims.
pub(super) type Mapping = Arc<dyn Fn(&HeaderMap, &Extensions, Received) -> Received + Send + Sync>;

/// Reads what a request says of itself and takes out of it what is not believed, so that a handler that passes its
/// headers on does not pass false ones on.
#[inline]
pub(super) fn read<A>(
    request: &mut Request<A>,
    tagged: bool,
    trust: Trust,
    mapping: Option<&Mapping>,
) -> Received {
    if mapping.is_none() && trust != Trust::Edge && !tagged {
        return Received::default();
    }
    read_tags(request, trust, mapping)
}

fn read_tags<A>(request: &mut Request<A>, trust: Trust, mapping: Option<&Mapping>) -> Received {
    let claimed = Received::read(request.headers());
    let grpc = Received::grpc_timeout(request.headers());
    let believed = match mapping {
        Some(mapping) => mapping(request.headers(), request.extensions(), claimed),
        None => claimed.believed(trust),
    };
    if believed != claimed || (mapping.is_none() && trust == Trust::Edge) {
        overwrite(
            request.headers_mut(),
            &believed,
            trust == Trust::Edge || mapping.is_some(),
        );
    }
    Received {
        // gRPC's own timeout is part of its protocol, and only its sender suffers from a short one.
        left: earlier(believed.left, grpc),
        call_left: earlier(believed.call_left, grpc),
        ..believed
    }
}

fn overwrite(headers: &mut HeaderMap, believed: &Received, all: bool) {
    if all {
        tags::remove(headers);
    }
    headers.insert(CRITICALITY, tags::criticality_value(believed.criticality));
    headers.insert(ATTEMPT, HeaderValue::from(u16::from(believed.attempt)));
}

#[inline]
pub(super) fn earlier(first: Option<Duration>, second: Option<Duration>) -> Option<Duration> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.min(second)),
        (first, second) => first.or(second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retryguard_core::Criticality;

    fn hostile() -> Request<()> {
        Request::builder()
            .header("retryguard-criticality", "critical-plus")
            .header("retryguard-deadline-ms", "5")
            .header("retryguard-attempt", "7")
            .header("retryguard-attempt-kind", "hedge")
            .header("retryguard-feature", "checkout")
            .header("retryguard-client", "impostor/1")
            .header("grpc-timeout", "9S")
            .body(())
            .unwrap()
    }

    fn names(request: &Request<()>) -> usize {
        let ours = |name: &&http::HeaderName| name.as_str().starts_with("retryguard-");
        request.headers().keys().filter(ours).count()
    }

    #[test]
    fn an_edge_ignores_and_overwrites() {
        let mut request = hostile();
        let read = read(&mut request, true, Trust::Edge, None);
        assert_eq!(read.criticality, Criticality::Critical);
        assert_eq!((read.attempt, read.left), (1, Some(Duration::from_secs(9))));
        assert_eq!(request.headers()["retryguard-criticality"], "critical");
        assert_eq!(request.headers()["retryguard-attempt"], "1");
        assert_eq!(names(&request), 2);
    }

    #[test]
    fn a_modest_server_believes_what_makes_a_request_matter_less() {
        let mut request = hostile();
        let modest = read(&mut request, true, Trust::Modest, None);
        assert_eq!(modest.criticality, Criticality::Critical);
        assert_eq!((modest.attempt, modest.left), (7, Some(Duration::from_millis(5))));
        assert_eq!(request.headers()["retryguard-criticality"], "critical");
        let sheddable = Received {
            criticality: Criticality::Sheddable,
            ..Received::default()
        };
        assert_eq!(sheddable.believed(Trust::Modest), sheddable);
    }

    #[test]
    fn inside_everything_is_believed() {
        let mut request = hostile();
        let read = read(&mut request, true, Trust::Internal, None);
        assert_eq!(read.criticality, Criticality::CriticalPlus);
        assert_eq!(names(&request), 6);
    }

    #[test]
    fn a_mapping_has_the_last_word() {
        #[derive(Clone)]
        struct Peer(&'static str);
        let mapping: Mapping = Arc::new(|_, extensions, claimed| match extensions.get::<Peer>() {
            Some(Peer("billing")) => claimed.believed(Trust::Internal),
            _ => claimed.believed(Trust::Edge),
        });
        let mut request = hostile();
        assert_eq!(
            read(&mut request, true, Trust::Internal, Some(&mapping)).attempt,
            1
        );
        let mut request = hostile();
        request.extensions_mut().insert(Peer("billing"));
        let read = read(&mut request, true, Trust::Edge, Some(&mapping));
        assert_eq!((read.attempt, read.criticality), (7, Criticality::CriticalPlus));
    }
}
