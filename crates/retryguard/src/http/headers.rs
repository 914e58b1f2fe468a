//! The headers of a request, kept for later attempts.

use std::{cell::RefCell, time::Duration};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, PROXY_AUTHORIZATION},
};

use super::{peek::is_grpc_type, tags};

/// The headers of a request and a copy of them.
///
/// The first attempt takes the caller's own map, and most calls need no second one. So the copy is a plain list, which
/// costs neither hashes nor an index; a later attempt makes a map of it.
pub(super) struct KeptHeaders {
    map: Option<HeaderMap>,
    copy: List,
    /// Whether there are tags of ours, or gRPC's timeout, among them.
    pub(super) tagged: bool,
    /// Whether it is a request of gRPC.
    pub(super) grpc: bool,
}

type List = Vec<(HeaderName, HeaderValue)>;

thread_local! {
    /// Lists that no request uses any more.
    static SPARE: RefCell<Vec<List>> = const { RefCell::new(Vec::new()) };
}

/// How many lists a thread keeps, and the longest of them.
const SPARES: usize = 64;
const LONGEST_SPARE: usize = 64;

impl KeptHeaders {
    pub(super) fn new(map: HeaderMap) -> Self {
        let mut copy = SPARE
            .try_with(|spare| spare.borrow_mut().pop())
            .ok()
            .flatten()
            .unwrap_or_default();
        copy.reserve(map.len());
        let (mut tagged, mut grpc) = (false, false);
        for (name, value) in &map {
            tagged |= tags::is_tag(name);
            grpc |= *name == CONTENT_TYPE && is_grpc_type(value);
            copy.push((name.clone(), value.clone()));
        }
        Self {
            map: Some(map),
            copy,
            tagged,
            grpc,
        }
    }

    /// What the headers leave of the caller's deadline.
    #[inline]
    pub(super) fn left(&self) -> Option<Duration> {
        match &self.map {
            Some(map) if self.tagged => tags::Received::left_of_tagged(map),
            _ => None,
        }
    }

    /// The headers of the next attempt.
    #[inline]
    pub(super) fn next(&mut self) -> HeaderMap {
        match self.map.take() {
            Some(map) => map,
            None => self.copied(),
        }
    }

    #[cold]
    fn copied(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.copy.len() + tags::MOST);
        for (name, value) in &self.copy {
            map.append(name, value.clone());
        }
        map
    }

    /// A number for whom the target takes the sender for.
    pub(super) fn caller(&self) -> u64 {
        caller(|name| {
            let copies = self.copy.iter().filter(move |(it, _)| it == name);
            copies.map(|(_, value)| value)
        })
    }
}

impl Drop for KeptHeaders {
    fn drop(&mut self) {
        if self.copy.capacity() == 0 || self.copy.capacity() > LONGEST_SPARE {
            return;
        }
        self.copy.clear();
        let copy = std::mem::take(&mut self.copy);
        // Without the thread's storage, at the end of the thread, the list is dropped.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARES {
                spare.push(copy);
            }
        });
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
        let mut kept = KeptHeaders::new(map.clone());
        let mut first = kept.next();
        assert_eq!(first, map);
        first.clear();
        for _ in 0..2 {
            let again = kept.next();
            assert_eq!(again, map);
            let accepted: Vec<_> = again.get_all("accept").iter().collect();
            assert_eq!(accepted, ["text/html", "text/plain"]);
        }
    }

    #[test]
    fn a_spare_list_carries_nothing_over() {
        let mut map = HeaderMap::new();
        map.append(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
        let with = KeptHeaders::new(map);
        let credentials = with.caller();
        drop(with);
        let mut without = KeptHeaders::new(HeaderMap::new());
        assert_ne!(without.caller(), credentials);
        without.next();
        assert!(without.next().is_empty());
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
