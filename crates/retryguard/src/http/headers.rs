//! The headers of a request, kept for all of its attempts.

use std::time::Duration;

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION},
};

use super::tags;

/// The headers of a request as its caller gave them.
///
/// Every attempt is given a map of its own, made with room for the tags. The caller's map mostly has no such room: to hand
/// it to the first attempt, grow it and keep a copy takes more instructions and as many allocations.
pub(super) struct KeptHeaders {
    map: HeaderMap,
    /// Whether there are tags of ours, or gRPC's timeout, among them.
    pub(super) tagged: bool,
    /// Whether it is a request of gRPC.
    pub(super) grpc: bool,
}

impl KeptHeaders {
    #[inline]
    pub(super) fn new(map: HeaderMap) -> Self {
        let (tagged, grpc) = tags::look(&map);
        Self { map, tagged, grpc }
    }

    /// What the headers leave of the caller's deadline.
    #[inline]
    pub(super) fn left(&self) -> Option<Duration> {
        if self.tagged {
            tags::Received::left_of_tagged(&self.map)
        } else {
            None
        }
    }

    /// The headers of an attempt.
    #[inline]
    pub(super) fn attempt(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.map.len() + tags::MOST);
        for (name, value) in &self.map {
            map.append(name, value.clone());
        }
        map
    }

    /// A number for whom the target takes the sender for.
    pub(super) fn caller(&self) -> u64 {
        caller(|name| self.map.get_all(name).iter())
    }
}

/// A number for whom the target takes the sender of a request for: its credentials. Requests without any are one caller.
pub(crate) fn caller<'h, V>(values: impl Fn(&'static HeaderName) -> V) -> u64
where
    V: Iterator<Item = &'h HeaderValue>,
{
    use std::hash::{DefaultHasher, Hash, Hasher};

    static CREDENTIALS: [HeaderName; 4] = [
        AUTHORIZATION,
        PROXY_AUTHORIZATION,
        COOKIE,
        HeaderName::from_static("x-api-key"),
    ];
    let mut hasher = DefaultHasher::new();
    for name in &CREDENTIALS {
        for value in values(name) {
            (name.as_str(), value.as_bytes()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_attempt_has_the_same_headers_several_of_a_name_included() {
        let mut map = HeaderMap::new();
        map.append("accept", HeaderValue::from_static("text/html"));
        map.append("x-one", HeaderValue::from_static("1"));
        map.append("accept", HeaderValue::from_static("text/plain"));
        let kept = KeptHeaders::new(map.clone());
        for _ in 0..2 {
            let again = kept.attempt();
            assert_eq!(again, map);
            let accepted: Vec<_> = again.get_all("accept").iter().collect();
            assert_eq!(accepted, ["text/html", "text/plain"]);
        }
    }

    #[test]
    fn tags_and_grpc_are_seen() {
        let of = |name: &'static str, value: &'static str| {
            let mut map = HeaderMap::new();
            map.append(name, HeaderValue::from_static(value));
            let kept = KeptHeaders::new(map);
            (kept.tagged, kept.grpc)
        };
        assert_eq!(of("retryguard-attempt", "2"), (true, false));
        assert_eq!(of("grpc-timeout", "1S"), (true, false));
        assert_eq!(of("content-type", "application/grpc+proto"), (false, true));
        assert_eq!(of("content-type", "text/html"), (false, false));
        assert_eq!(of("retry-after", "application/grpc"), (false, false));
    }
}
