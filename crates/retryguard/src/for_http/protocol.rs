//! How HTTP and gRPC requests are read, tagged and judged.

use std::{error::Error as StdError, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use retryguard_core::{Outcome, target::AttemptKind};
use retryguard_policy::{Classifier, NetworkError, Service as ServicePolicy};

use super::{
    errors,
    head::{self, KeptHead},
    patience::Patience,
    peek::{GrpcStatus, Trailers, is_grpc},
    replay::{ReplayBody, ReplaySource},
    tags::{self, Seen, Tags},
};
use crate::{
    clock,
    context::Context,
    protocol::{Asked, Judge, Overrides, Protocol, Report, Sending},
};

/// The protocol of `http::Request`s, gRPC included.
#[derive(Clone)]
pub struct Http {
    // `None` where nothing was asked for: a protocol is cloned with every call.
    own: Option<Arc<Own>>,
}

/// What a program asked for.
#[derive(Clone, Default)]
struct Own {
    client: Option<HeaderValue>,
    network: Option<ReadErrors>,
    idempotent: Option<IsIdempotent>,
    judge: Option<ReadResponses>,
}

type ReadResponses = Arc<dyn Fn(StatusCode, &HeaderMap) -> Option<Outcome> + Send + Sync>;
type ReadErrors = Arc<dyn Fn(&(dyn StdError + 'static)) -> NetworkFailure + Send + Sync>;
type IsIdempotent = Arc<dyn Fn(&Method, &str) -> bool + Send + Sync>;

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http")
            .field("client", &self.own.as_ref().and_then(|own| own.client.as_ref()))
            .finish_non_exhaustive()
    }
}

/// How an error of the service below is read.
pub type NetworkFailure = NetworkError;

impl Default for Http {
    fn default() -> Self {
        Self::new()
    }
}

impl Http {
    /// Requests that do not name their client.
    #[must_use]
    pub const fn new() -> Self {
        Self { own: None }
    }

    fn own(&mut self) -> &mut Own {
        Arc::make_mut(self.own.get_or_insert_default())
    }

    /// Requests that carry the client's name and version. A name that no header can carry is left out.
    #[must_use]
    pub fn client(mut self, name: &str, version: &str) -> Self {
        self.own().client = HeaderValue::from_str(&format!("{name}/{version}")).ok();
        self
    }

    /// Reads the errors of the service below by a function of one's own, in place of the library's adapters. It must say
    /// [`NetworkFailure::Connect`] or [`NetworkFailure::Unprocessed`] only where the request was certainly not carried
    /// out: these are sent again whatever their method.
    #[must_use]
    pub fn errors_read_by(
        mut self,
        read: impl Fn(&(dyn StdError + 'static)) -> NetworkFailure + Send + Sync + 'static,
    ) -> Self {
        self.own().network = Some(Arc::new(read));
        self
    }

    /// Requests that may be done twice although their method does not tell, by method and path: gRPC sends
    /// everything as POST.
    #[must_use]
    pub fn idempotent_when(
        mut self,
        is_idempotent: impl Fn(&Method, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.own().idempotent = Some(Arc::new(is_idempotent));
        self
    }

    /// Reads responses by a predicate of one's own, by status and headers; where it says `None`, the policy's rules hold.
    ///
    /// ```
    /// use http::StatusCode;
    /// use retryguard::{Failure, FailureKind, Outcome, for_http::Http};
    ///
    /// // A search that found nothing has failed: the index is being rebuilt.
    /// let protocol = Http::new().responses_read_by(|status, headers| {
    ///     let empty = status == StatusCode::OK && headers.contains_key("x-index-rebuilding");
    ///     empty.then(|| Outcome::Failure(Failure::new(FailureKind::Fault)))
    /// });
    /// ```
    #[must_use]
    pub fn responses_read_by(
        mut self,
        read: impl Fn(StatusCode, &HeaderMap) -> Option<Outcome> + Send + Sync + 'static,
    ) -> Self {
        self.own().judge = Some(Arc::new(read));
        self
    }

    /// Whether responses are read by the policy's rules alone.
    #[inline]
    pub(crate) fn reads_as_usual(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.judge.is_none())
    }

    /// What one's own predicate says of a response.
    #[inline]
    pub(crate) fn own_reading(&self, status: StatusCode, headers: &HeaderMap) -> Option<Outcome> {
        let read = self.own.as_ref()?.judge.as_ref()?;
        read(status, headers)
    }

    #[inline]
    pub(crate) fn is_idempotent<'p>(&self, method: &Method, path: impl FnOnce() -> &'p str) -> bool {
        let own = self.own.as_ref().and_then(|own| own.idempotent.as_ref());
        own.is_some_and(|is_idempotent| is_idempotent(method, path()))
    }

    /// Writes what the server may know of an attempt.
    #[inline]
    pub(crate) fn write_tags(
        &self,
        headers: &mut HeaderMap,
        has: Has,
        feature: Option<&HeaderValue>,
        sending: &Sending,
    ) {
        // Servers that do not read our tags get the deadline in gRPC's own header.
        if let Some(left) = sending.left
            && has.grpc
        {
            headers.insert(tags::GRPC_TIMEOUT, tags::grpc_timeout_of(left));
        }
        if !has.inside {
            if has.tags {
                tags::remove(headers);
            }
            return;
        }
        let attempt = &sending.attempt;
        tags::write_attempt(
            headers,
            has.tags,
            attempt.number,
            attempt.kind,
            sending.criticality,
            sending.left,
            sending.call_left,
        );
        if let Some(client) = self.own.as_ref().and_then(|own| own.client.as_ref()) {
            headers.insert(tags::CLIENT, client.clone());
        }
        if let Some(feature) = feature {
            headers.insert(tags::FEATURE, feature.clone());
        }
    }

    pub(crate) fn network(&self, error: &(dyn StdError + 'static), classifier: &Classifier) -> Outcome {
        let own = self.own.as_ref().and_then(|own| own.network.as_ref());
        classifier.network(match own {
            Some(read) => read(error),
            None => errors::read(error),
        })
    }
}

/// What is known of a request and of the server that it goes to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Has {
    /// The request has tags of ours, or gRPC's timeout.
    pub(crate) tags: bool,
    /// It is one of gRPC.
    pub(crate) grpc: bool,
    /// The server is one of our own.
    pub(crate) inside: bool,
}

/// What is kept of an HTTP request.
pub struct KeptRequest<B> {
    /// The first attempt, until it is sent; then the place where the next one is made.
    first: Option<Request<ReplayBody<B>>>,
    /// For the later ones.
    head: KeptHead,
    body: ReplaySource<B>,
    feature: Option<Box<HeaderValue>>,
    has: Has,
    /// The caller as the target sees it, where no head is kept.
    caller: u64,
    /// How long bodies of responses may pause.
    pause: Option<Duration>,
}

impl<B: Body<Data = Bytes>> KeptRequest<B> {
    /// An attempt after the first.
    #[cold]
    fn again(&mut self, kind: AttemptKind) -> Option<Request<ReplayBody<B>>> {
        if kind == AttemptKind::Hedge && !self.body.is_complete() {
            return None;
        }
        let body = self.body.attempt(Patience::NONE)?;
        let head = self.head.again(tags::MOST)?;
        Some(Request::from_parts(head, body))
    }

    #[inline]
    fn extensions(&self) -> Option<&Extensions> {
        match &self.first {
            Some(first) => Some(first.extensions()),
            None => self.head.extensions(),
        }
    }
}

impl<B: Body<Data = Bytes>> Protocol<Request<B>> for Http {
    type Kept = KeptRequest<B>;
    type Attempt = Request<ReplayBody<B>>;

    #[inline]
    fn accept(&self, request: Request<B>, policy: &ServicePolicy) -> (Asked, Self::Kept) {
        let (mut head, body) = request.into_parts();
        let by_hand = self.is_idempotent(&head.method, || head.uri.path());
        let idempotent = note_idempotency(&head.method, &mut head.headers, by_hand, policy);
        // Kept for every request: one that must not be done twice is still sent again where the connection
        // was refused and it was never sent at all.
        let mut body = ReplaySource::new(body, policy.replay_limit);
        let replayable = body.can_replay();
        let plain = head.extensions.is_empty();
        let own: Option<&Tags> = if plain { None } else { head.extensions.get() };
        let retries = own.and_then(|own| own.max_retries);
        let again = retries.unwrap_or(policy.target.call.retries) > 0 || policy.target.hedge.is_some();
        let (kept, seen) = if again && replayable {
            KeptHead::copy(&head)
        } else {
            (KeptHead::extensions_of(&head), Seen::of(&head.headers))
        };
        let (mut asked, feature) = if plain && !seen.tags {
            let asked = Asked {
                idempotent,
                ..Asked::default()
            };
            (asked, None)
        } else {
            let left = if seen.tags {
                tags::Received::left_of_tagged(&head.headers)
            } else {
                None
            };
            let (asked, feature) = read_request(idempotent, left, (own, head.extensions.get()), policy);
            (asked, feature.map(Box::new))
        };
        asked.replayable = replayable;
        let first = body.first();
        let kept = KeptRequest {
            first: Some(Request::from_parts(head, first)),
            head: kept,
            body,
            feature,
            has: Has {
                tags: seen.tags,
                grpc: seen.grpc,
                inside: policy.tags,
            },
            caller: 0,
            pause: policy.body_timeout,
        };
        (asked, kept)
    }

    #[inline]
    fn attempt(&self, kept: &mut Self::Kept, sending: &Sending) -> Option<Self::Attempt> {
        let patience = Patience::new(kept.pause, sending.until);
        if kept.first.is_none() {
            kept.first = kept.again(sending.attempt.kind);
        }
        // Written where it stands and then taken: a request is some hundred bytes, and each move copies them.
        if let Some(request) = &mut kept.first {
            if !kept.head.is_copied() {
                kept.caller = head::caller_of(request.headers());
            }
            let body = request.body_mut();
            (body.patience, body.grpc) = (patience, kept.has.grpc);
            self.write_tags(request.headers_mut(), kept.has, kept.feature.as_deref(), sending);
        }
        kept.first.take()
    }

    #[inline]
    fn can_replay(&self, kept: &Self::Kept) -> bool {
        kept.body.can_replay()
    }

    fn caller(&self, kept: &Self::Kept) -> u64 {
        match &kept.first {
            Some(first) => head::caller_of(first.headers()),
            None => kept.head.caller().unwrap_or(kept.caller),
        }
    }

    #[inline]
    fn context<'k>(&self, kept: &'k Self::Kept) -> Option<&'k Context> {
        kept.extensions()?.get()
    }

    #[inline]
    fn classifier<'k>(&self, kept: &'k Self::Kept) -> Option<&'k Classifier> {
        kept.extensions()?.get::<Tags>()?.classifier.as_ref()
    }
}

