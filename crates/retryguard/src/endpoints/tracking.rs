//! Which endpoints a call has tried, carried from one attempt to the next.

use std::sync::{Arc, Mutex, PoisonError};

use retryguard_core::{Outcome, endpoints::Id};
use retryguard_policy::{Classifier, Service as ServicePolicy};

use crate::{
    context::Context,
    protocol::{Asked, Judge, Protocol, Report, Sending},
};

/// The protocol of requests that go to one of several [`Endpoints`](super::Endpoints): it wraps that of the requests
/// themselves, and gives all attempts of one call the same list of endpoints that were tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tracking<P> {
    protocol: P,
}

impl<P> Tracking<P> {
    /// Requests of this protocol.
    pub const fn new(protocol: P) -> Self {
        Self { protocol }
    }
}

/// An attempt of a call, and the endpoints that the call has tried.
#[derive(Debug)]
pub struct Tracked<R> {
    pub(super) request: R,
    pub(super) tried: Tried,
    /// Whether the call can be sent again if this attempt fails.
    pub(super) repeatable: bool,
}

/// What is kept of a request.
#[derive(Debug)]
pub struct KeptTracked<K> {
    kept: K,
    tried: Tried,
    repeatable: bool,
}

/// The endpoints that a call has tried.
#[derive(Debug, Clone, Default)]
pub(super) struct Tried(Arc<Mutex<Vec<Id>>>);

impl Tried {
    /// Looks at the list, and adds to it what `choose` chose.
    pub(super) fn add<T>(&self, choose: impl FnOnce(&[Id]) -> Option<(Id, T)>) -> Option<T> {
        let mut tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, chosen) = choose(&tried)?;
        tried.push(id);
        Some(chosen)
    }
}

impl<P: Protocol<R>, R> Protocol<R> for Tracking<P> {
    type Kept = KeptTracked<P::Kept>;
    type Attempt = Tracked<P::Attempt>;

    fn accept(&self, request: R, policy: &ServicePolicy) -> (Asked, Self::Kept) {
        let (asked, kept) = self.protocol.accept(request, policy);
        let kept = KeptTracked {
            kept,
            tried: Tried::default(),
            repeatable: asked.idempotent
                && asked.replayable
                && asked.overrides.retries.unwrap_or(policy.target.call.retries) > 0,
        };
        (asked, kept)
    }

    fn attempt(&self, kept: &mut Self::Kept, sending: &Sending) -> Option<Self::Attempt> {
        Some(Tracked {
            request: self.protocol.attempt(&mut kept.kept, sending)?,
            tried: kept.tried.clone(),
            repeatable: kept.repeatable,
        })
    }

    fn context<'k>(&self, kept: &'k Self::Kept) -> Option<&'k Context> {
        self.protocol.context(&kept.kept)
    }

    fn classifier<'k>(&self, kept: &'k Self::Kept) -> Option<&'k Classifier> {
        self.protocol.classifier(&kept.kept)
    }

    fn caller(&self, kept: &Self::Kept) -> u64 {
        self.protocol.caller(&kept.kept)
    }

    fn can_replay(&self, kept: &Self::Kept) -> bool {
        self.protocol.can_replay(&kept.kept)
    }
}

impl<P: Judge<Response, Error>, Response, Error> Judge<Response, Error> for Tracking<P> {
    fn succeeds(&self, response: &Response) -> bool {
        self.protocol.succeeds(response)
    }

    fn judge(&self, result: &Result<Response, Error>, classifier: &Classifier) -> Outcome {
        self.protocol.judge(result, classifier)
    }

    fn conclude(&self, response: &mut Response, report: &Report) {
        self.protocol.conclude(response, report);
    }
}
