//! The head of a request, kept for its later attempts.

use std::cell::RefCell;

use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version,
    header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION},
    request,
};

/// The head of a request.
///
/// The first attempt is given the head itself. What later ones need is copied before, without a map: most calls have no
/// second attempt, and a list is copied and dropped in a fraction of the time that a map takes. On the heap, because a
/// request is moved several times, and in memory that the thread's requests use one after the other.
pub(super) struct KeptHead(Option<Box<Held>>);

#[derive(Default)]
struct Held {
    /// The head itself, until the first attempt has it.
    head: Option<request::Parts>,
    /// What the later attempts need.
    method: Method,
    uri: Uri,
    version: Version,
    extensions: Extensions,
    /// In order, several of a name included.
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether there is no copy: the first attempt is the only one.
    once: bool,
    /// Whom the target takes the sender for, where there is no copy.
    caller: u64,
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
    #[inline]
    pub(super) fn new(head: request::Parts) -> Self {
        let mut held = spare();
        held.head = Some(head);
        Self(Some(held))
    }

    /// The head of the next attempt, with room for so many more headers. The first one leaves a copy if there may be
    /// another.
    #[inline]
    pub(super) fn attempt(&mut self, again: bool, room: usize) -> Option<request::Parts> {
        let held = &mut **self.0.as_mut()?;
        let Some(head) = &held.head else {
            return if held.once { None } else { Some(held.again(room)) };
        };
        if again {
            held.headers.reserve(head.headers.len());
            for (name, value) in &head.headers {
                held.headers.push((name.clone(), value.clone()));
            }
            held.method = head.method.clone();
            held.uri = head.uri.clone();
            held.version = head.version;
        } else {
            held.once = true;
            held.caller = caller_of(&head.headers);
        }
        held.extensions = head.extensions.clone();
        held.head.take()
    }

    #[inline]
    pub(super) fn extensions(&self) -> Option<&Extensions> {
        let held = self.0.as_ref()?;
        Some(
            held.head
                .as_ref()
                .map_or(&held.extensions, |head| &head.extensions),
        )
    }

    /// A number for whom the target takes the sender for.
    pub(super) fn caller(&self) -> u64 {
        let Some(held) = &self.0 else { return 0 };
        match &held.head {
            Some(head) => caller_of(&head.headers),
            None if held.once => held.caller,
            None => caller(|name| {
                let of_name = move |(known, _): &&(HeaderName, HeaderValue)| known == name;
                held.headers.iter().filter(of_name).map(|(_, value)| value)
            }),
        }
    }
}

impl Held {
    /// The head of a later attempt.
    #[cold]
    fn again(&self, room: usize) -> request::Parts {
        let mut head = Request::new(()).into_parts().0;
        head.method = self.method.clone();
        head.uri = self.uri.clone();
        head.version = self.version;
        head.extensions = self.extensions.clone();
        head.headers = HeaderMap::with_capacity(self.headers.len() + room);
        for (name, value) in &self.headers {
            head.headers.append(name, value.clone());
        }
        head
    }

    /// Forgets the request: its credentials do not stay in memory.
    #[inline]
    fn clear(&mut self) {
        self.head = None;
        self.uri = Uri::default();
        self.headers.clear();
        self.extensions.clear();
        self.once = false;
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

fn caller_of(headers: &HeaderMap) -> u64 {
    caller(|name| headers.get_all(name).iter())
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
        let mut kept = KeptHead::new(head());
        let caller = kept.caller();
        for _ in 0..3 {
            let again = kept.attempt(true, 2).unwrap();
            assert_eq!(again.method, original.method);
            assert_eq!(again.uri, original.uri);
            assert_eq!(again.version, original.version);
            assert_eq!(again.extensions.get::<u8>(), Some(&7));
            assert_eq!(again.headers, original.headers);
            let accepted: Vec<_> = again.headers.get_all("accept").iter().collect();
            assert_eq!(accepted, ["text/html", "text/plain"]);
            assert_eq!(kept.caller(), caller);
            assert_eq!(kept.extensions().unwrap().get::<u8>(), Some(&7));
        }
    }

    #[test]
    fn a_request_that_is_sent_once_is_not_copied() {
        let mut kept = KeptHead::new(head());
        let caller = kept.caller();
        assert!(kept.attempt(false, 2).is_some());
        assert!(kept.attempt(false, 2).is_none());
        assert_eq!(kept.caller(), caller);
        assert_eq!(kept.extensions().unwrap().get::<u8>(), Some(&7));
    }

    #[test]
    fn memory_is_used_again_without_what_was_in_it() {
        let mut kept = KeptHead::new(head());
        let _ = kept.attempt(true, 0);
        drop(kept);
        let spare = spare();
        assert!(spare.head.is_none() && spare.headers.is_empty() && spare.extensions.is_empty());
        assert!(spare.headers.capacity() >= 4);
    }
}
