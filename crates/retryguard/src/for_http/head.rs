//! The head of a request, kept for its later attempts.

use std::cell::RefCell;

use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version,
    header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION},
    request,
};

use super::tags::Seen;

/// What the later attempts of a request need of its head; nothing where there can be none.
///
/// The first attempt is given the head itself. What later ones need is copied before, without a map: most calls have no
/// second attempt, and a list is copied and dropped in a fraction of the time that a map takes. In memory that the
/// thread's requests use one after the other.
pub(super) struct KeptHead(Option<Box<Held>>);

#[derive(Default)]
struct Held {
    method: Method,
    /// `None` where only the extensions are kept.
    uri: Option<Uri>,
    version: Version,
    extensions: Extensions,
    /// In order, several of a name included.
    headers: Vec<(HeaderName, HeaderValue)>,
}

thread_local! {
    /// What no request uses any more, kept for the next one of this thread.
    #[expect(clippy::vec_box, reason = "a request takes the box itself")]
    static SPARE: RefCell<Vec<Box<Held>>> = const { RefCell::new(Vec::new()) };
}

/// How many of them a thread keeps, and how many headers each may have room for.
const SPARES: usize = 64;
const LONGEST: usize = 64;

impl KeptHead {
    /// Copies the head, and says what was seen of its headers on the way.
    #[inline]
    pub(super) fn copy(head: &request::Parts) -> (Self, Seen) {
        let mut held = spare();
        let mut seen = Seen::default();
        held.headers.reserve(head.headers.len());
        for (name, value) in &head.headers {
            seen.look(name, value);
            held.headers.push((name.clone(), value.clone()));
        }
        held.method = head.method.clone();
        held.uri = Some(head.uri.clone());
        held.version = head.version;
        held.extensions = head.extensions.clone();
        (Self(Some(held)), seen)
    }

    /// Keeps the extensions of a request that is sent once.
    #[inline]
    pub(super) fn extensions_of(head: &request::Parts) -> Self {
        if head.extensions.is_empty() {
            return Self(None);
        }
        let mut held = spare();
        held.extensions = head.extensions.clone();
        Self(Some(held))
    }

    /// The head of a later attempt, with room for so many more headers. `None` where there can be none.
    #[cold]
    pub(super) fn again(&self, room: usize) -> Option<request::Parts> {
        let held = self.0.as_ref()?;
        let uri = held.uri.clone()?;
        let mut head = Request::new(()).into_parts().0;
        head.method = held.method.clone();
        head.uri = uri;
        head.version = held.version;
        head.extensions = held.extensions.clone();
        head.headers = HeaderMap::with_capacity(held.headers.len() + room);
        for (name, value) in &held.headers {
            head.headers.append(name, value.clone());
        }
        Some(head)
    }

    #[inline]
    pub(super) fn extensions(&self) -> Option<&Extensions> {
        self.0.as_ref().map(|held| &held.extensions)
    }

    /// A number for the caller as the target sees it. `None` where no head is kept.
    pub(super) fn caller(&self) -> Option<u64> {
        let held = self.0.as_ref()?;
        held.uri.as_ref()?;
        Some(caller(|name| {
            let of_name = move |(known, _): &&(HeaderName, HeaderValue)| known == name;
            held.headers.iter().filter(of_name).map(|(_, value)| value)
        }))
    }

    /// Whether a later attempt can be made.
    #[inline]
    pub(super) fn is_copied(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.uri.is_some())
    }
}

impl Held {
    /// Forgets the request: its credentials do not stay in memory.
    #[inline]
    fn clear(&mut self) {
        self.uri = None;
        self.headers.clear();
        self.extensions.clear();
    }
}

impl Drop for KeptHead {
    #[inline]
    fn drop(&mut self) {
        let Some(mut held) = self.0.take() else { return };
        held.clear();
        if held.headers.capacity() > LONGEST {
            return;
        }
        // Without the thread's storage, at the end of the thread, it is dropped.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARES {
                spare.push(held);
            }
        });
    }
}

#[inline]
fn spare() -> Box<Held> {
    let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
    spare.ok().flatten().unwrap_or_default()
}

pub(super) fn caller_of(headers: &HeaderMap) -> u64 {
    caller(|name| headers.get_all(name).iter())
}

/// A number for the caller as the target sees it: the request's credentials. Requests without any are one caller.
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

    fn head() -> request::Parts {
        let request = Request::builder()
            .method(Method::PUT)
            .uri("http://payments/charges")
            .version(Version::HTTP_2)
            .header("accept", "text/html")
            .header("x-one", "1")
            .header("accept", "text/plain")
            .header("authorization", "Bearer 7")
            .extension(7_u8)
            .body(())
            .unwrap();
        request.into_parts().0
    }

    #[test]
    fn a_later_attempt_has_the_same_head_several_headers_of_a_name_included() {
        let original = head();
        let (kept, seen) = KeptHead::copy(&original);
        assert!(!seen.tags && !seen.grpc);
        for _ in 0..3 {
            let again = kept.again(2).unwrap();
            assert_eq!(again.method, original.method);
            assert_eq!(again.uri, original.uri);
            assert_eq!(again.version, original.version);
            assert_eq!(again.extensions.get::<u8>(), Some(&7));
            assert_eq!(again.headers, original.headers);
            let accepted: Vec<_> = again.headers.get_all("accept").iter().collect();
            assert_eq!(accepted, ["text/html", "text/plain"]);
            assert_eq!(kept.caller(), Some(caller_of(&original.headers)));
            assert_eq!(kept.extensions().unwrap().get::<u8>(), Some(&7));
        }
    }

    #[test]
    fn a_request_that_is_sent_once_is_not_copied() {
        let mut head = head();
        let kept = KeptHead::extensions_of(&head);
        assert!(kept.again(2).is_none() && kept.caller().is_none() && !kept.is_copied());
        assert_eq!(kept.extensions().unwrap().get::<u8>(), Some(&7));
        head.extensions.clear();
        assert!(KeptHead::extensions_of(&head).0.is_none());
    }

    #[test]
    fn memory_is_used_again_without_what_was_in_it() {
        drop(KeptHead::copy(&head()));
        let spare = spare();
        assert!(spare.uri.is_none() && spare.headers.is_empty() && spare.extensions.is_empty());
        assert!(spare.headers.capacity() >= 4);
    }
}