/// Whether a request may be done twice, by its method or its key. Gives it a key where the policy says so.
#[inline]
pub(crate) fn note_idempotency(
    method: &Method,
    headers: &mut HeaderMap,
    by_hand: bool,
    policy: &ServicePolicy,
) -> bool {
    let rules = &policy.idempotency;
    let by_nature = by_hand || rules.covers(method.as_str());
    // Most requests are idempotent by their method, and the name of the header would be parsed for each.
    let mut keyed = !by_nature && headers.get(rules.key_header.as_str()).is_some_and(is_key);
    if !by_nature
        && !keyed
        && rules.add_keys
        && let Ok(name) = http::HeaderName::try_from(rules.key_header.as_str())
    {
        headers.insert(name, key());
        keyed = true;
    }
    by_nature || keyed
}

/// Whether the value of the header is a key. A server cannot recognise an empty one, bare or quoted, and would do the request
/// twice.
fn is_key(value: &HeaderValue) -> bool {
    !matches!(value.as_bytes().trim_ascii(), b"" | b"\"\"")
}

/// What a request says of itself: by its tags, the context that it carries and what its headers leave of a deadline.
pub(crate) fn read_request(
    idempotent: bool,
    received: Option<Duration>,
    (own, carried): (Option<&Tags>, Option<&Context>),
    policy: &ServicePolicy,
) -> (Asked, Option<HeaderValue>) {
    let left = match (own.and_then(|own| own.deadline), received) {
        (Some(own), Some(received)) => Some(own.min(received)),
        (own, received) => own.or(received),
    };
    let feature = own.and_then(|own| own.feature.as_deref());
    let above = carried.and_then(Context::deadline);
    let asked = Asked {
        deadline: match (left.map(clock::after), above) {
            (Some(left), Some(above)) => Some(left.min(above)),
            (left, above) => left.or(above),
        },
        criticality: own
            .and_then(|own| own.criticality)
            .or(carried.map(Context::criticality)),
        idempotent: own.and_then(|own| own.idempotent).unwrap_or(idempotent),
        replayable: true,
        feature_off: feature
            .is_some_and(|feature| policy.target.features_off.iter().any(|off| **off == *feature)),
        overrides: Overrides {
            retries: own.and_then(|own| own.max_retries),
            attempt_timeout: own.and_then(|own| own.attempt_timeout),
        },
    };
    (
        asked,
        feature.and_then(|feature| HeaderValue::from_str(feature).ok()),
    )
}

