//! What requests and responses carry for the other side.
//!
//! A server that knows the client, the criticality and the number of the attempt can shed the right requests; a client that
//! gets a Retry-After need not guess how long to wait.

use std::{cell::RefCell, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use retryguard_core::{Criticality, outcome::Hints, target::AttemptKind};
use retryguard_policy::{Classifier, Trust};

use super::peek::is_grpc_type;
use crate::clock::wall_clock;

/// The client's name and version, as `name/version`.
pub const CLIENT: HeaderName = HeaderName::from_static("retryguard-client");
/// The feature that caused the request.
pub const FEATURE: HeaderName = HeaderName::from_static("retryguard-feature");
/// The criticality of the request.
pub const CRITICALITY: HeaderName = HeaderName::from_static("retryguard-criticality");
/// The number of the attempt; the first is 1.
pub const ATTEMPT: HeaderName = HeaderName::from_static("retryguard-attempt");
/// `first`, `retry` or `hedge`.
pub const ATTEMPT_KIND: HeaderName = HeaderName::from_static("retryguard-attempt-kind");
/// Milliseconds that are left until the client gives this attempt up: a server then drops the work on it. A span and not
/// a moment, because the clocks of two machines differ.
pub const DEADLINE: HeaderName = HeaderName::from_static("retryguard-deadline-ms");
/// Milliseconds that are left of the call's deadline, where the attempt ends earlier. The end of an attempt bounds the wait
/// for the head of a response; its body may come until then.
pub const CALL_DEADLINE: HeaderName = HeaderName::from_static("retryguard-call-deadline-ms");
/// On a response: the server is overloaded and asks that this is not retried.
pub const DO_NOT_RETRY: HeaderName = HeaderName::from_static("retryguard-do-not-retry");
/// On a failed response: how many layers below have already retried it.
pub const RETRIED: HeaderName = HeaderName::from_static("retryguard-retried");
/// On a response: Retry-After in milliseconds, because whole seconds leave no room for jitter.
pub const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retryguard-retry-after-ms");
/// gRPC's own deadline.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// gRPC's own Retry-After; a negative number forbids the retry.
pub const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// gRPC's status.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// What an application says of a request, put into its extensions.
///
/// ```
/// use std::time::Duration;
/// use retryguard::{Criticality, for_http::tags::Tags};
///
/// let mut request = http::Request::new(());
/// let tags = Tags::new()
///     .criticality(Criticality::Sheddable)
///     .deadline(Duration::from_secs(2))
///     .max_retries(0);
/// request.extensions_mut().insert(tags);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Tags {
    /// How much it matters.
    pub criticality: Option<Criticality>,
    /// The feature that caused it.
    pub feature: Option<String>,
    /// How long the whole call may take.
    pub deadline: Option<Duration>,
    /// Whether the request is idempotent, where the method does not say so.
    pub idempotent: Option<bool>,
    /// Attempts after the first, in place of the policy's `maxRetries`. The guard and the budget bound them all the same.
    pub max_retries: Option<u8>,
    /// How long one attempt may take, in place of the policy's `attemptTimeout`.
    pub attempt_timeout: Option<Duration>,
    /// How responses and errors are read, in place of the policy's rules: the classifier of another service, say.
    pub classifier: Option<Classifier>,
}

impl Tags {
    /// Tags without a value.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How much the request matters.
    #[must_use]
    pub fn criticality(mut self, criticality: Criticality) -> Self {
        self.criticality = Some(criticality);
        self
    }

    /// The feature that caused it.
    #[must_use]
    pub fn feature(mut self, feature: impl Into<String>) -> Self {
        self.feature = Some(feature.into());
        self
    }

    /// How long the whole call may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Whether the request is idempotent, where the method does not say so.
    #[must_use]
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.idempotent = Some(idempotent);
        self
    }

    /// Attempts after the first, in place of the policy's `maxRetries`.
    #[must_use]
    pub fn max_retries(mut self, retries: u8) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// How long one attempt may take, in place of the policy's `attemptTimeout`.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = Some(timeout);
        self
    }

    /// How responses and errors are read, in place of the policy's rules.
    #[must_use]
    pub fn classifier(mut self, classifier: Classifier) -> Self {
        self.classifier = Some(classifier);
        self
    }
}

/// What a server reads from a request. Made from [`Received::default`] or from what was read, whose fields can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// How much it matters; critical where it does not say.
    pub criticality: Criticality,
    /// The number of the attempt; 1 where it does not say.
    pub attempt: u8,
    /// What is left until the caller gives the request up.
    pub left: Option<Duration>,
    /// What is left until the caller wants nothing of the response any more; `left` where it does not say.
    pub call_left: Option<Duration>,
}

