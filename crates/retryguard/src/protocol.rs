//! What the driver must know of a protocol.

use std::time::Duration;

use retryguard_core::{Criticality, Outcome, Refusal, call::Attempt, outcome::FailureKind};
use retryguard_policy::{Classifier, Service};

use crate::context::Context;

pub use retryguard_core::call::Overrides;

/// How requests of one protocol are read, sent and sent again.
#[diagnostic::on_unimplemented(
    message = "the protocol `{Self}` does not know requests of the type `{Request}`",
    note = "`Http` takes `http::Request<B>` where `B: http_body::Body<Data = Bytes>`; `Plain` takes requests that are `Clone`"
)]
pub trait Protocol<Request> {
    /// What is kept of a request so that attempts can be made from it.
    type Kept;
    /// What the service below is sent.
    type Attempt;

    /// Reads a request and keeps what is needed to send it.
    fn accept(&self, request: Request, policy: &Service) -> (Asked, Self::Kept);

    /// Makes an attempt. `None` where the request cannot be sent (again).
    fn attempt(&self, kept: &mut Self::Kept, sending: &Sending) -> Option<Self::Attempt>;

    /// The context that the request carries with it, where it does (see [`Context::carry`]).
    fn context<'k>(&self, _kept: &'k Self::Kept) -> Option<&'k Context> {
        None
    }

    /// How the results of the request are read, where it has rules of its own.
    #[inline]
    fn classifier<'k>(&self, _kept: &'k Self::Kept) -> Option<&'k Classifier> {
        None
    }

    /// A number for the caller as the target sees it, such as a hash of the request's credentials. Asked for only
    /// when the target has limited a caller.
    fn caller(&self, _kept: &Self::Kept) -> u64 {
        0
    }

    /// Whether what is kept can still be sent again after an attempt was made from it.
    fn can_replay(&self, _kept: &Self::Kept) -> bool {
        true
    }
}

/// How results of one protocol are read.
#[diagnostic::on_unimplemented(
    message = "the protocol `{Self}` does not know how to read a response `{Response}` and an error `{Error}`",
    note = "`Http` reads `http::Response<B>` and errors that implement `std::error::Error`; over a service of boxed errors use \
            `HttpLayer`, which boxes them itself"
)]
pub trait Judge<Response, Error> {
    /// Whether a response is a success whatever the policy's classifier says, so that [`Judge::judge`] need not be asked. The
    /// way of most calls: it should take next to nothing. False where that is not clear.
    #[inline]
    fn succeeds(&self, _response: &Response) -> bool {
        false
    }

    /// What an attempt came to.
    fn judge(&self, result: &Result<Response, Error>, classifier: &Classifier) -> Outcome;

    /// The call is over and this response is handed to the caller.
    fn conclude(&self, _response: &mut Response, _report: &Report) {}
}

/// What a request asks for, beside itself. Made from [`Asked::default`], whose fields can be set.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Asked {
    /// Its own deadline.
    pub deadline: Option<tokio::time::Instant>,
    /// How much it matters, where it says so.
    pub criticality: Option<Criticality>,
    /// Whether doing it twice is doing it once.
    pub idempotent: bool,
    /// Whether it can be sent again.
    pub replayable: bool,
    /// Whether the feature it belongs to is switched off.
    pub feature_off: bool,
    /// What it asks for in place of the policy.
    pub overrides: Overrides,
}

/// One attempt as it is about to be sent.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Sending {
    /// Its number and kind.
    pub attempt: Attempt,
    /// How much the call matters.
    pub criticality: Criticality,
    /// What is left until the attempt is given up: a server may then drop the work on it.
    pub left: Option<Duration>,
    /// What is left of the call's deadline.
    pub call_left: Option<Duration>,
    /// When the caller itself wants nothing any more, the rest of a response included.
    pub until: Option<tokio::time::Instant>,
}

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Attempts sent.
    pub attempts: u8,
    /// How many of them were retries.
    pub retries: u8,
    /// How many of them were hedges.
    pub hedges: u8,
    /// The failure of the last attempt, and why it was not retried; `None` for a success.
    pub failed: Option<(FailureKind, Refusal)>,
    /// How many layers below have retried the failure.
    pub retried_below: u8,
    /// How long the caller should stay away, where the target or a part of the policy said so.
    pub retry_after: Option<Duration>,
}

impl Report {
    /// How a call went whose first attempt succeeded.
    pub const CLEAN: Self = Self {
        attempts: 1,
        retries: 0,
        hedges: 0,
        failed: None,
        retried_below: 0,
        retry_after: None,
    };

    /// How the call of this response went, from the response's extensions. A call whose first attempt succeeded leaves
    /// nothing there, because that would cost it several allocations, and is [`Report::CLEAN`].
    #[must_use]
    pub fn of(extensions: &http::Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self::CLEAN)
    }

    /// Puts the report where [`Report::of`] finds it.
    #[inline]
    pub(crate) fn attach(&self, extensions: &mut http::Extensions) {
        if *self != Self::CLEAN {
            extensions.insert(*self);
        }
    }
}

/// The protocol of requests that can be cloned, in which an error is a fault of the service below and every
/// response a success. For services that speak no protocol of ours; [`Plain::judged_by`] reads results
/// otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Plain<J = ErrorsAreFaults> {
    idempotent: bool,
    judge: J,
}

/// The default reading of [`Plain`]: an error is a fault.
#[derive(Debug, Clone, Copy, Default)]
pub struct ErrorsAreFaults;

impl Plain {
    /// Requests that may be sent twice.
    #[must_use]
    pub const fn idempotent() -> Self {
        Self {
            idempotent: true,
            judge: ErrorsAreFaults,
        }
    }

    /// Requests that must not be sent twice, unless they were certainly never sent.
    #[must_use]
    pub const fn not_idempotent() -> Self {
        Self {
            idempotent: false,
            judge: ErrorsAreFaults,
        }
    }
}

impl<J> Plain<J> {
    /// The same requests, with results read by a function.
    pub fn judged_by<F>(self, judge: F) -> Plain<F> {
        Plain {
            idempotent: self.idempotent,
            judge,
        }
    }
}

impl<Request: Clone, J> Protocol<Request> for Plain<J> {
    type Kept = Request;
    type Attempt = Request;

    #[inline]
    fn accept(&self, request: Request, _policy: &Service) -> (Asked, Request) {
        (
            Asked {
                idempotent: self.idempotent,
                replayable: true,
                ..Asked::default()
            },
            request,
        )
    }

    #[inline]
    fn attempt(&self, kept: &mut Request, _sending: &Sending) -> Option<Request> {
        Some(kept.clone())
    }
}

impl<Response, Error> Judge<Response, Error> for Plain<ErrorsAreFaults> {
    #[inline]
    fn succeeds(&self, _response: &Response) -> bool {
        true
    }

    #[inline]
    fn judge(&self, result: &Result<Response, Error>, _classifier: &Classifier) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(_) => Outcome::Failure(retryguard_core::Failure::new(FailureKind::Fault)),
        }
    }
}

impl<Response, Error, F> Judge<Response, Error> for Plain<F>
where
    F: Fn(&Result<Response, Error>) -> Outcome,
{
    #[inline]
    fn judge(&self, result: &Result<Response, Error>, _classifier: &Classifier) -> Outcome {
        (self.judge)(result)
    }
}