/// A fresh idempotency key: 128 random bits, quoted as the draft standard has it.
fn key() -> HeaderValue {
    let text = format!("\"{:032x}\"", clock::random_bits());
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

impl<B, E: StdError + 'static> Judge<Response<B>, E> for Http {
    #[inline]
    fn succeeds(&self, response: &Response<B>) -> bool {
        let failed = |GrpcStatus(code): &GrpcStatus| *code != 0;
        response.status().as_u16() < 400
            && self.reads_as_usual()
            && !response.extensions().get().is_some_and(failed)
    }

    #[inline]
    fn judge(&self, result: &Result<Response<B>, E>, classifier: &Classifier) -> Outcome {
        match result {
            Ok(response) => self
                .own_reading(response.status(), response.headers())
                .unwrap_or_else(|| judge_response(response, classifier)),
            Err(error) => self.network(error, classifier),
        }
    }

    /// The report goes with the response: [`Report::of`] reads it.
    #[inline]
    fn conclude(&self, response: &mut Response<B>, report: &Report) {
        report.attach(response.extensions_mut());
    }
}

fn judge_response<B>(response: &Response<B>, classifier: &Classifier) -> Outcome {
    let status = response.status().as_u16();
    // The status of gRPC is among the extensions where it is known, and an empty map of these is seen at once.
    if status == 200
        && let Some(GrpcStatus(code)) = response.extensions().get()
        && *code != 0
        && is_grpc(response.headers())
    {
        let trailers = response.extensions().get::<Trailers>();
        let hints = tags::read_hints(trailers.map_or(response.headers(), |trailers| &trailers.0));
        return classifier.grpc(*code, hints);
    }
    if status < 400 {
        return Outcome::Success;
    }
    classifier.http(status, tags::read_hints(response.headers()))
}