impl Default for Received {
    /// What a request without tags means.
    fn default() -> Self {
        Self {
            criticality: Criticality::default(),
            attempt: 1,
            left: None,
            call_left: None,
        }
    }
}

impl Received {
    /// Reads the tags. Whatever cannot be read is as if it were not there: tags come from outside.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Self {
        if !is_tagged(headers) {
            return Self::default();
        }
        let left = number(headers, &DEADLINE).map(Duration::from_millis);
        let call_left = number(headers, &CALL_DEADLINE).map(Duration::from_millis);
        Self {
            criticality: text(headers, &CRITICALITY)
                .and_then(Criticality::from_word)
                .unwrap_or_default(),
            attempt: number(headers, &ATTEMPT)
                .and_then(|number| u8::try_from(number).ok())
                .unwrap_or(1)
                .max(1),
            left,
            call_left: call_left.or(left),
        }
    }

    /// What gRPC's own header leaves of the caller's deadline.
    pub(crate) fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
        text(headers, &GRPC_TIMEOUT).and_then(grpc_timeout)
    }

    /// What both leave.
    #[cfg(any(test, feature = "reqwest"))]
    pub(crate) fn left(headers: &HeaderMap) -> Option<Duration> {
        if is_tagged(headers) {
            Self::left_of_tagged(headers)
        } else {
            None
        }
    }

    /// The same of a request that is known to have tags.
    #[cold]
    pub(super) fn left_of_tagged(headers: &HeaderMap) -> Option<Duration> {
        let own = number(headers, &DEADLINE).map(Duration::from_millis);
        match (own, Self::grpc_timeout(headers)) {
            (Some(own), Some(grpc)) => Some(own.min(grpc)),
            (own, grpc) => own.or(grpc),
        }
    }

    /// As much of it as is believed. What a request says of itself is a claim of its sender.
    #[must_use]
    pub fn believed(self, trust: Trust) -> Self {
        match trust {
            Trust::Edge => Self::default(),
            Trust::Modest => Self {
                criticality: self.criticality.min(Criticality::Critical),
                ..self
            },
            Trust::Internal => self,
        }
    }

    /// Whether the request is a retry or a hedge.
    #[must_use]
    pub const fn again(&self) -> bool {
        self.attempt > 1
    }
}

/// Writes what a client says of one attempt. What a server takes for granted is left out: that it is the first attempt, and
/// the usual criticality. A request that has tags already, because it is passed on, is given all of them.
#[inline]
pub(crate) fn write_attempt(
    headers: &mut HeaderMap,
    tagged: bool,
    number: u8,
    kind: AttemptKind,
    criticality: Criticality,
    left: Option<Duration>,
    call_left: Option<Duration>,
) {
    if tagged || kind != AttemptKind::First || number != 1 {
        headers.insert(ATTEMPT, attempt_number(number));
        headers.insert(ATTEMPT_KIND, kind_value(kind));
    }
    if tagged || criticality != Criticality::default() {
        headers.insert(CRITICALITY, criticality_value(criticality));
    }
    if let Some(left) = left {
        headers.insert(DEADLINE, millis(left));
    }
    match call_left {
        Some(call_left) if Some(call_left) != left => {
            headers.insert(CALL_DEADLINE, millis(call_left));
        }
        _ if tagged => {
            headers.remove(CALL_DEADLINE);
        }
        _ => {}
    }
}

/// A span as a number of milliseconds. The first attempts of a service all have the same time left, so that the thread
/// keeps the last values: making one takes two allocations.
#[inline]
fn millis(left: Duration) -> HeaderValue {
    const KEPT: usize = 4;
    const ZERO: (u64, HeaderValue) = (0, HeaderValue::from_static("0"));
    thread_local! {
        static LAST: RefCell<[(u64, HeaderValue); KEPT]> =
            const { RefCell::new([ZERO; KEPT]) };
    }
    let left = whole_millis(left);
    let kept = LAST.try_with(|last| {
        let kept = &mut last.borrow_mut()[usize::try_from(left % KEPT as u64).unwrap_or_default()];
        if kept.0 != left {
            *kept = (left, HeaderValue::from(left));
        }
        kept.1.clone()
    });
    kept.unwrap_or_else(|_| HeaderValue::from(left))
}

/// Values that are made by the compiler. `from_static` checks each character where it runs.
macro_rules! value {
    ($text:literal) => {{
        const VALUE: HeaderValue = HeaderValue::from_static($text);
        VALUE
    }};
}

/// The number of an attempt. Hardly any call has more than four, and a number that is made takes an allocation.
fn attempt_number(number: u8) -> HeaderValue {
    match number {
        1 => value!("1"),
        2 => value!("2"),
        3 => value!("3"),
        4 => value!("4"),
        number => HeaderValue::from(u16::from(number)),
    }
}

fn kind_value(kind: AttemptKind) -> HeaderValue {
    match kind {
        AttemptKind::First => value!("first"),
        AttemptKind::Retry => value!("retry"),
        AttemptKind::Hedge => value!("hedge"),
    }
}

/// The word for how much a request matters.
pub(crate) fn criticality_value(criticality: Criticality) -> HeaderValue {
    match criticality {
        Criticality::Sheddable => value!("sheddable"),
        Criticality::SheddablePlus => value!("sheddable-plus"),
        Criticality::Critical => value!("critical"),
        Criticality::CriticalPlus => value!("critical-plus"),
    }
}

/// Whether there is a tag or a gRPC timeout among the headers. One look at each name is quicker than looking four names up,
/// and most requests from outside have none.
pub(crate) fn is_tagged(headers: &HeaderMap) -> bool {
    const MANY: usize = 32;
    headers.len() > MANY || headers.keys().any(|name| is_tag(name.as_str().as_bytes()))
}

/// What is seen of a request in one look at each of its headers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Tags of ours, or gRPC's timeout.
    pub(crate) tags: bool,
    /// It is a request of gRPC.
    pub(crate) grpc: bool,
}

impl Seen {
    #[inline(always)]
    pub(crate) fn look(&mut self, name: &HeaderName, value: &HeaderValue) {
        let name = name.as_str().as_bytes();
        // The first letter tells most of the others apart.
        match name.first() {
            Some(b'r' | b'g') => self.tags |= is_tag(name),
            Some(b'c') => self.grpc |= name == b"content-type" && is_grpc_type(value),
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut seen = Self::default();
        for (name, value) in headers {
            seen.look(name, value);
        }
        seen
    }
}

/// Whether a header is a tag of ours, or gRPC's timeout.
#[inline]
fn is_tag(name: &[u8]) -> bool {
    match name.first() {
        Some(b'r') => name.starts_with(b"retryguard-"),
        Some(b'g') => name == b"grpc-timeout",
        _ => false,
    }
}

/// Everything that we say of a request.
const OF_REQUESTS: [HeaderName; 7] = [
    CLIENT,
    FEATURE,
    CRITICALITY,
    ATTEMPT,
    ATTEMPT_KIND,
    DEADLINE,
    CALL_DEADLINE,
];

/// How many headers an attempt is given at the most: these, and gRPC's timeout.
pub(crate) const MOST: usize = 8;

/// Takes our tags off a request.
pub(crate) fn remove(headers: &mut HeaderMap) {
    for name in &OF_REQUESTS {
        headers.remove(name);
    }
}

/// Reads the hints of a failed response.
#[must_use]
pub fn read_hints(headers: &HeaderMap) -> Hints {
    let pushback = text(headers, &GRPC_PUSHBACK).and_then(count);
    let own = text(headers, &RETRY_AFTER_MS).and_then(count);
    let retry_after = own
        .or(pushback)
        .map(Duration::from_millis)
        .or_else(|| text(headers, &http::header::RETRY_AFTER).and_then(retry_after));
    // gRPC's rule (gRFC A6): a pushback that is negative or no number forbids the retry of this call. Of other calls
    // it says nothing; only our own mark does.
    let marked = headers.contains_key(DO_NOT_RETRY);
    let forbidden = pushback.is_none() && headers.contains_key(GRPC_PUSHBACK);
    Hints {
        retry_after,
        do_not_retry: marked || forbidden,
        caller_only: forbidden && !marked,
        never_sent: false,
        retried_below: number(headers, &RETRIED).map_or(0, |layers| u8::try_from(layers).unwrap_or(u8::MAX)),
    }
}

/// Retry-After in seconds or as a date.
fn retry_after(text: &str) -> Option<Duration> {
    if let Some(seconds) = count(text) {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(wall_clock()).unwrap_or_default())
}

/// A number of seconds or milliseconds. One that does not fit is a very long time, not nothing.
fn count(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

/// `100m` and the like: at most eight digits and a unit.
fn grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

/// The same in the other direction: in milliseconds while these fit into eight digits, which is a day.
pub(crate) fn grpc_timeout_of(left: Duration) -> HeaderValue {
    const MOST: u64 = 99_999_999;
    let millis = whole_millis(left);
    let text = if millis <= MOST {
        format!("{millis}m")
    } else {
        format!("{}S", left.as_secs().min(MOST))
    };
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("0m"))
}

#[inline]
pub(crate) fn whole_millis(span: Duration) -> u64 {
    span.as_secs()
        .saturating_mul(1000)
        .saturating_add(u64::from(span.subsec_millis()))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    text(headers, name)?.parse().ok()
}

#[cfg(test)]
mod tests;
